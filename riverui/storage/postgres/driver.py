"""The Postgres driver: short transactions under time limits, on its own pool or the host
app's.

riverui.storage.interface documents its operations.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg_pool import PoolTimeout

from riverui.errors import DatabaseUnavailable, SchemaMissing, SchemaTooOld
from riverui.storage.interface import CAPABILITIES, Capability
from riverui.storage.migrations import MigrationFolder
from riverui.storage.options import Watch
from riverui.storage.postgres.admin.migrations import PostgresMigrations
from riverui.storage.postgres.conninfo import Connection
from riverui.storage.postgres.errors import translate
from riverui.storage.postgres.executor import PostgresExecutor, PostgresTransaction
from riverui.storage.postgres.foreign_transactions import async_connection_of
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from riverui.storage.postgres.listener import PostgresListener
from riverui.storage.postgres.pool import HostPool, NoPool, OwnPool
from riverui.storage.postgres.round_trips import ReadSettings, can_pipeline
from riverui.storage.postgres.sessions import (
    ClientTimeout,
    ServerSilent,
    check_version,
    configure,
    is_closed_by_server,
    is_direct,
    read_only,
)
from riverui.storage.postgres.shared_listener import SharedListener
from riverui.storage.postgres.sqlalchemy_executor import SqlAlchemyExecutor
from riverui.storage.postgres.statements import PostgresQueries, Statements

MIGRATIONS = MigrationFolder(Path(__file__).parent / "migrations")
"""The migrations of River v0.51.1, as SQL for Postgres."""

_OLDEST_MIGRATION = 5
"""The first that pages can read: it added `unique_key`, and `line` of river_migration."""
OLDEST_FOR_ENGINES = 6
"""The first for inserting and working jobs: it added the columns of unique jobs."""

# One simple-protocol message begins the transaction and sets its limits, so nothing depends on the
# session: a pooler in transaction mode needs that, and a host's pool gets its connections back
# unchanged. The time zone and the date style make times readable whatever the server's settings.
# The queries walk indexes in order and stop early; the alternatives that a planner with stale
# statistics may choose (a scan of the table, a bitmap of a whole state to be sorted) are off, and
# jit only costs time on queries this short.
_BEGIN = (
    "begin isolation level read committed{access};"
    " set local statement_timeout = {statement}; set local lock_timeout = {lock};"
    " set local idle_in_transaction_session_timeout = {idle}; set local timezone = 'UTC';"
    " set local datestyle = 'ISO'; set local jit = off; set local enable_seqscan = off;"
    " set local enable_bitmapscan = off"
)


log = logging.getLogger("riverui")
_Kind = TypeVar("_Kind", bound=PostgresExecutor)


class PostgresDriver:
    """A Postgres database with River's tables; opens itself at first use."""

    capabilities: Collection[Capability[Any]] = frozenset(CAPABILITIES)
    library = ("psycopg", version("psycopg"))
    migrations = MIGRATIONS
    product = "PostgreSQL"

    def __init__(
        self,
        pool: OwnPool | HostPool | NoPool,
        *,
        schema: str | None,
        page_timeout: timedelta,
        action_timeout: timedelta,
        lock_timeout: timedelta,
        watch: Watch | None = None,
        limits: PostgresLimits = LIMITS,
    ) -> None:
        self._pool = pool
        self._schema = schema
        self._page_timeout = page_timeout
        self._action_timeout = action_timeout
        self._lock_timeout = lock_timeout
        self._watch = watch
        self._limits = limits
        self._queries = PostgresQueries(schema)
        self._database = ""
        self._read_only = ""
        self._found_schema: str | None = None

    def __repr__(self) -> str:
        # Without the address, which may contain a password.
        return (
            f"<PostgresDriver {self.database or 'not connected yet'}, schema"
            f" {self.schema_in_use or '?'}>"
        )

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        return self._schema

    @property
    def database(self) -> str:
        """The database's name, empty before the first connection."""
        return self._database

    @property
    def read_only(self) -> str:
        """Why the database takes no changes, as a sentence; empty if it takes them or this is not
        known yet.
        """
        return self._read_only

    @property
    def schema_in_use(self) -> str:
        """The schema, or else the first of the search path, which is empty before the first
        connection.
        """
        return self._schema or self._found_schema or ""

    def reading(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[PostgresExecutor]:
        """Lend a pooled connection on which each statement is its own read-only transaction,
        in one round trip, under a statement timeout: the page timeout unless given.
        """
        limit = timeout or self._page_timeout
        if can_pipeline():
            return _Reading(self, limit)
        return self._executing(PostgresExecutor, ", read only", limit)

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[PostgresTransaction]:
        """Begin a transaction that may write, under time limits; it commits unless an exception
        leaves it.
        """
        # Without an access mode: if the user's transactions are read-only by default, so is this.
        return self._executing(PostgresTransaction, "", timeout or self._action_timeout)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[PostgresExecutor]:
        """Lend a pooled connection on which each call is its own transaction: one round
        trip.
        """
        return self._autocommitting(timeout or self._action_timeout)

    def apart(self) -> PostgresDriver:
        """Return a driver of the same database for another event loop, which connects for each
        use.
        """
        return PostgresDriver(
            NoPool(self._pool.connect),
            schema=self._schema,
            page_timeout=self._page_timeout,
            action_timeout=self._action_timeout,
            lock_timeout=self._lock_timeout,
            watch=self._watch,
            limits=self._limits,
        )

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[PostgresExecutor]:
        """Open a connection outside the pool, for a service that sends statements all the time;
        each call commits itself.
        """
        return self._in_session(timeout)

    async def adopt(self, transaction: object) -> PostgresTransaction:
        """Return an executor on the caller's transaction, which the caller commits. Raise TypeError
        if the argument is not a supported transaction.
        """
        if isinstance(transaction, PostgresTransaction):
            return transaction
        connection = await async_connection_of(transaction)
        kind = (
            PostgresTransaction if isinstance(connection, AsyncConnection) else SqlAlchemyExecutor
        )
        return kind(connection, self._queries, self._schema, self._watch, limits=self._limits)

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[PostgresMigrations]:
        """Lend a connection for migrations, which begin their own transactions and have no
        statement timeout.
        """
        try:
            async with self._pooled() as connection:
                self._check_server(connection)
                yield PostgresMigrations(
                    connection, self._queries, self._schema, self._watch, limits=self._limits
                )
        except PoolTimeout as error:
            raise await self._unavailable() from error
        except psycopg.Error as error:
            raise translate(error) from error

    async def listener(self) -> PostgresListener:
        """Return a new Listener on its own connection."""
        return PostgresListener(await self._listening(), self._schema, self._limits)

    async def shared_listener(self) -> SharedListener:
        """Return a new Listener on the connection that all listeners of the pool share."""
        pool = self._pool
        return SharedListener(pool.shared_by, self._schema, self._listening, self._limits)

    async def _listening(self) -> Connection:
        """Return a connection for a listener; log a warning if it may receive nothing."""
        connection = await self._pool.connect()
        try:
            self._check_server(connection)
            if not await is_direct(connection, self._action_timeout.total_seconds()):
                log.warning(
                    "there is a pooler before the database: in transaction mode no notifications"
                    " come through it; connect directly, or set poll_only"
                )
        except BaseException as error:
            await connection.close()
            if isinstance(error, psycopg.Error):
                raise translate(error) from error
            raise
        return connection

    async def ping(self) -> None:
        """Run a trivial query; raises as any call does."""
        async with self.reading() as executor:
            await executor.rows("ping")

    def _check_server(self, connection: Connection) -> None:
        """Store the database's name; raise ServerTooOld if the server is older than supported."""
        if not self._database:
            check_version(connection, self._limits.oldest_server)
        self._database = connection.info.dbname

    async def close(self) -> None:
        """Close every connection that the driver opened itself; safe to call twice."""
        await self._pool.close()

    @asynccontextmanager
    async def _executing(
        self, kind: type[_Kind], access: str, limit: timedelta
    ) -> AsyncIterator[_Kind]:
        async with self._begun(access, limit) as connection:
            executor = kind(
                connection,
                self._queries,
                self._schema,
                self._watch,
                limits=self._limits,
                limit=limit.total_seconds(),
            )
            await self._find_schema(executor)
            yield executor

    async def _find_schema(self, executor: Statements) -> None:
        """Store the schema that the tables were found in, if none was named."""
        if self._schema is None and self._found_schema is None:
            row = await executor.row("schema_current")
            self._found_schema = row[0] if row else ""

    @asynccontextmanager
    async def _begun(self, access: str, limit: timedelta) -> AsyncIterator[Connection]:
        begin = self._beginning(access, limit)
        try:
            for attempt in range(self._pool.size + 1):
                async with self._pooled() as connection:
                    if not await self._begin(connection, begin, last=attempt == self._pool.size):
                        # If the database is down, the pool would wait for a connection: check now.
                        await self._pool.reachability.check(since=time.monotonic())
                        continue
                    self._check_server(connection)
                    self._read_only = read_only(connection)
                    try:
                        yield connection
                    except BaseException:
                        with suppress(psycopg.Error):
                            await self._execute(connection, b"rollback")
                        raise
                    await self._execute(connection, b"commit")
                    return
        except PoolTimeout as error:
            raise await self._unavailable() from error
        except SchemaMissing as error:
            raise await self._schema_error(error, limit) from error
        except psycopg.Error as error:
            raise translate(error) from error

    @asynccontextmanager
    async def _pooled(self) -> AsyncIterator[Connection]:
        """Lend a connection of the pool, unless the task was cancelled while it waited for
        one.
        """
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        async with self._pool.connection() as connection:
            _end_if_cancelled(task, cancelled)
            try:
                yield connection
            except Exception as error:
                if _is_silence(error):
                    self._pool.reachability.suspect()
                raise

    @asynccontextmanager
    async def _autocommitting(self, limit: timedelta) -> AsyncIterator[PostgresExecutor]:
        async with _Ready(self, limit, oldest=OLDEST_FOR_ENGINES) as connection:
            prepares = await self._pool.prepares(connection)
            yield self._executor(connection, limit, bounded=False, prepares=prepares)

    @asynccontextmanager
    async def _in_session(self, limit: timedelta) -> AsyncIterator[PostgresExecutor]:
        connection = await self._pool.connect()
        try:
            prepares = await configure(connection, limit.total_seconds())
            self._check_server(connection)
            yield self._executor(connection, limit, prepares=prepares)
        except SchemaMissing as error:
            raise await self._schema_error(error, limit, oldest=OLDEST_FOR_ENGINES) from error
        except psycopg.Error as error:
            raise translate(error) from error
        finally:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    def _executor(
        self,
        connection: Connection,
        limit: timedelta,
        *,
        bounded: bool = True,
        prepares: bool = False,
    ) -> PostgresExecutor:
        return PostgresExecutor(
            connection,
            self._queries,
            self._schema,
            self._watch,
            limits=self._limits,
            limit=limit.total_seconds(),
            bounded=bounded,
            prepares=prepares,
        )

    def _milliseconds(self, limit: timedelta) -> tuple[int, int, int]:
        return _milliseconds(limit, self._lock_timeout)

    def _beginning(self, access: str, limit: timedelta) -> bytes:
        return beginning(access, limit, self._lock_timeout).encode()

    async def _schema_error(
        self, error: SchemaMissing, limit: timedelta, *, oldest: int = _OLDEST_MIGRATION
    ) -> Exception:
        """Return the error to raise: River's tables are missing, too old, or not the
        cause.
        """
        with suppress(Exception):
            async with self._pooled() as connection:
                await self._execute(connection, self._beginning(", read only", limit))
                try:
                    statements = PostgresMigrations(
                        connection,
                        self._queries,
                        self._schema,
                        self._watch,
                        limits=self._limits,
                        limit=limit.total_seconds(),
                    )
                    return await schema_error(error, statements, oldest)
                finally:
                    await self._execute(connection, b"rollback")
        return _unexpected(error)

    async def _unavailable(self) -> DatabaseUnavailable:
        """Return why the pool gives no connection."""
        try:
            await self._pool.reachability.check()
        except DatabaseUnavailable as error:
            return error
        return DatabaseUnavailable("No database connection became free in time.")

    async def _begin(self, connection: Connection, begin: bytes, *, last: bool) -> bool:
        """Begin the transaction; return False if the connection is dead and another should be
        tried.
        """
        try:
            await self._execute(connection, begin)
        except psycopg.OperationalError:
            if connection.closed and not last:
                return False
            raise
        return True

    async def _execute(self, connection: Connection, statement: bytes) -> None:
        """Run a statement without parameters or rows, whatever cursors the host's
        connections have.
        """
        async with ClientTimeout(connection, 0, grace=self._limits.grace_seconds):
            await AsyncRawCursor(connection).execute(statement, prepare=False)


class _Ready(AbstractAsyncContextManager[Connection]):
    """Lends a connection that the server has not closed, as far as known without a round trip."""

    __slots__ = ("_driver", "_lent", "_limit", "_oldest")

    def __init__(
        self, driver: PostgresDriver, limit: timedelta, *, oldest: int = _OLDEST_MIGRATION
    ) -> None:
        self._driver = driver
        self._limit = limit
        self._oldest = oldest

    async def __aenter__(self) -> Connection:
        try:
            return await self._take()
        except Exception as error:
            if (failure := await self._translate(error)) is None:
                raise
            raise failure from error

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if error is not None and _is_silence(error):
            self._driver._pool.reachability.suspect()
        try:
            await self._lent.__aexit__(kind, error, trace)
        except Exception as failed:
            if (failure := await self._translate(failed)) is None:
                raise
            raise failure from failed
        if isinstance(error, Exception) and (failure := await self._translate(error)) is not None:
            raise failure from error
        return None

    async def _take(self) -> Connection:
        pool = self._driver._pool
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        for last in range(pool.size, -1, -1):
            self._lent = pool.connection()
            connection = await self._lent.__aenter__()
            try:
                _end_if_cancelled(task, cancelled)
                if not last or not is_closed_by_server(connection):
                    if not self._driver._database:
                        self._driver._check_server(connection)
                    return connection
                await connection.close()
                await self._driver._pool.reachability.check(since=time.monotonic())
            except BaseException as error:
                await self._lent.__aexit__(type(error), error, error.__traceback__)
                raise
            await self._lent.__aexit__(None, None, None)
        raise AssertionError("the last connection is lent as it is")

    async def _translate(self, error: Exception) -> Exception | None:
        """Return the error to raise for a failure; None if it is not of the database."""
        if isinstance(error, PoolTimeout):
            return await self._driver._unavailable()
        if isinstance(error, SchemaMissing):
            return await self._driver._schema_error(error, self._limit, oldest=self._oldest)
        return translate(error) if isinstance(error, psycopg.Error) else None


class _Reading(AbstractAsyncContextManager[PostgresExecutor]):
    """Lends a connection on which each statement is its own read-only transaction: a class,
    as several generators around one another take three times as long.
    """

    __slots__ = ("_driver", "_limit", "_ready")

    def __init__(self, driver: PostgresDriver, limit: timedelta) -> None:
        self._driver = driver
        self._limit = limit
        self._ready = _Ready(driver, limit)

    async def __aenter__(self) -> PostgresExecutor:
        driver, limit = self._driver, self._limit
        connection = await self._ready.__aenter__()
        try:
            driver._read_only = read_only(connection)
            prepared = await driver._pool.prepared(connection)
            executor = PostgresExecutor(
                connection,
                driver._queries,
                driver._schema,
                driver._watch,
                limits=driver._limits,
                limit=limit.total_seconds(),
                prepares=prepared is not None,
                reading=ReadSettings(*driver._milliseconds(limit)),
                prepared=prepared,
            )
            if driver._schema is None and driver._found_schema is None:
                await driver._find_schema(executor)
        except BaseException as error:
            await self._ready.__aexit__(type(error), error, error.__traceback__)
            raise
        return executor

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._ready.__aexit__(kind, error, trace)


def beginning(access: str, limit: timedelta, lock_timeout: timedelta) -> str:
    """Return the SQL that begins a transaction with limits for statements and for lock waits."""
    statement, lock, idle = _milliseconds(limit, lock_timeout)
    return _BEGIN.format(access=access, statement=statement, lock=lock, idle=idle)


def _milliseconds(limit: timedelta, lock_timeout: timedelta) -> tuple[int, int, int]:
    """Return the limits of a statement, of its wait for a lock, and of idle transactions."""
    statement = max(1, round(limit.total_seconds() * 1000))
    lock = max(1, min(statement, round(lock_timeout.total_seconds() * 1000)))
    return statement, lock, statement + 10_000


async def schema_error(
    error: SchemaMissing, statements: PostgresMigrations, oldest: int = OLDEST_FOR_ENGINES
) -> Exception:
    """Return the error to raise: River's tables are missing, too old, or not the cause."""
    if not await statements.tables_exist():
        return SchemaMissing()
    versions = await statements.versions("main")
    if versions and max(versions) < oldest:
        return SchemaTooOld(
            f"River's tables are older than migration {oldest}: run `riverui migrate-up`."
        )
    return _unexpected(error)


def _unexpected(error: SchemaMissing) -> Exception:
    cause = error.__cause__
    return error if cause is None else type(error)(f"River's tables are not as expected: {cause}")


def _is_silence(error: BaseException) -> bool:
    """Return whether an error means that the server did not answer in time."""
    return isinstance(error, ServerSilent) or isinstance(error.__cause__, ServerSilent)


def _end_if_cancelled(task: asyncio.Task[Any] | None, before: int) -> None:
    """Raise CancelledError if a task was cancelled while it waited for a connection.

    Before Python 3.12 `asyncio.wait_for`, in which psycopg's pool waits, returns its result and
    drops a cancellation that arrives at the same moment.
    """
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
