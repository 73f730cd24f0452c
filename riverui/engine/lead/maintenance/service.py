"""What the leader's services have in common: rounds at an interval, and rows in batches that shrink
while the database is slow.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from riverui.engine.lead.elector import LeaderTerm, steady_clock
from riverui.engine.notifier import Notifier
from riverui.engine.retention import RIVERS_RETENTION, Retention
from riverui.engine.waiting import Sleep, between, pass_on_cancellation
from riverui.errors import LockTimeout, QueryTimeout, RiveruiError
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.engine_params import JobDeleteBeforeParams

TIMEOUT = timedelta(seconds=30)
"""For a statement of the maintenance that has no limit of its own: River's figure."""

SET_ASIDE_SECONDS = 3600.0
"""Until a job that a service cannot process is tried again: somebody has to mend it first."""

_TIMEOUTS = 3
"""Timeouts in a row after which batches are smaller: River's figure."""
_TIMEOUTS_WITHIN = 600.0
"""Seconds within which these timeouts have to come: River's figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """How long the services hold still; River's figures."""

    stagger: timedelta = timedelta(seconds=1)
    """Each service begins after some part of this, so that they do not all begin at once."""
    pause_least: timedelta = timedelta(milliseconds=50)
    """Between two batches, at least: others need the database too."""
    pause_most: timedelta = timedelta(seconds=1)
    """Between two batches, at most."""
    sleep: Sleep = asyncio.sleep

    async def begin(self) -> None:
        """Wait for a service's turn to begin."""
        await self.sleep(between(0, self.stagger.total_seconds()))

    async def pause(self) -> None:
        """Wait between two batches."""
        await self.sleep(between(self.pause_least.total_seconds(), self.pause_most.total_seconds()))


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceContext:
    """What every service of a leader works with."""

    driver: Driver
    clock: Callable[[], datetime]
    logger: logging.Logger
    now: Callable[[], float] = steady_clock
    """Seconds that go on whatever the clock is set to."""
    delete_before: Callable[[Executor, JobDeleteBeforeParams], Awaitable[int]] | None = None
    """How features remove finished jobs, in a transaction; None where none takes part in that."""
    notifier: Notifier | None = None
    """What tells of work between two looks, on another thread; None where there are looks only."""
    retention: Retention = RIVERS_RETENTION
    """How long the client keeps finished jobs of queues without periods of their own."""
    timing: Timing = Timing()

    def executor(self, limit: timedelta = TIMEOUT) -> AbstractAsyncContextManager[Executor]:
        """Return operations that commit by themselves; QueryTimeout for one that takes longer."""
        return self.driver.autocommit(timeout=limit)

    def transaction(self, limit: timedelta = TIMEOUT) -> AbstractAsyncContextManager[Executor]:
        """Return operations that are kept or lost together, each under this time limit."""
        return self.driver.transaction(timeout=limit)

    def log_failure(self, name: str, error: Exception) -> None:
        """Log that a service's round failed, with a traceback unless the error is one of ours."""
        trace = None if isinstance(error, RiveruiError) else error
        self.logger.error("%s: this round failed: %s", name, error, exc_info=trace)


class MaintenanceService(Protocol):
    """Something that the leader does again and again."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def interval(self) -> timedelta:
        """From the start of one round to that of the next."""
        ...

    async def run_once(self) -> object:
        """Do one round, and return what it did."""
        ...


class BatchSize:
    """How many rows to take at once: fewer, for good, after three timeouts in a row within ten
    minutes.
    """

    def __init__(
        self, full: int = 10_000, reduced: int = 1_000, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._full = full
        self._reduced = reduced
        self._now = now
        self._timeouts: list[float] = []

    @property
    def is_reduced(self) -> bool:
        """Whether the database has been too slow for full batches."""
        return len(self._timeouts) >= _TIMEOUTS

    @contextmanager
    def measured(self) -> Iterator[int]:
        """Give the size for one batch, whose timeout counts; any success forgets earlier ones."""
        try:
            yield self._reduced if self.is_reduced else self._full
        except LockTimeout:
            # A smaller batch would wait for the same row.
            raise
        except QueryTimeout:
            if not self.is_reduced:
                since = self._now() - _TIMEOUTS_WITHIN
                self._timeouts = [*(at for at in self._timeouts if at >= since), self._now()]
            raise
        if not self.is_reduced:
            self._timeouts = []


async def in_batches(size: BatchSize, once: Callable[[int], Awaitable[int]], timing: Timing) -> int:
    """Call `once` with the size of a batch for as long as it finds a full one; return how many it
    found in all.
    """
    total = 0
    while True:
        with size.measured() as most:
            found = await once(most)
        total += found
        if found < most:
            return total
        await timing.pause()


async def run_round(
    name: str, run_once: Callable[[], Awaitable[object]], context: ServiceContext
) -> None:
    """Do a service's round; an error costs only that round, and is logged."""
    try:
        await run_once()
    except Exception as error:
        context.log_failure(name, error)
    pass_on_cancellation()


async def run_periodically(
    service: MaintenanceService, term: LeaderTerm, context: ServiceContext
) -> None:
    """Do one round at once and one each interval until cancelled; an error costs its round, and is
    logged.
    """
    await context.timing.begin()
    due = term.now()
    while True:
        # After a stop of the whole process the elector may not have noticed yet that the term is
        # over.
        if term.trusted:
            await run_round(service.name, service.run_once, context)
        due = max(due + service.interval.total_seconds(), term.now())
        await context.timing.sleep(due - term.now())
