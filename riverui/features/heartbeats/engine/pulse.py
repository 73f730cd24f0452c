"""Gives a client's signs of life, from a thread beside its event loop: a job that blocks the loop
does not make the client look dead.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Protocol, TypeVar

from riverui import __version__
from riverui.domain.queues import QueueTerms
from riverui.domain.schedules import cron_text
from riverui.engine.client_context import ClientContext
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.lead.elector import steady_clock
from riverui.engine.process_memory import resident_now
from riverui.engine.side_loop import HomeLoop
from riverui.engine.waiting import between, pass_on_cancellation, within
from riverui.errors import DatabaseError, SchemaMissing
from riverui.features.heartbeats.store import (
    DEAD_AFTER,
    SILENT_AFTER,
    ClientLife,
    ClientParams,
    ClientStatus,
    ClientStore,
)
from riverui.storage.interface import Executor

_GIVEN_UP_AFTER = 2.5
"""Heartbeats (intervals of one) without a sign of life that arrived, after which a try in vain
means that others may soon take the client for dead: the next tries would not fail in time.
"""
_LAG_SECONDS = 1.0
"""For which the event loop may take to answer before its silence itself is told."""
_LAST_SECONDS = 1.0
"""For which the connection may take to close."""
_STEADY_AFTER = 2.0
"""Heartbeats after which an unbroken row of signs of life shows that the database was there all the
time: who has been silent meanwhile was so by itself.
"""
_TRUSTED = DEAD_AFTER - 0.5
"""Heartbeats since the last sign of life that arrived, up to which nobody can have declared the
client dead, nor does before jobs that begin now have begun.
"""
_TRY = 0.25
"""Heartbeats that one try may take."""
_PAUSE = 0.05
"""Heartbeats between two tries, and for which clients part that have to do the same."""

T = TypeVar("T")


class Work(Protocol):
    """What a client does, as its signs of life tell of it and may stop it."""

    def status(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Return the slots by queue (at most, taken) and the number of jobs; from any thread."""
        ...

    def terms(self) -> dict[str, QueueTerms]:
        """Return by which rules queues are worked, those that have any; from any thread."""
        ...

    def kinds(self) -> Collection[str]:
        """Return the kinds that are worked; from any thread."""
        ...

    def hold_back(self) -> None:
        """Fetch no more, and cancel the jobs at work."""
        ...

    async def quiet(self) -> None:
        """Wait until no jobs are on their way any more."""
        ...

    def go_on(self) -> None:
        """Fetch again."""
        ...

    def rescue(self) -> None:
        """Look for clients to be declared dead, soon."""
        ...


