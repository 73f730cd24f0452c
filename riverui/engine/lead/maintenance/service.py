"""Common parts of the leader's services: rounds at an interval, and batches of rows that shrink
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
"""Default time limit of a maintenance statement: River's figure."""

SET_ASIDE_SECONDS = 3600.0
"""Seconds before a job that a service cannot process is tried again: a person has to repair it
first.
"""

_TIMEOUTS = 3
"""Consecutive timeouts after which batches are smaller: River's figure."""
_TIMEOUTS_WITHIN = 600.0
"""Seconds within which these timeouts must occur: River's figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Pauses of the services; River's figures."""

    stagger: timedelta = timedelta(seconds=1)
    """Each service starts after a random part of this, so that they do not all start at once."""
    pause_least: timedelta = timedelta(milliseconds=50)
    """Shortest pause between two batches: others need the database too."""
    pause_most: timedelta = timedelta(seconds=1)
    """Longest pause between two batches."""
    sleep: Sleep = asyncio.sleep

    async def begin(self) -> None:
        """Wait before a service starts."""
        await self.sleep(between(0, self.stagger.total_seconds()))

    async def pause(self) -> None:
        """Wait between two batches."""
        await self.sleep(between(self.pause_least.total_seconds(), self.pause_most.total_seconds()))


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceContext:
    """What every service of a leader uses."""

    driver: Driver
    clock: Callable[[], datetime]
    logger: logging.Logger
    now: Callable[[], float] = steady_clock
    """A clock in seconds that ignores changes of the wall clock."""
    delete_before: Callable[[Executor, JobDeleteBeforeParams], Awaitable[int]] | None = None
    """How features remove finished jobs, in a transaction; None if no feature takes part."""
    notifier: Notifier | None = None
    """Announces work between two rounds, on another thread; None if there are only rounds."""
    retention: Retention = RIVERS_RETENTION
    """The client's retention of finished jobs, for queues without their own periods."""
    timing: Timing = Timing()

    def executor(self, limit: timedelta = TIMEOUT) -> AbstractAsyncContextManager[Executor]:
        """Return operations that commit by themselves; QueryTimeout if one takes longer."""
        return self.driver.autocommit(timeout=limit)

    def transaction(self, limit: timedelta = TIMEOUT) -> AbstractAsyncContextManager[Executor]:
        """Return operations in one transaction, each under this time limit."""
        return self.driver.transaction(timeout=limit)

    def log_failure(self, name: str, error: Exception) -> None:
        """Log that a service's round failed, with a traceback unless it is an error of
        riverui's.
        """
        trace = None if isinstance(error, RiveruiError) else error
        self.logger.error("%s: this round failed: %s", name, error, exc_info=trace)


class MaintenanceService(Protocol):
    """A task that the leader does at intervals."""

    @property
    def name(self) -> str:
        """The service's name in logs."""
        ...

    @property
    def interval(self) -> timedelta:
        """Time from the start of one round to the start of the next."""
        ...

    async def run_once(self) -> object:
        """Do one round, and return its result."""
        ...


class BatchSize:
    """How many rows to process at once: fewer, permanently, after three consecutive timeouts within
    ten minutes.
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
        """Yield the size of one batch, and count its timeout; any success resets the count."""
        try:
            yield self._reduced if self.is_reduced else self._full
        except LockTimeout:
            # A smaller batch would wait for the same row lock.
            raise
        except QueryTimeout:
            if not self.is_reduced:
                since = self._now() - _TIMEOUTS_WITHIN
                self._timeouts = [*(at for at in self._timeouts if at >= since), self._now()]
            raise
        if not self.is_reduced:
            self._timeouts = []


async def in_batches(size: BatchSize, once: Callable[[int], Awaitable[int]], timing: Timing) -> int:
    """Call `once` with the size of a batch until it processes less than a full one; return how many
    rows in all.
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
    """Do a service's round; an error is logged, and ends only that round."""
    try:
        await run_once()
    except Exception as error:
        context.log_failure(name, error)
    pass_on_cancellation()


async def run_periodically(
    service: MaintenanceService, term: LeaderTerm, context: ServiceContext
) -> None:
    """Do a round at once and one each interval until cancelled; an error is logged, and ends only
    its round.
    """
    await context.timing.begin()
    due = term.now()
    while True:
        # After the whole process was stopped, the elector may not have noticed yet that the term is
        # over.
        if term.trusted:
            await run_round(service.name, service.run_once, context)
        due = max(due + service.interval.total_seconds(), term.now())
        await context.timing.sleep(due - term.now())
