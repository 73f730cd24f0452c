"""How fast an operation acts on jobs, and when it stops by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from riverui.domain.jobs import JobOutcome, JobState

PER_MINUTE = range(1, 1_000_001)
"""Allowed jobs per minute; a database does not change more."""
CANARY = range(1, 101)
"""Allowed jobs of a trial; more would not be a trial."""
PERCENT = range(1, 101)
"""Allowed percentages of tried jobs that fail again."""
_ALLOWED = {"per_minute": PER_MINUTE, "canary": CANARY, "stop_failing": PERCENT}
STOP_FAILING = 20
"""The percentage of failures above which a trial has failed, by default."""
WATCHED = 200
"""Most jobs watched at once: enough for a percentage, and one short statement."""
REMEMBERED = 100
"""Newest outcomes from which the percentage is computed, so that it follows changes."""
FEWEST = 10
"""Outcomes needed to judge the percentage; with fewer it is chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How fast an operation may act; without limits, as fast as the database allows."""

    per_minute: int | None = None
    """Maximum jobs per minute."""
    canary: int | None = None
    """Jobs to try first; the rest follows once few enough of these have failed."""
    stop_failing: int | None = None
    """Maximum percentage of jobs that fail again; the operation stops above it."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the value written by `stored`; raise one of ODD_VALUE for anything else."""
        found = {name: stored[name] for name in cls.__slots__ if name in stored}
        for name, value in found.items():
            if type(value) is not int or value not in _ALLOWED[name]:
                raise ValueError(f"{name} is {value!r}")
        return cls(**found)

    @property
    def stored(self) -> Mapping[str, int]:
        """Return the limits that are set, by name."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def most_failing(self) -> int | None:
        """Return the maximum percentage of jobs that fail again; None without a maximum."""
        return self.stop_failing or (STOP_FAILING if self.canary else None)

    @property
    def words(self) -> str:
        """Return the pace as a sentence; empty for full speed."""
        parts = []
        if self.canary:
            parts.append(f"{self.canary} jobs first")
        if self.per_minute:
            parts.append(f"at most {self.per_minute:,} a minute")
        if self.most_failing is not None:
            parts.append(f"stops if more than {self.most_failing} % fail again")
        sentence = ", ".join(parts)
        return sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """The outcomes of jobs that the operation made run again."""

    pending: Mapping[int, int] = field(default_factory=dict)
    """Ids of jobs without an outcome yet → their failed attempts before."""
    outcomes: str = ""
    """The newest outcomes, oldest first: + for a job that completed, - for one that failed."""
    passed: bool = False
    """Whether the trial has ended successfully."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the value written by `stored`; raise one of ODD_VALUE for anything else."""
        pending = {int(each): int(errors) for each, errors in stored.get("pending", {}).items()}
        outcomes, passed = stored.get("outcomes", ""), bool(stored.get("passed"))
        if not set(outcomes) <= {"+", "-"}:
            raise ValueError(f"the outcomes are {outcomes!r}")
        return cls(pending=pending, outcomes="".join(outcomes), passed=passed)

    @property
    def stored(self) -> Mapping[str, Any]:
        """Return it as plain data."""
        return {
            "pending": {str(each): errors for each, errors in self.pending.items()},
            "outcomes": self.outcomes,
            "passed": self.passed,
        }

    @property
    def failed(self) -> int:
        """Return the number of failures among the newest outcomes."""
        return self.outcomes.count("-")

    def with_jobs(self, found: Mapping[int, JobOutcome]) -> Self:
        """Return a copy that includes jobs that were just made to run again, as many as may be
        watched.
        """
        room = WATCHED - len(self.pending)
        fresh = {each: at.errors for each, at in list(found.items())[: max(0, room)]}
        return replace(self, pending={**self.pending, **fresh})

    def with_outcomes(self, found: Mapping[int, JobOutcome]) -> Self:
        """Return a copy with the outcomes of pending jobs. Cancelled and deleted jobs do
        not count.
        """
        pending, outcomes = dict(self.pending), self.outcomes
        for job_id, before in self.pending.items():
            now = found.get(job_id, _NO_JOB)
            if now.errors > before:
                outcomes += "-"
            elif now.state is JobState.COMPLETED:
                outcomes += "+"
            elif now.state not in (None, JobState.CANCELLED):
                continue
            del pending[job_id]
        return replace(self, pending=pending, outcomes=outcomes[-REMEMBERED:])

    def reason_to_stop(self, pace: Pace, *, tried: bool) -> str:
        """Return why too many jobs have failed again, as a sentence; empty if they have not.

        Once all jobs of a trial were made to run (`tried`), their outcomes are judged when all have
        ended, however few they are.
        """
        most, known = pace.most_failing, len(self.outcomes)
        enough = known >= FEWEST or (tried and known and not self.pending)
        if most is None or not enough or self.failed * 100 <= most * known:
            return ""
        return (
            f"It stopped by itself: {self.failed} of the newest {known} jobs failed again"
            f" ({round(100 * self.failed / known)} %, more than {most} %)."
        )


_NO_JOB = JobOutcome(state=None, errors=0)