class Pulse:
    """One client's signs of life. `run` is for the thread's loop; what concerns the work is done in
    the client's own.
    """

    def __init__(
        self,
        client: ClientContext,
        work: Work,
        home: asyncio.AbstractEventLoop,
        told: Callable[[], None],
    ) -> None:
        config, self._logger = client.config, client.logger
        self._client_timeout = client.limits.statement_timeout
        self._confirmed_at = 0.0
        """When the last sign of life that arrived was sent (steady clock)."""
        self._connection: DedicatedConnection | None = None
        self._driver = client.driver_beside()
        self._keeps_connection = config.dedicated_connections
        self._failing = False
        self._held_back = False
        self._home = home
        self._home_loop = HomeLoop(home, steady_clock)
        self._interval = config.heartbeat_interval.total_seconds()
        self._life: ClientLife | None = None
        self._params = ClientParams(
            id=client.id,
            started_at=client.clock(),
            heartbeat_interval=config.heartbeat_interval,
            host=platform.node(),
            pid=os.getpid(),
            language=f"Python {platform.python_version()}",
            version=__version__,
            release=config.release,
            periodic={
                job.id: cron_text(job.schedule)
                for job in config.periodic_jobs
                if job.id is not None
            },
        )
        self._steady_since = 0.0
        self._told = told
        """Called (in the client's loop) after each try."""
        self._tried_at = 0.0
        self._work = work

    @property
    def life(self) -> ClientLife | None:
        """What the database knows of the client; None before it does, and where it was declared
        dead.
        """
        return self._life

    @property
    def steady(self) -> bool:
        """Whether the database has taken all signs of life for so long, and until now, that others
        may be judged by theirs.
        """
        now, interval = steady_clock(), self._interval
        return (
            self._life is not None
            and now - self._confirmed_at <= SILENT_AFTER * interval
            and now - self._steady_since >= _STEADY_AFTER * interval
        )

    @property
    def trusted(self) -> bool:
        """Whether it is certain that nobody has declared the client dead, also when its process was
        stopped for a while.
        """
        silent_for = steady_clock() - self._confirmed_at
        return self._life is not None and silent_for <= _TRUSTED * self._interval

    async def run(self) -> None:
        """Give signs of life until cancelled; return where there is no table for them any more."""
        try:
            while True:
                pass_on_cancellation()
                try:
                    seconds = await self._beat()
                    if self._failing:
                        self._logger.info("signs of life are taken again")
                    self._failing = False
                except SchemaMissing:
                    # Nobody can be declared dead.
                    self._life = None
                    self._resume()
                    return
                except (DatabaseError, TimeoutError) as error:
                    seconds = self._failed(error)
                finally:
                    self._tell(self._told)
                await asyncio.sleep(seconds)
        finally:
            if self._connection is not None:
                with suppress(TimeoutError):
                    await within(_LAST_SECONDS, self._connection.close())
                self._connection = None

    async def _beat(self) -> float:
        """Give one sign of life, and return the seconds until the next."""
        status = await self._status()
        life = self._life
        if life is None:
            return await self._begin(status)
        sent_at = self._tried_at = steady_clock()
        beat = await self._call(lambda clients: clients.client_heartbeat(life, status))
        if not beat.alive:
            self._life = None
            self._hold_back("was declared dead, as it gave no sign of life for too long")
            return 0.0
        if sent_at - self._confirmed_at > SILENT_AFTER * self._interval:
            self._steady_since = sent_at
        self._confirmed_at = sent_at
        self._resume()
        return self._until_next(beat.due_in)

    async def _begin(self, status: ClientStatus) -> float:
        """Register the client, a dead one anew once nothing of its past can come any more."""
        if self._held_back:
            await self._home_loop.do(self._work.quiet)
        sent_at = self._tried_at = steady_clock()
        self._life = await self._call(lambda clients: clients.client_register(self._params, status))
        self._confirmed_at = self._steady_since = sent_at
        self._resume()
        return self._interval

    def _until_next(self, due_in: float | None) -> float:
        """Return the seconds until the next sign of life: sooner where another client is about to
        be declared dead. Have that done where it is due.
        """
        interval, pause = self._interval, between(0, _PAUSE * self._interval)
        if due_in is None:
            return interval
        if due_in > 0:
            return min(interval, due_in + pause)
        if self.steady:
            self._tell(self._work.rescue)
            return interval
        steady_at = self._steady_since + _STEADY_AFTER * interval
        return min(interval, max(steady_at - steady_clock(), 0) + pause)

    def _failed(self, error: Exception) -> float:
        """Take note of a try in vain, and return the seconds until the next."""
        if self._life is not None:
            silent_for = self._tried_at - self._confirmed_at
            if silent_for >= _GIVEN_UP_AFTER * self._interval and not self._held_back:
                self._hold_back("is cut off: others may soon take it for dead")
        if not self._failing:
            self._logger.warning("a sign of life did not get through: %s", error)
        self._failing = True
        if self._life is None and not self._held_back:
            # Nothing is at stake yet, and the reason may last: rights to the table, say.
            return self._interval
        return between(0.5, 1.0) * min(_PAUSE * self._interval, 1.0)

    def _hold_back(self, why: str) -> None:
        self._logger.error(
            "client %s %s; it cancels its jobs and fetches no more for now", self._params.id, why
        )
        self._held_back = True
        self._tell(self._work.hold_back)

    def _resume(self) -> None:
        if self._held_back:
            self._held_back = False
            self._logger.warning("client %s goes on", self._params.id)
            self._tell(self._work.go_on)

    async def _call(self, statement: Callable[[ClientStore], Awaitable[T]]) -> T:
        """Return what the statement gives; TimeoutError or DatabaseError where it takes too
        long.
        """
        if self._connection is None:
            self._connection = DedicatedConnection(
                self._driver, timeout=self._client_timeout, keeps=self._keeps_connection
            )

        async def ask(executor: Executor) -> T:
            return await statement(ClientStore(executor))

        try:
            return await within(_TRY * self._interval, self._connection.call(ask))
        except TimeoutError:
            # It closes itself, as soon as it notices.
            self._connection = None
            raise

    async def _status(self) -> ClientStatus:
        queues, running = self._work.status()
        return ClientStatus(
            queues=queues,
            terms=self._work.terms(),
            kinds=self._work.kinds(),
            running=running,
            loop_lag=await self._lag(),
            memory=resident_now(),
        )

    async def _lag(self) -> float:
        """Return the seconds that the client's event loop takes to answer, or has not answered
        for.
        """
        silent_for = self._home_loop.silence
        self._home_loop.ask()
        began = steady_clock()
        if not silent_for:
            with suppress(TimeoutError):
                await within(min(_LAG_SECONDS, _TRY * self._interval), self._home_loop.answers())
                return steady_clock() - began
        return self._home_loop.silence

    def _tell(self, function: Callable[[], None]) -> None:
        """Have the function called in the client's loop, soon."""
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(function)
