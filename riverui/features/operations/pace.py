"""Limits the pace of an operation: jobs per minute, a trial first, and a stop when too many jobs
fail again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from riverui.features.operations.domain import Watch
from riverui.features.operations.store import Operation
from riverui.storage.interface import Executor, Transaction


class PaceKeeper:
    """Limits the pace of one operation."""

    def __init__(self, operation: Operation, *, look: timedelta, trial: timedelta) -> None:
        self._operation = operation
        self._pace = operation.pace
        self._look = look.total_seconds()
        """Time between two reads of the outcomes of jobs."""
        self._trial = trial
        """How long the jobs tried first may take to end."""
        self._looked = float("-inf")
        """When (monotonic clock) the outcomes of jobs were last read."""
        self._tried: float | None = None
        """When all jobs to be tried first were first seen as acted on."""
        self._next = float("-inf")
        """When (monotonic clock) the next jobs may be acted on."""

    def room(self, most: int) -> int:
        """Return how many jobs may be acted on now, at most `most`; 0 while the operation waits for
        the jobs tried first.
        """
        if self._operation.trying and self._pace.canary:
            most = min(most, max(0, self._pace.canary - self._operation.changed))
        if self._pace.per_minute:
            most = min(most, max(1, self._pace.per_minute // 60))
        return most

    async def watch(self, transaction: Transaction, changed: Sequence[int]) -> Watch | None:
        """Return the watch including jobs that were just made to run again."""
        watch = self._operation.watch
        if watch is None or not changed:
            return watch
        return watch.with_jobs(await transaction.jobs.outcome_list(changed))

    @property
    def due(self) -> bool:
        """Return whether it is time to read the outcomes of jobs."""
        waited = time.monotonic() - self._looked
        return self._operation.watch is not None and waited >= self._look

    async def look(self, executor: Executor) -> str:
        """Read the outcomes of jobs; return why to stop, as a sentence, or an empty text to
        continue.
        """
        operation, watch = self._operation, self._operation.watch or Watch()
        self._looked = time.monotonic()
        if watch.pending:
            watch = watch.with_outcomes(await executor.jobs.outcome_list(list(watch.pending)))
        operation.watch = watch
        tried = operation.trying and operation.changed >= (self._pace.canary or 0)
        if reason := watch.reason_to_stop(self._pace, tried=tried):
            return reason
        if tried:
            self._tried = self._tried or self._looked
            operation.watch = replace(watch, passed=not watch.pending)
            if watch.pending and self._looked - self._tried > self._trial.total_seconds():
                minutes = self._trial // timedelta(minutes=1)
                return (
                    f"It stopped by itself: {len(watch.pending)} of the first {self._pace.canary}"
                    f" jobs had not ended after {minutes} minutes."
                )
        return ""

    def acted(self, jobs: int) -> None:
        """Record that so many jobs were acted on, which delays the next ones."""
        if self._pace.per_minute:
            self._next = time.monotonic() + jobs * 60 / self._pace.per_minute

    def may_act(self) -> bool:
        """Return whether the next jobs may be acted on."""
        return time.monotonic() >= self._next and self.room(1) > 0

    async def rest(self) -> None:
        """Wait until the next jobs or the next read of outcomes is due, whichever is first."""
        left = self._next - time.monotonic() if self.room(1) else self._look
        await asyncio.sleep(max(0.0, min(self._look, left)))
