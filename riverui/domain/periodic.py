"""Periodic jobs as seen from their rows: how often they run, and which runs were missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from riverui.domain.jobs import JobState
from riverui.errors import ConfigError

_INTERVALS = 20
"""Newest intervals of which the usual one is computed, so that it follows a changed schedule."""

_FEWEST = 2
"""Minimum intervals for a usual one."""

_STEADY = 0.25
"""How much an interval may differ from the usual one, as a share of it, to count as equal."""

_LATE = 2.5
"""Usual intervals without a job after which one counts as missed: a job may be late by chance."""


class NextRun(NamedTuple):
    """The next run of a periodic job, as stored."""

    id: str
    next_run_at: datetime
    planned_at: datetime | None
    """The planned run that is inserted with it; None if none was planned."""
    run_requested_at: datetime | None = None
    """The request for a run that this answers; then nothing else is saved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicRun:
    """One run of a periodic job."""

    id: int
    state: JobState
    scheduled_at: datetime
    """When it was due; for a job that failed, when it is retried."""
    attempted_at: datetime | None
    finalized_at: datetime | None
    attempt: int

    @property
    def waited(self) -> timedelta | None:
        """Return how long it waited for its last attempt; None before the first one."""
        if self.attempted_at is None:
            return None
        return max(timedelta(0), self.attempted_at - self.scheduled_at)

    def ran(self, now: datetime) -> timedelta | None:
        """Return how long its last attempt took, until now if it still runs; None before the first
        one, or if unknown.
        """
        if self.attempted_at is None or (self.finalized_at is None and self.state != "running"):
            return None
        return max(timedelta(0), (self.finalized_at or now) - self.attempted_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicHistory:
    """The runs of one periodic job."""

    id: str
    """The id that its client gives it; empty if it has none and is identified by kind."""
    kind: str
    queue: str
    """Of the newest job."""
    runs: Sequence[PeriodicRun]
    """The newest jobs, the newest first; at least one."""
    jobs: int
    """How many runs there are among the jobs that were read."""
    schedule: str = ""
    """A cron expression, if a running client reports it."""

    def next_at(self, now: datetime) -> datetime | None:
        """Return when the next run is due by its schedule; None if unknown or never."""
        # Imported when needed, so that a dashboard starts without it.
        from riverui.domain.schedules import NEVER, CronSchedule

        try:
            schedule = CronSchedule(self.schedule)
            interval = self.schedule.startswith("@every")
            found = schedule.next(self.runs[0].scheduled_at if interval else now)
        except ConfigError:
            return None
        return found if now <= found < NEVER else None

    @property
    def intervals(self) -> Sequence[timedelta]:
        """Return the times between its runs, the newest first, without retried jobs: their rows no
        longer have the time at which they were due.
        """
        due = [run.scheduled_at for run in self.runs if run.attempt <= 1]
        return [newer - older for newer, older in pairwise(due) if newer > older]

    @property
    def usual(self) -> timedelta | None:
        """Return the usual time between its runs; None if unknown."""
        newest = self.intervals[:_INTERVALS]
        return sorted(newest)[(len(newest) - 1) // 2] if len(newest) >= _FEWEST else None

    @property
    def steady(self) -> bool:
        """Return whether most of its intervals are the usual one: others follow a calendar."""
        usual, newest = self.usual, self.intervals[:_INTERVALS]
        if usual is None:
            return False
        alike = sum(abs(each - usual) <= _STEADY * usual for each in newest)
        return alike * 2 > len(newest)

    @property
    def expected_at(self) -> datetime | None:
        """Return when the next run is expected; None if unknown."""
        usual = self.usual
        return self.runs[0].scheduled_at + usual if usual is not None and self.steady else None

    def overdue(self, now: datetime) -> timedelta | None:
        """Return the time since the last job if one seems to be missed; else None."""
        usual, elapsed = self.usual, now - self.runs[0].scheduled_at
        if usual is None or not self.steady or elapsed <= _LATE * usual:
            return None
        return elapsed

    @property
    def missed(self) -> int:
        """Return approximately how many runs were missed between the existing ones."""
        usual = self.usual
        if usual is None or not self.steady:
            return 0
        gaps = [each for each in self.intervals if each > _LATE * usual]
        return sum(round(gap / usual) - 1 for gap in gaps)


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicHistories:
    """All periodic jobs that were found, and whether all jobs were read."""

    histories: Sequence[PeriodicHistory]
    complete: bool
    """False if there are too many: then only the newest jobs of the table were read."""
    coming: Mapping[str, str] = field(default_factory=dict)
    """Schedules by id of running clients' periodic jobs that have no run yet."""

    def with_schedules(self, schedules: Mapping[str, str]) -> PeriodicHistories:
        """Return the same with the schedules that running clients report, by id."""
        known = {history.id for history in self.histories}
        return replace(
            self,
            histories=[
                replace(history, schedule=schedules.get(history.id, ""))
                for history in self.histories
            ],
            coming={name: schedule for name, schedule in schedules.items() if name not in known},
        )
