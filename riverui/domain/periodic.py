"""Jobs that come again and again, as far as their rows tell: how often, and what was missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from riverui.domain.jobs import JobState
from riverui.errors import ConfigError

_INTERVALS = 20
"""Newest intervals that the usual one is made of, so that it follows a changed schedule."""

_FEWEST = 2
"""Intervals from which a usual one is told."""

_STEADY = 0.25
"""How far an interval may be from the usual one, as a share of it, to count as like it."""

_LATE = 2.5
"""Usual intervals without a job, after which one counts as missed: one may be late by chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicRun:
    """One job of a periodic job."""

    id: int
    state: JobState
    scheduled_at: datetime
    """When it was due; when it is tried again, for a job that failed."""
    attempted_at: datetime | None
    finalized_at: datetime | None
    attempt: int

    @property
    def waited(self) -> timedelta | None:
        """Return how long it waited for its last attempt; None before that."""
        if self.attempted_at is None:
            return None
        return max(timedelta(0), self.attempted_at - self.scheduled_at)

    def ran(self, now: datetime) -> timedelta | None:
        """Return how long its last attempt took, up to now where it still runs; None before that,
        and where the row no longer tells.
        """
        if self.attempted_at is None or (self.finalized_at is None and self.state != "running"):
            return None
        return max(timedelta(0), (self.finalized_at or now) - self.attempted_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicHistory:
    """What is known of one periodic job."""

    id: str
    """As its client names it; empty where it has no name, and is told by its kind."""
    kind: str
    queue: str
    """Of the newest job."""
    runs: Sequence[PeriodicRun]
    """The newest jobs, the newest first; at least one."""
    jobs: int
    """How many jobs of it there are, among those that were looked at."""
    schedule: str = ""
    """As a cron expression, where a client that is at work tells."""

    def next_at(self, now: datetime) -> datetime | None:
        """Return when its schedule lets the next job come; None where there is none that can be
        read.
        """
        # Loaded by the first who looks: a dashboard starts without it.
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
        """Return the times between its jobs, the newest first. Jobs that are tried again later are
        left out: their row no longer tells when they were due.
        """
        due = [run.scheduled_at for run in self.runs if run.attempt <= 1]
        return [newer - older for newer, older in pairwise(due) if newer > older]

    @property
    def usual(self) -> timedelta | None:
        """Return the time that usually lies between its jobs; None where that cannot be told."""
        newest = self.intervals[:_INTERVALS]
        return sorted(newest)[(len(newest) - 1) // 2] if len(newest) >= _FEWEST else None

    @property
    def steady(self) -> bool:
        """Return whether most of its jobs come after the usual time: others have a calendar's
        schedule.
        """
        usual, newest = self.usual, self.intervals[:_INTERVALS]
        if usual is None:
            return False
        alike = sum(abs(each - usual) <= _STEADY * usual for each in newest)
        return alike * 2 > len(newest)

    @property
    def expected_at(self) -> datetime | None:
        """Return when the next job is expected; None where that cannot be told."""
        usual = self.usual
        return self.runs[0].scheduled_at + usual if usual is not None and self.steady else None

    def overdue(self, now: datetime) -> timedelta | None:
        """Return for how long no job has come, where one seems to be missed; else None."""
        usual, gone = self.usual, now - self.runs[0].scheduled_at
        if usual is None or not self.steady or gone <= _LATE * usual:
            return None
        return gone

    @property
    def missed(self) -> int:
        """Return about how many jobs did not come between those that did."""
        usual = self.usual
        if usual is None or not self.steady:
            return 0
        gaps = [each for each in self.intervals if each > _LATE * usual]
        return sum(round(gap / usual) - 1 for gap in gaps)


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicHistories:
    """Every periodic job that was seen, and whether all jobs were looked at."""

    histories: Sequence[PeriodicHistory]
    complete: bool
    """False where there are too many: then only the newest jobs of the table were looked at."""
    coming: Mapping[str, str] = field(default_factory=dict)
    """Those of clients at work that have left no job yet: their ids, and their schedules."""

    def with_schedules(self, schedules: Mapping[str, str]) -> PeriodicHistories:
        """Return the same with what clients at work tell: id → schedule."""
        known = {history.id for history in self.histories}
        return replace(
            self,
            histories=[
                replace(history, schedule=schedules.get(history.id, ""))
                for history in self.histories
            ],
            coming={name: told for name, told in schedules.items() if name not in known},
        )
