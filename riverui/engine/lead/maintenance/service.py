"""How the services of the leader go about it: rounds at an interval, rows in batches, fewer in bad
times.
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

from riverui.engine.config import ClientConfig
from riverui.engine.lead.elector import Term, steady_clock
from riverui.engine.waiting import Sleep, between, pass_on_cancellation
from riverui.errors import LockTimeout, QueryTimeout, RiveruiError
from riverui.storage.interface import Driver, Executor

TIMEOUT = timedelta(seconds=30)
"""For a statement of the maintenance, where it has no limit of its own."""

ASIDE = 3600.0
"""Seconds until a job that a service cannot process is tried again."""

_TRIPS = 3
_WINDOW = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How long the services hold still."""

    stagger: timedelta = timedelta(seconds=1)
    """Each service begins after some part of this."""
    pause_least: timedelta = timedelta(milliseconds=50)
    """Between two batches, so that the database gets its breath."""
    pause_most: timedelta = timedelta(seconds=1)
    sleep: Sleep = asyncio.sleep

    async def begin(self) -> None:
        """Waits for a service's turn to begin."""
        await self.sleep(between(0, self.stagger.total_seconds()))

    async def pause(self) -> None:
        """Waits between two batches."""
        await self.sleep(between(self.pause_least.total_seconds(), self.pause_most.total_seconds()))


INSTANT = Pace(stagger=timedelta(0), pause_least=timedelta(0), pause_most=timedelta(0))
"""For tests: nothing holds still."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Means:
    """What every service works with."""

    driver: Driver
    config: ClientConfig
    clock: Callable[[], datetime]
    logger: logging.Logger
    now: Callable[[], float] = steady_clock
    """Seconds that go on whatever the clock is set to."""
    pace: Pace = Pace()

    def executor(self, limit: timedelta = TIMEOUT) -> AbstractAsyncContextManager[Executor]:
        """Operations that commit by themselves; QueryTimeout for one that takes longer."""
        return self.driver.autocommit(timeout=limit)

    def log_failure(self, name: str, error: Exception) -> None:
        """Tells that a service's round failed; with a traceback where the error does not say it
        all.
        """
        trace = None if isinstance(error, RiveruiError) else error
        self.logger.error("%s: this round failed: %s", name, error, exc_info=trace)


class Rounds(Protocol):
    """Something that the leader does again and again."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def interval(self) -> timedelta:
        """From the begin of one round to that of the next."""
        ...

    async def run_once(self) -> object:
        """One round; what it did."""
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
        self._trips: list[float] = []

    @property
    def is_reduced(self) -> bool:
        """Whether the database has been too slow for full batches."""
        return len(self._trips) >= _TRIPS

    @contextmanager
    def measured(self) -> Iterator[int]:
        """The size for one batch, whose timeouts count; any success ends the row of them."""
        try:
            yield self._reduced if self.is_reduced else self._full
        except LockTimeout:
            # A smaller batch would wait for the same row.
            raise
        except QueryTimeout:
            if not self.is_reduced:
                since = self._now() - _WINDOW
                self._trips = [*(trip for trip in self._trips if trip >= since), self._now()]
            raise
        if not self.is_reduced:
            self._trips = []


async def in_batches(size: BatchSize, once: Callable[[int], Awaitable[int]], pace: Pace) -> int:
    """Calls `once` with the size of a batch for as long as it finds a full one; how many it found
    in all.
    """
    total = 0
    while True:
        with size.measured() as most:
            found = await once(most)
        total += found
        if found < most:
            return total
        await pace.pause()


async def one_round(name: str, run_once: Callable[[], Awaitable[object]], means: Means) -> None:
    """A service's round; an error costs only that, and is logged."""
    try:
        await run_once()
    except Exception as error:
        means.log_failure(name, error)
    pass_on_cancellation()


async def keep_doing(rounds: Rounds, term: Term, means: Means) -> None:
    """One round at once and one each interval, for ever; an error costs its round, and is
    logged.
    """
    await means.pace.begin()
    due = term.now()
    while True:
        # After a stop of the whole process the elector may not have noticed yet that the term is
        # over.
        if term.trusted:
            await one_round(rounds.name, rounds.run_once, means)
        due = max(due + rounds.interval.total_seconds(), term.now())
        await means.pace.sleep(due - term.now())
