"""When periodic jobs come next, beyond what their schedules say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime

from riverui.domain.periodic import NextRun
from riverui.engine.lead.periodic import PeriodicJob
from riverui.errors import RiveruiError
from riverui.storage.interface import Executor


class Overtaken(RiveruiError):
    """Another leader was at these periodic jobs, or somebody has changed them."""

    def __init__(self, ids: Collection[str]) -> None:
        super().__init__(f"Periodic jobs were changed meanwhile: {', '.join(sorted(ids))}.")
        self.ids = frozenset(ids)


class NextRuns:
    """Leaves periodic jobs to their schedules, and keeps nothing beyond a leader's term.

    A feature that keeps next runs returns a subclass by `Feature.next_runs`.
    """

    durable = False
    """Whether next runs of jobs with an id outlive the leader's term."""
    look_seconds = float("inf")
    """Seconds between two looks at what somebody has changed."""
    loaded = True
    """Whether the stored next runs were read in this term."""

    def reset(self) -> None:
        """Forget all, for a new term."""

    async def look(self, jobs: Iterable[PeriodicJob]) -> Collection[str]:
        """Read what is stored of these jobs; return the ids of those that somebody has changed
        since, or that another leader has moved on.
        """
        return ()

    def effective(self, job: PeriodicJob) -> PeriodicJob:
        """Return the job with the schedule that somebody gave it, if anybody did."""
        return job

    def paused(self, job: PeriodicJob) -> bool:
        """Return whether the job is not to be inserted."""
        return False

    def first(self, job: PeriodicJob, now: datetime) -> datetime | None:
        """Return when the job comes next; None for what its schedule says."""
        return None

    def requested(self, job: PeriodicJob) -> NextRun | None:
        """Return what answers a request for a run that no job was made for yet."""
        return None

    def following(self, job: PeriodicJob, at: datetime, following: datetime) -> NextRun | None:
        """Return what is written with the run at a time; None for nothing."""
        return None

    def save(self, job: PeriodicJob, at: datetime, planned_at: datetime | None) -> None:
        """Have it written, with the next `write`, when a job comes next that is not inserted
        now.
        """

    async def write(self) -> Collection[str]:
        """Write what `save` took; return the ids of jobs that others have changed."""
        return ()

    def distrust(self, ids: Collection[str]) -> None:
        """Have these jobs planned anew with the next look."""

    def beside(self, saves: Iterable[NextRun]) -> Callable[[Executor], Awaitable[None]] | None:
        """Return what writes the next runs in the transaction that inserts their jobs, and raises
        Overtaken there; None if there is nothing to write.
        """
        return None
