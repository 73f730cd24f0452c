"""Lends connections: from a small pool, from the host app's pool, or a new one for each use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from typing import Any, Self
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from riverui.errors import DatabaseUnavailable
from riverui.storage.postgres.conninfo import Address, Connection
from riverui.storage.postgres.errors import refused
from riverui.storage.postgres.pool_log import POOL_NAME, leave_to_exceptions
from riverui.storage.postgres.round_trips import Prepared
from riverui.storage.postgres.sessions import let_prepare, set_clock

_ANSWER_HOLDS = 1.0
"""Seconds for which the result of one attempt to connect is shared by all callers."""
_ASK_AFTER_SECONDS = 0.5
"""Seconds of waiting for a connection after which the database's reachability is checked."""
_LIFETIME = 1800.0
"""Seconds after which a connection is not used again: poolers, DNS and secrets move on."""
# No prepared statements until it is known that no pooler in transaction mode sends them to other
# servers.
_KEYWORDS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}


class Reachability:
    """Checks whether the database can be reached: psycopg's pool does not report why it has no
    connection.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._answer: asyncio.Task[DatabaseUnavailable | None] | None = None
        self._begun_at = self._ended_at = 0.0
        self._suspected_at: float | None = None

    def suspect(self) -> None:
        """Make the next caller check before it takes a connection: the server did not answer on
        one, and perhaps does not on the others.
        """
        self._suspected_at = time.monotonic()

    async def check_suspected(self) -> None:
        """Check if `suspect` was called; raise as `check` does."""
        if (since := self._suspected_at) is not None:
            await self.check(since=since)
            if self._suspected_at == since:
                self._suspected_at = None

    async def check(self, *, since: float = 0.0) -> None:
        """Raise LoginRefused, DatabaseMissing or DatabaseUnavailable if no connection can be
        made.

        All callers share one attempt while it runs and for a second after. The success of an
        attempt that began before `since` (of time.monotonic) does not count.
        """
        while True:
            if self._answer is None or (
                self._answer.done() and not self._holds(self._answer, since)
            ):
                self._answer = asyncio.create_task(self._ask())
                self._begun_at = time.monotonic()
            begun_at = self._begun_at
            # A cancelled caller leaves the attempt to the next ones.
            if failure := await asyncio.shield(self._answer):
                raise failure
            if begun_at >= since:
                return

    @asynccontextmanager
    async def checked(self) -> AsyncIterator[None]:
        """Interrupt the wait inside, and raise as `check`, once the database cannot be
        reached.
        """
        started = time.monotonic()
        checks: list[asyncio.Task[None]] = []
        failures: list[DatabaseUnavailable] = []

        async def keep_checking(wait: asyncio.Timeout) -> None:
            try:
                while True:
                    await self.check(since=started)
                    await asyncio.sleep(_ANSWER_HOLDS)
            except DatabaseUnavailable as error:
                failures.append(error)
                wait.reschedule(asyncio.get_running_loop().time())

        try:
            async with asyncio.timeout(None) as wait:
                loop = asyncio.get_running_loop()
                # Start a task only if there is a wait, which is rare.
                alarm = loop.call_later(
                    _ASK_AFTER_SECONDS, lambda: checks.append(loop.create_task(keep_checking(wait)))
                )
                try:
                    yield
                finally:
                    alarm.cancel()
                    for task in checks:
                        task.cancel()
        except TimeoutError as error:
            raise (failures[0] if failures else DatabaseUnavailable()) from error

    async def close(self) -> None:
        """Cancel a running attempt; its callers get DatabaseUnavailable."""
        answer, self._answer = self._answer, None
        # A finished one may belong to a closed event loop: a client's next start may be in another.
        if answer is not None and not answer.done():
            answer.cancel()
            await asyncio.wait([answer])

    def _holds(self, answer: asyncio.Task[DatabaseUnavailable | None], since: float) -> bool:
        if time.monotonic() > self._ended_at + _ANSWER_HOLDS:
            return False
        return answer.cancelled() is False and (
            answer.result() is not None or self._begun_at >= since
        )

    async def _ask(self) -> DatabaseUnavailable | None:
        try:
            await (await self._connect()).close()
        except DatabaseUnavailable as error:
            return error
        except asyncio.CancelledError:
            return DatabaseUnavailable()
        finally:
            self._ended_at = time.monotonic()
        return None


class _Lent:
    """Lends a connection of an OwnPool: what `async with pool.connection()` does, in a third of the
    time.
    """

    __slots__ = ("_connection", "_lender", "_pool")

    def __init__(self, lender: OwnPool) -> None:
        self._lender = lender

    async def __aenter__(self) -> Connection:
        self._pool, self._connection = await self._lender.take()
        return self._connection

    async def __aexit__(self, *error: object) -> None:
        connection = self._connection
        try:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    await connection.rollback()
        finally:
            await self._pool.putconn(connection)


class OwnPool:
    """Lends connections of a psycopg pool, made at first use, and remade after `close` or once its
    event loop is closed.
    """

    def __init__(self, address: Address, *, size: int, timeout: float) -> None:
        self.size = size
        self.shared_by: object = self
        self.reachability = Reachability(self.connect)
        self._address = address
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._prepared: WeakKeyDictionary[Connection, Prepared | None] = WeakKeyDictionary()
        self._timeout = timeout

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection; PoolTimeout if none is free in time, DatabaseUnavailable without a
        database.
        """
        return _Lent(self)

    async def take(self) -> tuple[AsyncConnectionPool[Connection], Connection]:
        """Check out a connection; return the pool that it belongs to, and the connection. Raise the
        errors of `connection`.
        """
        pool = await self._open()
        await self.reachability.check_suspected()
        stats = pool.get_stats()
        if stats.get("pool_available", 0):
            with suppress(PoolTimeout):
                # Rarely waits: only if another task took the free connection first.
                return pool, await pool.getconn(_ASK_AFTER_SECONDS)
        if not stats.get("pool_size", 0):
            await self.reachability.check()
        async with self.reachability.checked():
            return pool, await pool.getconn(self._timeout)

    async def prepares(self, connection: Connection) -> bool:
        """Return whether statements may be prepared on a connection of the pool."""
        return await self.prepared(connection) is not None

    async def prepared(self, connection: Connection) -> Prepared | None:
        """Return the statements prepared on a connection of the pool for reading; None if it may
        prepare none.
        """
        try:
            return self._prepared[connection]
        except KeyError:
            known: Prepared | None = None
            if await let_prepare(connection, self._timeout):
                await set_clock(connection, self._timeout)
                known = Prepared(connection.info.encoding)
            self._prepared[connection] = known
            return known

    async def connect(self) -> Connection:
        """Return a connection outside the pool; LoginRefused, DatabaseMissing or
        DatabaseUnavailable.
        """
        try:
            return await AsyncConnection.connect(await self._address.resolve(), **_KEYWORDS)
        except (psycopg.Error, OSError) as error:
            raise refused(error) from error

    async def close(self) -> None:
        """Close idle connections now, and lent ones when they come back."""
        self._forget_closed_loop()
        pool, self._pool = self._pool, None
        await self.reachability.close()
        if pool is not None:
            await pool.close()

    def _forget_closed_loop(self) -> None:
        # For example if each test runs in its own loop. The pool's workers ended with the loop;
        # remaining connections close with the object.
        if self._loop is not None and self._loop.is_closed():
            self._loop = self._pool = None
            self._opening = asyncio.Lock()

    async def _open(self) -> AsyncConnectionPool[Connection]:
        self._forget_closed_loop()
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                leave_to_exceptions()
                pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
                    await self._address.resolve(),
                    connection_class=_signing(self._address),
                    kwargs=_KEYWORDS,
                    max_lifetime=_LIFETIME,
                    max_size=self.size,
                    min_size=0,
                    name=POOL_NAME,
                    open=False,
                    # Give up at once: the next request tries again, and succeeds once the
                    # database is up.
                    reconnect_timeout=0,
                )
                await pool.open()
                self._loop, self._pool = asyncio.get_running_loop(), pool
            return self._pool


