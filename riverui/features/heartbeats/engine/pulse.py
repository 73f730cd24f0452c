"""Sends a client's heartbeats from a thread beside its event loop, so that a job that blocks the
loop does not make the client look dead.
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
"""Heartbeat intervals since the last successful heartbeat, after which a failed try means that
others may soon declare the client dead: the next tries would not fail in time.
"""
_LAG_SECONDS = 1.0
"""Seconds that the event loop may take to answer before its silence itself is reported."""
_LAST_SECONDS = 1.0
"""Seconds that closing the connection may take."""
_STEADY_AFTER = 2.0
"""Heartbeat intervals of unbroken heartbeats that show that the database was available all the
time: a client that was silent meanwhile was so by its own fault.
"""
_TRUSTED = DEAD_AFTER - 0.5
"""Heartbeat intervals since the last successful heartbeat, within which the client cannot have been
declared dead, nor will be before jobs that start now have started.
"""
_TRY = 0.25
"""Heartbeat intervals that one try may take."""
_PAUSE = 0.05
"""Heartbeat intervals between two tries, and by which clients spread work that several would do."""

T = TypeVar("T")


class Work(Protocol):
    """What a client does, as reported and controlled by its heartbeats."""

    def status(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Return the slots by queue (maximum, taken) and the number of jobs; thread-safe."""
        ...

    def terms(self) -> dict[str, QueueTerms]:
        """Return the rules by which queues are worked, if any; thread-safe."""
        ...

    def kinds(self) -> Collection[str]:
        """Return the kinds that are worked; thread-safe."""
        ...

    def hold_back(self) -> None:
        """Stop fetching, and cancel the running jobs."""
        ...

    async def quiet(self) -> None:
        """Wait until no more jobs are on their way."""
        ...

    def go_on(self) -> None:
        """Resume fetching."""
        ...

    def rescue(self) -> None:
        """Look soon for clients to be declared dead."""
        ...


class Pulse:
    """One client's heartbeats. `run` runs in the thread's loop; calls to the work are made in the
    client's own.
    """

    def __init__(
        self,
        client: ClientContext,
        work: Work,
        home: asyncio.AbstractEventLoop,
        on_attempt: Callable[[], None],
    ) -> None:
        config, self._logger = client.config, client.logger
        self._client_timeout = client.limits.statement_timeout
        self._confirmed_at = 0.0
        """When the last successful heartbeat was sent (steady clock)."""
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
        self._on_attempt = on_attempt
        """Called in the client's loop after each try."""
        self._tried_at = 0.0
        self._work = work

    @property
    def life(self) -> ClientLife | None:
        """The client's registration; None before it, and after the client was declared dead."""
        return self._life

    @property
    def steady(self) -> bool:
        """Whether heartbeats have been unbroken for long enough, up to now, to judge others by
        theirs.
        """
        now, interval = steady_clock(), self._interval
        return (
            self._life is not None
            and now - self._confirmed_at <= SILENT_AFTER * interval
            and now - self._steady_since >= _STEADY_AFTER * interval
        )

    @property
    def trusted(self) -> bool:
        """Whether the client has certainly not been declared dead, even if its process was
        suspended for a while.
        """
        silent_for = steady_clock() - self._confirmed_at
        return self._life is not None and silent_for <= _TRUSTED * self._interval

    async def run(self) -> None:
        """Send heartbeats until cancelled; return if the table no longer exists."""
        try:
            while True:
                pass_on_cancellation()
                try:
                    seconds = await self._beat()
                    if self._failing:
                        self._logger.info("heartbeats succeed again")
                    self._failing = False
                except SchemaMissing:
                    # Without the table no client can be declared dead.
                    self._life = None
                    self._resume()
                    return
                except (DatabaseError, TimeoutError) as error:
                    seconds = self._failed(error)
                finally:
                    self._call_soon(self._on_attempt)
                await asyncio.sleep(seconds)
        finally:
            if self._connection is not None:
                with suppress(TimeoutError):
                    await within(_LAST_SECONDS, self._connection.close())
                self._connection = None

    async def _beat(self) -> float:
        """Send one heartbeat; return the seconds until the next."""
        status = await self._status()
        life = self._life
        if life is None:
            return await self._begin(status)
        sent_at = self._tried_at = steady_clock()
        beat = await self._call(lambda clients: clients.client_heartbeat(life, status))
        if not beat.alive:
            self._life = None
            self._hold_back("was declared dead, as it sent no heartbeat for too long")
            return 0.0
        if sent_at - self._confirmed_at > SILENT_AFTER * self._interval:
            self._steady_since = sent_at
        self._confirmed_at = sent_at
        self._resume()
        return self._until_next(beat.due_in)

    async def _begin(self, status: ClientStatus) -> float:
        """Register the client; after it was declared dead, only once none of its earlier jobs can
        still arrive.
        """
        if self._held_back:
            await self._home_loop.do(self._work.quiet)
        sent_at = self._tried_at = steady_clock()
        self._life = await self._call(lambda clients: clients.client_register(self._params, status))
        self._confirmed_at = self._steady_since = sent_at
        self._resume()
        return self._interval

    def _until_next(self, due_in: float | None) -> float:
        """Return the seconds until the next heartbeat, sooner if another client is about to be
        declared dead. Trigger the rescue if one is due.
        """
        interval, pause = self._interval, between(0, _PAUSE * self._interval)
        if due_in is None:
            return interval
        if due_in > 0:
            return min(interval, due_in + pause)
        if self.steady:
            self._call_soon(self._work.rescue)
            return interval
        steady_at = self._steady_since + _STEADY_AFTER * interval
        return min(interval, max(steady_at - steady_clock(), 0) + pause)

    def _failed(self, error: Exception) -> float:
        """Record a failed try; return the seconds until the next."""
        if self._life is not None:
            silent_for = self._tried_at - self._confirmed_at
            if silent_for >= _GIVEN_UP_AFTER * self._interval and not self._held_back:
                self._hold_back("is cut off: others may soon declare it dead")
        if not self._failing:
            self._logger.warning("a heartbeat failed: %s", error)
        self._failing = True
        if self._life is None and not self._held_back:
            # Nothing is at stake yet, and the reason may be permanent, such as missing privileges.
            return self._interval
        return between(0.5, 1.0) * min(_PAUSE * self._interval, 1.0)

    def _hold_back(self, why: str) -> None:
        self._logger.error(
            "client %s %s; it cancels its jobs and fetches no more for now", self._params.id, why
        )
        self._held_back = True
        self._call_soon(self._work.hold_back)

    def _resume(self) -> None:
        if self._held_back:
            self._held_back = False
            self._logger.warning("client %s resumes work", self._params.id)
            self._call_soon(self._work.go_on)

    async def _call(self, statement: Callable[[ClientStore], Awaitable[T]]) -> T:
        """Return the statement's result; raise TimeoutError or DatabaseError if it
        takes too long.
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
            # It closes by itself once the server notices.
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
        """Return the seconds that the client's event loop takes to answer, or has not
        answered for.
        """
        silent_for = self._home_loop.silence
        self._home_loop.ask()
        began = steady_clock()
        if not silent_for:
            with suppress(TimeoutError):
                await within(min(_LAG_SECONDS, _TRY * self._interval), self._home_loop.answers())
                return steady_clock() - began
        return self._home_loop.silence

    def _call_soon(self, function: Callable[[], None]) -> None:
        """Call the function soon in the client's loop."""
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(function)
