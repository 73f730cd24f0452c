"""A SQLite file, as a SyncClient sees it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import Any

from riverui.storage.interface import Capability
from riverui.storage.options import ConnectOptions
from riverui.storage.sqlite.callers import adopted
from riverui.storage.sqlite.executor import SqliteExecutor, SqliteTransaction, committed
from riverui.storage.sqlite.file import SqliteFile
from riverui.storage.sqlite.scopes import Clock, EachCommits, Limits, OneTransaction
from riverui.storage.sqlite.waiting import Blocking

_WAITING = Blocking()


class SqliteSyncDriver:
    """The file for a SyncClient; safe to share between threads. Its operations never wait for an
    event loop.
    """

    capabilities: Collection[Capability[Any]] = frozenset()
    is_synchronous = True

    def __init__(
        self, file: SqliteFile, options: ConnectOptions, clock: Clock, schema: str | None = None
    ) -> None:
        self.schema = schema
        self._clock = clock
        self._file = file
        self._options = options

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SqliteTransaction]:
        """Begin a transaction; it commits unless an exception leaves it."""
        allowed = self._limits(timeout)
        return committed(OneTransaction(self._file, self._clock, _WAITING, allowed))

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[SqliteExecutor]:
        """Lend the operations, each its own transaction."""
        scope = EachCommits(self._file, self._clock, _WAITING, self._limits(timeout))
        return nullcontext(SqliteExecutor(scope))

    async def adopt(self, transaction: object) -> SqliteTransaction:
        """Return the operations inside the caller's own transaction; see SqliteDriver."""
        return adopted(self._file, transaction, self._clock, _WAITING, self._limits(None))

    @property
    def is_temporary(self) -> bool:
        """Whether the database is gone with its driver, so that a test need not roll back."""
        return self._file.is_temporary

    def close(self) -> None:
        """Close the idle connections; safe to call twice."""
        self._file.close()

    def _limits(self, timeout: timedelta | None) -> Limits:
        return limits(self._options, timeout or self._options.action_timeout)


def limits(options: ConnectOptions, timeout: timedelta) -> Limits:
    """Return the time limits of operations."""
    return Limits(options.lock_timeout.total_seconds(), timeout.total_seconds())
