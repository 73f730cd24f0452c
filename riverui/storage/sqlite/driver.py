"""A SQLite file, as clients and dashboards see it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from riverui.storage.interface import (
    LISTENING,
    MIGRATIONS,
    WORKING,
    Capability,
    MigrationSource,
    entered,
)
from riverui.storage.options import ConnectOptions
from riverui.storage.sqlite.callers import adopted
from riverui.storage.sqlite.executor import SqliteExecutor, SqliteTransaction, committed
from riverui.storage.sqlite.file import SqliteFile
from riverui.storage.sqlite.group_commit import GroupCommits, InGroups
from riverui.storage.sqlite.listener import SqliteListener
from riverui.storage.sqlite.migrations import SOURCE, SqliteMigrations, create_tables
from riverui.storage.sqlite.scopes import (
    Clock,
    OneTransaction,
    translated,
)
from riverui.storage.sqlite.sync_driver import SqliteSyncDriver, limits
from riverui.storage.sqlite.waiting import InLoop

if TYPE_CHECKING:
    from riverui.storage import interface

_DEFAULTS = ConnectOptions()


class SqliteDriver:
    """A SQLite file with River's tables, or a temporary one.

    A Client, a SyncClient or a dashboard takes it in place of a URL; several may share it, in all
    threads. One transaction writes at a time: others wait for `lock_timeout`.
    """

    capabilities: Collection[Capability[Any]] = frozenset({LISTENING, MIGRATIONS, WORKING})
    library = ("sqlite3", sqlite3.sqlite_version)
    migrations: MigrationSource = SOURCE
    product = "SQLite"
    read_only = ""
    schema_in_use = "main"

    def __init__(
        self,
        path: str | None,
        options: ConnectOptions = _DEFAULTS,
        *,
        clock: Clock | None = None,
        schema: str | None = None,
    ) -> None:
        """Open a file at first use; without a path a temporary one, which has River's tables and is
        removed with the driver. `clock` is its time, unless a client gives its own.
        """
        self.database = ""
        self.schema = schema
        self._clock: Clock = clock or partial(datetime.now, UTC)
        self._file = SqliteFile(path, create_tables)
        self._groups = GroupCommits(self._file)
        self._options = options
        self._waiting = InLoop(self._file.threads)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._file.name}>"

    def reading(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SqliteExecutor]:
        """Begin a transaction that only reads."""
        allowed = timeout or self._options.page_timeout
        return committed(self._one(allowed, read_only=True))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SqliteTransaction]:
        """Begin a transaction; it commits unless an exception leaves it."""
        return committed(self._one(timeout or self._options.action_timeout))

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SqliteExecutor]:
        """Lend the operations, each its own transaction."""
        self.database = self._file.name
        allowed = limits(self._options, timeout or self._options.action_timeout)
        scope = InGroups(self._groups, self._clock, self._waiting, allowed)
        return nullcontext(SqliteExecutor(scope))

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[SqliteExecutor]:
        """Lend the same as `autocommit`."""
        return self.autocommit(timeout=timeout)

    async def adopt(self, transaction: object) -> SqliteTransaction:
        """Return the operations inside the caller's own transaction, which stays theirs to commit:
        a sqlite3 connection, or SQLAlchemy's or Django's on one. TypeError for anything else.
        """
        allowed = limits(self._options, self._options.action_timeout)
        return adopted(self._file, transaction, self._clock, InLoop(None), allowed)

    async def listener(self) -> SqliteListener:
        """Return a new listener in the running event loop."""
        self.database = self._file.name
        return SqliteListener(self._file)

    async def shared_listener(self) -> SqliteListener:
        """Return the same as `listener`, as it keeps no connection."""
        return await self.listener()

    def apart(self) -> SqliteDriver:
        """Return the driver itself, which every thread and event loop may use."""
        return self

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[SqliteMigrations]:
        """Lend a connection for migrations."""
        self.database = self._file.name
        with translated():
            connection = self._file.take(create=True)
        try:
            yield SqliteMigrations(connection, self._waiting)
        finally:
            connection.raw.close()

    @property
    def sync_driver(self) -> SqliteSyncDriver:
        """The same file for a SyncClient."""
        return SqliteSyncDriver(self._file, self._options, self._clock, self.schema)

    @contextmanager
    def sync_transaction(self) -> Iterator[SqliteTransaction]:
        """Begin a transaction for a SyncClient; it commits unless an exception leaves it."""
        with entered(self.sync_driver.transaction()) as opened:
            yield opened

    async def ping(self) -> None:
        """Run a trivial query."""
        async with self.reading() as executor:
            await executor.ping()

    async def close(self) -> None:
        """Close the idle connections; a temporary file lives as long as the driver."""
        self._file.close()

    def _one(self, timeout: timedelta, *, read_only: bool = False) -> OneTransaction:
        self.database = self._file.name
        allowed = limits(self._options, timeout)
        return OneTransaction(self._file, self._clock, self._waiting, allowed, read_only=read_only)


class MemoryDatabase(SqliteDriver):
    """A temporary database with River's tables, gone with the object: for tests without a server.

    It is a SQLite database: a Client, a SyncClient or a dashboard takes it in place of a URL, and
    several may share it. Jobs, queues and the leader behave as they do on Postgres, but one
    transaction writes at a time. `transaction()` begins one, `sync_transaction()` one for a
    SyncClient. Workflows need Postgres.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        lock_timeout: timedelta = _DEFAULTS.lock_timeout,
        schema: str | None = None,
    ) -> None:
        """Make an empty database. `clock` is its time, unless a client gives its own;
        `lock_timeout` is how long a transaction waits while another one writes; `schema` must equal
        `ClientConfig.schema` and is otherwise ignored.
        """
        options = replace(_DEFAULTS, lock_timeout=lock_timeout)
        super().__init__(None, options, clock=clock, schema=schema)


if TYPE_CHECKING:

    def _offered(
        database: SqliteDriver, executor: SqliteExecutor, transaction: SqliteTransaction
    ) -> tuple[
        interface.WorkingDriver,
        interface.ListeningDriver,
        interface.MigrationDriver,
        interface.TwoSidedDriver,
        interface.Executor,
        interface.Transaction,
    ]:
        """Let type checkers verify that the driver has what its capabilities promise."""
        return database, database, database, database, executor, transaction