def _signing(address: Address) -> type[Connection]:
    """Return a connection class that reads the credentials for each connection, if they change."""
    if not address.changes:
        return AsyncConnection

    class Signing(AsyncConnection[Any]):
        """Reads the address for each connection; psycopg's pool before 3.3 keeps the first."""

        @classmethod
        async def connect(cls, conninfo: str = "", **given: Any) -> Self:
            """Connect with the current password."""
            return await super().connect(await address.resolve(), **given)

    return Signing


class HostPool:
    """Lends connections of the host app's pool, which gets them back unchanged and is never
    closed by riverui.
    """

    def __init__(self, pool: AsyncConnectionPool[Any], *, timeout: float) -> None:
        self.reachability = Reachability(self.connect)
        self.shared_by: object = pool
        """The object that drivers of the same connections share."""
        self._pool = pool
        self._timeout = timeout

    @property
    def size(self) -> int:
        """Most connections of the pool."""
        return self._pool.max_size

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection in autocommit mode; the pool's own errors are raised as they are."""
        await self.reachability.check_suspected()
        async with AsyncExitStack() as stack:
            async with self.reachability.checked():
                connection = await stack.enter_async_context(
                    self._pool.connection(timeout=self._timeout)
                )
            autocommit = connection.autocommit
            if not autocommit:
                await connection.set_autocommit(True)
            try:
                yield connection
            finally:
                if not autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
                    await connection.set_autocommit(False)

    async def prepares(self, connection: Connection) -> bool:
        """Return False: a host's connection must stay as it is."""
        return False

    async def prepared(self, connection: Connection) -> Prepared | None:
        """Return None for the same reason."""
        return None

    async def connect(self) -> Connection:
        """Return a connection to the same database, outside the pool."""
        conninfo, kwargs = self._pool.conninfo, self._pool.kwargs
        if callable(conninfo):
            conninfo = await _value(conninfo())
        if callable(kwargs):
            kwargs = await _value(kwargs())
        try:
            async with asyncio.timeout(self._timeout):
                return await AsyncConnection.connect(
                    conninfo, **{**(kwargs or {}), "autocommit": True}
                )
        except (psycopg.Error, OSError) as error:
            raise refused(error) from error

    async def close(self) -> None:
        """Cancel running checks; the host closes its pool."""
        await self.reachability.close()


class NoPool:
    """Opens a connection for each use, and closes it afterwards."""

    size = 1

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self.connect = connect
        self.shared_by: object = self
        self.reachability = Reachability(connect)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a new connection; LoginRefused, DatabaseMissing or DatabaseUnavailable."""
        connection = await self.connect()
        try:
            yield connection
        finally:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    async def prepares(self, connection: Connection) -> bool:
        """Return False: a statement that runs once is not worth preparing."""
        return False

    async def prepared(self, connection: Connection) -> Prepared | None:
        """Return None for the same reason."""
        return None

    async def close(self) -> None:
        """Do nothing to connections, as none is kept; cancel running checks."""
        await self.reachability.close()


async def _value(given: Any) -> Any:
    return await given if isinstance(given, Awaitable) else given
