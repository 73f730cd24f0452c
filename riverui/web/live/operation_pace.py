"""Holds an action on all matching jobs back: so many a minute, some first, and none any more where
too many fail again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from riverui.domain.pace import Pace, Watch
from riverui.storage.interface import Executor, Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class PaceTimes:
    """How often the outcome of jobs is looked at."""

    look: timedelta = timedelta(seconds=1)
    """Between two looks at what became of jobs, and at whether somebody asks to stop."""
    trial: timedelta = timedelta(minutes=15)
    """For the jobs tried first to end."""


class Paced(Protocol):
    """An operation, as far as its pace goes."""

    @property
    def pace(self) -> Pace:
        """How fast it may go."""
        ...

    @property
    def changed(self) -> int:
        """How many jobs it has changed."""
        ...

    watch: Watch | None
    """What became of them; None where that does not matter."""


class PaceKeeper:
    """Keeps one operation to its pace."""

    def __init__(self, operation: Paced, times: PaceTimes) -> None:
        self._operation = operation
        self._pace = operation.pace
        self._times = times
        self._looked = float("-inf")
        """When (monotonic clock) it was seen what became of the jobs."""
        self._tried: float | None = None
        """When it was first seen that all jobs to be tried first were let run."""
        self._next = float("-inf")
        """When (monotonic clock) the next jobs may be acted on."""
        if self._pace.watches and operation.watch is None:
            operation.watch = Watch()

    @property
    def trying(self) -> bool:
        """Return whether the jobs tried first are not all let run, or not all known to be well."""
        watch = self._operation.watch
        return bool(self._pace.canary) and watch is not None and not watch.passed

    def room(self, most: int) -> int:
        """Return how many jobs may be acted on now, of at most so many; 0 while the jobs tried
        first are awaited.
        """
        if self.trying and self._pace.canary:
            most = min(most, max(0, self._pace.canary - self._operation.changed))
        if self._pace.per_minute:
            most = min(most, max(1, self._pace.per_minute // 60))
        return most

    async def watch(self, transaction: Transaction, changed: Sequence[int]) -> Watch | None:
        """Return the watch with jobs that were just made to run again."""
        watch = self._operation.watch
        if watch is None or not changed:
            return watch
        return watch.with_jobs(await transaction.job_outcome_list(changed))

    @property
    def due(self) -> bool:
        """Return whether it is time to look what became of the jobs."""
        waited = time.monotonic() - self._looked
        return self._operation.watch is not None and waited >= self._times.look.total_seconds()

    async def look(self, executor: Executor) -> str:
        """Look what became of the jobs, and return why to stop, as a sentence; empty where nothing
        speaks against going on.
        """
        watch, self._looked = self._operation.watch or Watch(), time.monotonic()
        if watch.pending:
            watch = watch.with_outcomes(await executor.job_outcome_list(list(watch.pending)))
        self._operation.watch = watch
        if stop := watch.verdict(self._pace, trying=self.trying):
            return stop
        if self.trying and self._operation.changed >= (self._pace.canary or 0):
            self._tried = self._tried or self._looked
            self._operation.watch = replace(watch, passed=not watch.pending)
            if watch.pending and self._looked - self._tried > self._times.trial.total_seconds():
                minutes = self._times.trial // timedelta(minutes=1)
                return (
                    f"It stopped by itself: {len(watch.pending)} of the first {self._pace.canary}"
                    f" jobs had not ended after {minutes} minutes."
                )
        return ""

    def acted(self, jobs: int) -> None:
        """Note that so many jobs were acted on: they have their share of a minute."""
        if self._pace.per_minute:
            self._next = time.monotonic() + jobs * 60 / self._pace.per_minute

    def may_act(self) -> bool:
        """Return whether it is time for the next jobs."""
        return time.monotonic() >= self._next and self.room(1) > 0

    async def rest(self) -> None:
        """Wait until it is time for the next jobs or for another look, whichever comes first."""
        look = self._times.look.total_seconds()
        left = self._next - time.monotonic() if self.room(1) else look
        await asyncio.sleep(max(0.0, min(look, left)))
