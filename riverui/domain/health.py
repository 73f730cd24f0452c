"""The health report: is work flowing, is it succeeding, can the figures be trusted.

Each answer comes with its evidence, the causes that were ruled out, and one action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from riverui.domain.checks import Check, Result


class Level(StrEnum):
    """How bad something is."""

    OK = "ok"
    """It was measured, and is as usual."""
    UNKNOWN = "unknown"
    """It was not measured, or not lately: nothing bad was found, and nothing is promised."""
    WARN = "warn"
    """Somebody should look."""
    CRITICAL = "critical"
    """Somebody should look now."""

    @property
    def badness(self) -> int:
        """Return its place among all levels, the best first."""
        return tuple(Level).index(self)


class Cause(StrEnum):
    """What was found to be behind the trouble."""

    NONE = ""
    NOBODY_WORKS = "nobody_works"
    """No client takes jobs: of any queue, or of one."""
    LOST_CLIENT = "lost_client"
    """A client holds jobs and gives no sign of life."""
    PAUSED = "paused"
    """Jobs wait in queues that somebody paused."""
    LEADERLESS = "leaderless"
    """No client leads: due jobs are not made available."""
    BLOCKED = "blocked"
    """A transaction holds locks that others wait for."""
    LONG_TRANSACTION = "long_transaction"
    """A transaction has been open for so long that Postgres cannot clean up behind the jobs."""
    NOTIFICATIONS = "notifications"
    """Postgres's queue of notifications fills up."""
    RETRY_STORM = "retry_storm"
    """Most of what waits has failed before, and takes the place of new jobs."""
    FLOOD = "flood"
    """One kind came in such numbers that it owns most of what waits."""
    SLOW_KIND = "slow_kind"
    """A kind takes far longer than usual, and holds most of the slots."""
    UNKNOWN_KIND = "unknown_kind"
    """Jobs of a kind wait that no client seems to work."""
    LATE = "late"
    """Jobs wait for longer than usual, and what is behind it could not be read."""
    LIMITS = "limits"
    """More jobs come than the clients can do: all are busy."""
    DEPLOY = "deploy"
    """Failures rise since a deploy."""
    FAILURES = "failures"
    """Failures rise."""
    POISON_JOB = "poison_job"
    """A job was lost with its worker again and again."""
    STALE = "stale"
    """The figures are old, or could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Culprit:
    """What owns at least half of the trouble."""

    what: str
    """kind, queue, client or job."""
    name: str
    """At most 200 characters of it; out of the database."""
    share: float
    """From 0.5 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthAction:
    """The one thing to do next: a label, and where it leads."""

    label: str
    page: str
    """queue, queues, kind, jobs, job or about."""
    name: str = ""
    """The queue, the kind, or the job's id; empty for lists."""
    state: str = ""
    """For jobs: only those in this state."""
    queue: str = ""
    """For jobs: only those of this queue."""
    kind: str = ""
    """For jobs: only those of this kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthSection:
    """One of the three answers."""

    name: Literal["flow", "success", "data"]
    """Which of the three it answers: is work flowing, is it succeeding, are the figures good."""
    label: str
    """The answer as a short sentence: Work is flowing."""
    level: Level
    headline: str
    """One sentence with figures and what is usual: Jobs start 1.2 s after they are due (p95),
    usually 0.9 s. Names in it are cut to 80 characters.
    """
    detail: str = ""
    """What else is to say, in a sentence or two; empty where one is enough."""
    cause: Cause = Cause.NONE
    checks: Sequence[Check] = ()
    """Every cause that was considered: ✓ is ruled out, ✗ found, unknown not measured."""
    culprit: Culprit | None = None
    action: HealthAction | None = None
    """None where there is nothing to do."""

    @property
    def ruled_out(self) -> Sequence[Check]:
        """Return the causes that were measured and are none."""
        return [check for check in self.checks if check.result is Result.PASSED]


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthReport:
    """The verdict on one database at one time."""

    at: datetime
    flow: HealthSection
    success: HealthSection
    data: HealthSection

    @property
    def sections(self) -> tuple[HealthSection, ...]:
        """Return the three in their order."""
        return (self.flow, self.success, self.data)

    @property
    def worst(self) -> HealthSection:
        """Return the worst section, the first of those that are equally bad."""
        return max(self.sections, key=lambda section: section.level.badness)

    @property
    def level(self) -> Level:
        """Return the level of the worst section."""
        return self.worst.level

    @property
    def cause(self) -> Cause:
        """Return the cause that the worst section names."""
        return self.worst.cause

    @property
    def headline(self) -> str:
        """Return what the worst section says, in two sentences."""
        return f"{self.worst.label} {self.worst.headline}"
