"""Next runs of periodic jobs that differ from, or outlive, their schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime

from riverui.domain.periodic import NextRun
from riverui.engine.lead.periodic import PeriodicJob
from riverui.errors import RiveruiError
from riverui.storage.interface import Executor


class Overtaken(RiveruiError):
    """Another leader has processed these periodic jobs, or a person has changed them."""

    def __init__(self, ids: Collection[str]) -> None:
        super().__init__(f"Periodic jobs were changed meanwhile: {', '.join(sorted(ids))}.")
        self.ids = frozenset(ids)


class NextRuns:
    """Uses the schedules of periodic jobs, and stores nothing beyond a leader's term.

    A feature that stores next runs returns a subclass from `Feature.next_runs`.
    """

    durable = False
    """Whether next runs of jobs with an id outlive the leader's term."""
    look_seconds = float("inf")
    """Seconds between checks for changes by a person."""
    loaded = True
    """Whether the stored next runs have been read in this term."""

    def reset(self) -> None:
        """Reset all state, for a new term."""

    async def look(self, jobs: Iterable[PeriodicJob]) -> Collection[str]:
        """Read the stored rows of these jobs; return the ids of those that a person has changed
        since, or another leader has advanced.
        """
        return ()

    def effective(self, job: PeriodicJob) -> PeriodicJob:
        """Return the job with the schedule that a person has set, if any."""
        return job

    def paused(self, job: PeriodicJob) -> bool:
        """Return whether the job is paused, so that it is not inserted."""
        return False

    def first(self, job: PeriodicJob, now: datetime) -> datetime | None:
        """Return the job's next run; None means by its schedule."""
        return None

    def requested(self, job: PeriodicJob) -> NextRun | None:
        """Return the response to a requested run that no job was created for yet."""
        return None

    def following(self, job: PeriodicJob, at: datetime, following: datetime) -> NextRun | None:
        """Return what to store with the run at a time; None for nothing."""
        return None

    def save(self, job: PeriodicJob, at: datetime, planned_at: datetime | None) -> None:
        """Store, with the next `write`, the next run of a job that is not inserted now."""

    async def write(self) -> Collection[str]:
        """Write what `save` collected; return the ids of jobs that others have changed."""
        return ()

    def distrust(self, ids: Collection[str]) -> None:
        """Plan these jobs again at the next `look`."""

    def beside(self, saves: Iterable[NextRun]) -> Callable[[Executor], Awaitable[None]] | None:
        """Return a function that writes the next runs in the transaction that inserts their jobs,
        and raises Overtaken there; None if there is nothing to write.
        """
        return None
