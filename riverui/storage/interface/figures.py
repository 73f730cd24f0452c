"""What figures are made of: jobs that ended, attempts that failed, jobs that came and that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.sketch import Sketch
from riverui.storage.interface.capabilities import Capability


class TimeSlice(NamedTuple):
    """A span of time to read, and what it is part of."""

    place: int
    """What its rows are told under: the same number for slices whose rows are added up."""
    since: datetime
    until: datetime
    """Not part of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureClock:
    """Where a database stands."""

    now: datetime
    """By its own clock."""
    last_id: int
    """The newest job's; 0 without any."""


class EndedTally(NamedTuple):
    """Jobs of one queue and kind that ended alike."""

    place: int
    """The slice's."""
    queue: str
    kind: str
    state: JobState
    jobs: int
    run: Sketch
    """Of those whose last attempt's run is known; empty for cancelled ones."""
    wait: Sketch
    """Of those whose wait for that attempt is known."""


class FailedAttempt(NamedTuple):
    """An attempt that ended with an error."""

    id: int
    """The job's."""
    attempt: int
    """Its number: with the id it stands for this attempt and no other."""
    at: datetime
    """When it began."""
    queue: str
    kind: str


class InsertedTally(NamedTuple):
    """Jobs of one queue and kind that came in one minute."""

    at: datetime
    """When the minute begins."""
    queue: str
    kind: str
    jobs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InsertedPage:
    """Jobs that came, and where to go on."""

    tallies: Sequence[InsertedTally]
    first_id: int
    """The oldest job that was read; 0 without any."""


class QueueWaiting(NamedTuple):
    """What waits in one queue."""

    queue: str
    waiting: int
    """Available jobs, up to the cap."""
    oldest_at: datetime | None
    """Since when the oldest has been due."""


class FigureExecutor(Protocol):
    """Reads figures out of the rows of jobs, each in a bounded part of an index."""

    async def figure_clock_get(self) -> FigureClock:
        """Return the database's clock and the newest job's id."""
        ...

    async def job_ended_tally_list(
        self, slices: Sequence[TimeSlice], *, pairs: int = 1_000
    ) -> Sequence[EndedTally]:
        """Return the jobs that ended in these spans, added up. Queues and kinds are told apart for
        the `pairs` that ended most; the others are `OTHER`.
        """
        ...

    async def job_ended_failure_list(
        self,
        slices: Sequence[TimeSlice],
        *,
        states: Sequence[JobState] = tuple(FINALIZED),
        limit: int = 20_000,
    ) -> Sequence[FailedAttempt]:
        """Return failed attempts of jobs that ended in these spans and states, of `limit` jobs at
        most and the last ten of each, whenever they began.
        """
        ...

    async def job_unfinished_failure_list(
        self, since: datetime, *, earlier: bool = True, cap: int = 50_000, limit: int = 20_000
    ) -> Sequence[FailedAttempt]:
        """Return failed attempts of jobs that have not ended and whose last attempt began since
        then: of retryable, running and available ones, of which `cap` are looked at, `limit` told.
        Without `earlier` only the last one of each retryable job, which costs a tenth.
        """
        ...

    async def job_inserted_tally_list(
        self, *, after: int = 0, upto: int, since: datetime, limit: int = 20_000
    ) -> InsertedPage:
        """Return the jobs with ids above `after` up to `upto` that came since then, added up: the
        newest `limit` of them.
        """
        ...

    async def queue_waiting_list(self, *, cap: int, limit: int = 200) -> Sequence[QueueWaiting]:
        """Return what waits in each queue that has available jobs, by name."""
        ...

    async def job_first_completed_at(self, since: datetime) -> datetime | None:
        """Return when the first job was completed since then that is still there."""
        ...


FIGURES: Capability[FigureExecutor] = Capability(
    "figures",
    "There are no charts and no figures over time: they are not read out of the rows.",
)
