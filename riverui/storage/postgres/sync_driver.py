"""The driver of the client without asyncio: the same operations on a small pool, or inside the
caller's transaction.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from threading import Lock
from typing import Any, Self

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from riverui.errors import DatabaseError, DatabaseUnavailable, SchemaMissing
from riverui.storage.interface import Capability
from riverui.storage.options import Watch
from riverui.storage.postgres.conninfo import Address
from riverui.storage.postgres.driver import PostgresDriver, beginning, schema_error
from riverui.storage.postgres.errors import refused, translate
from riverui.storage.postgres.executor import EXECUTOR_CAPABILITIES
from riverui.storage.postgres.limits import LIMITS
from riverui.storage.postgres.pool_log import POOL_NAME, leave_to_exceptions
from riverui.storage.postgres.sessions import check_version, is_closed_by_server
from riverui.storage.postgres.statements import PostgresQueries
from riverui.storage.postgres.sync_executor import (
    PsycopgConnection,
    SyncConnection,
    SyncMigrations,
    SyncTransaction,
    adopted,
)
from riverui.storage.postgres.sync_listener import PostgresSyncListener
from riverui.storage.postgres.sync_time_limits import LimitedConnection, TimeLimits

_LIFETIME = 1800.0
"""Seconds after which a connection is not used again: poolers, DNS and secrets move on."""


class PostgresSyncDriver:
    """A SyncDriver of a Postgres database with River's tables; opens itself at first use."""

    capabilities: Collection[Capability[Any]] = EXECUTOR_CAPABILITIES
    is_synchronous = True
    library = PostgresDriver.library
    product = PostgresDriver.product

    def __init__(
        self,
        address: Address,
        *,
        schema: str | None,
        size: int,
        pool_timeout: timedelta,
        action_timeout: timedelta,
        lock_timeout: timedelta,
        pool: ConnectionPool[Any] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._address = address
        self._queries = PostgresQueries(schema)
        self.schema = schema
        self._size = size
        self._pool_timeout = pool_timeout.total_seconds()
        self._limit = action_timeout
        self._lock_timeout = lock_timeout
        self._given = pool
        self._watch = watch
        self._own: ConnectionPool[Connection[Any]] | None = None
        self._inherited: list[object] = []
        """Pools of the parent process; kept after a fork, as closing them would end the parent's
        connections.
        """
        self._opening = Lock()
        self._process = os.getpid()
        self._time_limits = TimeLimits()

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SyncTransaction]:
        """Begin a transaction under time limits; it commits unless an exception leaves it."""
        return self._executing(timeout or self._limit, begin=True)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SyncTransaction]:
        """Lend a pooled connection on which each call is its own transaction."""
        return self._executing(timeout or self._limit, begin=False)

    async def adopt(self, transaction: object) -> SyncTransaction:
        """Return the operations inside the caller's transaction; TypeError for anything else."""
        return self._executor(adopted(transaction))

    @property
    def listens(self) -> bool:
        """Whether it receives notifications: a driver on a given pool opens no connections."""
        return self._given is None

    def sync_listener(self) -> PostgresSyncListener:
        """Return a new listener on its own connection; DatabaseUnavailable if it cannot
        connect.
        """
        return PostgresSyncListener(self._address.resolve_sync(), self.schema)

    def close(self) -> None:
        """Close what it opened itself; safe to call twice."""
        with self._opening:
            self._leave_inherited()
            pool, self._own = self._own, None
        if pool is not None:
            pool.close()

    @asynccontextmanager
    async def _executing(self, limit: timedelta, *, begin: bool) -> AsyncIterator[SyncTransaction]:
        try:
            with (
                self._connection() as lent,
                LimitedConnection(lent, limit, self._limits(), stops=not begin) as connection,
            ):
                if begin:
                    with self._begun(connection, limit):
                        yield self._executor(connection)
                else:
                    yield self._executor(connection)
        except PoolTimeout as error:
            raise self._unavailable() from error
        except SchemaMissing as error:
            raise await self._schema_error(error) from error
        except psycopg.Error as error:
            raise translate(error) from error

    @contextmanager
    def _begun(self, connection: SyncConnection, limit: timedelta) -> Iterator[None]:
        connection.run(beginning("", limit, self._lock_timeout))
        try:
            yield
        except BaseException:
            with suppress(DatabaseError):
                connection.run("rollback")
            raise
        connection.run("commit")

    def _executor(self, connection: SyncConnection) -> SyncTransaction:
        return SyncTransaction(connection, self._queries, self.schema, self._watch)

    async def _schema_error(self, error: SchemaMissing) -> Exception:
        """Return the error to raise; see schema_error."""
        with suppress(Exception), self._connection() as connection:
            statements = SyncMigrations(
                PsycopgConnection(connection), self._queries, self.schema, self._watch
            )
            return await schema_error(error, statements)
        return error

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        """Lend a live connection in autocommit mode."""
        pool = self._given or self._opened()
        for attempt in range(pool.max_size + 1):
            with pool.connection(timeout=self._pool_timeout) as connection:
                if is_closed_by_server(connection) and attempt < pool.max_size:
                    connection.close()
                    continue
                check_version(connection, LIMITS.oldest_server)
                autocommit = connection.autocommit
                if not autocommit:
                    connection.autocommit = True
                try:
                    yield connection
                finally:
                    if (
                        not autocommit
                        and connection.info.transaction_status == TransactionStatus.IDLE
                    ):
                        connection.autocommit = False
                return

    def _opened(self) -> ConnectionPool[Connection[Any]]:
        with self._opening:
            self._leave_inherited()
            if self._own is None:
                leave_to_exceptions()
                self._own = ConnectionPool(
                    self._address.resolve_sync(),
                    connection_class=_signing(self._address),
                    # No prepared statements: behind a pooler they would reach other servers.
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    max_lifetime=_LIFETIME,
                    max_size=self._size,
                    min_size=0,
                    name=POOL_NAME,
                    open=True,
                    reconnect_timeout=0,
                )
            return self._own

    def _limits(self) -> TimeLimits:
        if self._time_limits.process != os.getpid():
            self._time_limits = TimeLimits()
        return self._time_limits

    def _leave_inherited(self) -> None:
        """Leave the parent's pool alone after a fork, as in a preloading web server."""
        if self._process != os.getpid():
            self._inherited.append(self._own)
            self._own, self._process = None, os.getpid()

    def _unavailable(self) -> DatabaseUnavailable:
        """Return why the pool gives no connection, after an attempt to connect."""
        if self._given is None:
            try:
                psycopg.connect(self._address.resolve_sync()).close()
            except (psycopg.Error, OSError) as error:
                return refused(error)
        return DatabaseUnavailable("No database connection became free in time.")


def _signing(address: Address) -> type[Connection[Any]]:
    """Return a connection class that reads the credentials for each connection, if they change."""
    if not address.changes:
        return Connection

    class Signing(Connection[Any]):
        """Reads the address for each connection; psycopg's pool before 3.3 keeps the first."""

        @classmethod
        def connect(cls, conninfo: str = "", **given: Any) -> Self:
            """Connect with the current password."""
            return super().connect(address.resolve_sync(), **given)

    return Signing
