"""The asyncio client's operations on a connection without asyncio: each coroutine runs to its end
in one step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, Protocol, cast

import psycopg
from psycopg import RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from riverui.storage.interface.sql_blocks import Rows
from riverui.storage.options import Watch
from riverui.storage.postgres.admin.migrations import PostgresMigrations
from riverui.storage.postgres.engine.job_insert import instant_of
from riverui.storage.postgres.errors import translate, translate_foreign
from riverui.storage.postgres.executor import PostgresTransaction
from riverui.storage.postgres.foreign_transactions import sync_connection_of
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from riverui.storage.postgres.round_trips import Keep
from riverui.storage.postgres.statements import PostgresQueries, Statements, WideTimes

if TYPE_CHECKING:
    from riverui.storage.postgres.conninfo import Connection

_PARAMETER = re.compile(r"\$(\d+)")


class SyncConnection(Protocol):
    """The interface to a connection of any library."""

    @property
    def in_transaction(self) -> bool:
        """Whether a failing statement would abort a transaction."""
        ...

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        """Run a statement with `$1`, `$2`, …; return its rows."""
        ...

    def run(self, text: str) -> None:
        """Run statements without parameters or rows."""
        ...

    def copy(self, text: str, rows: str) -> None:
        """Run a COPY of rows in its text format."""
        ...


class _AtOnce(Statements):
    """Sends the statements of the asyncio client's code by a SyncConnection."""

    def __init__(
        self,
        connection: SyncConnection,
        queries: PostgresQueries,
        schema: str | None,
        watch: Watch | None = None,
        *,
        limits: PostgresLimits = LIMITS,
    ) -> None:
        # The methods below use this connection in place of the parent's psycopg one.
        super().__init__(cast("Connection", connection), queries, schema, watch, limits=limits)
        self._sync = connection

    @property
    def _in_transaction(self) -> bool:
        return self._sync.in_transaction

    async def run(self, statement: str) -> None:
        """Run a statement without rows."""
        self._sync.run(statement)

    async def ask(
        self, name: str, text: str, values: Sequence[Any], keep: Keep = Keep.NOTHING
    ) -> Rows:
        """Run one statement and return its rows."""
        if self._watch:
            self._watch(name, text, values)
        return self._sync.ask(text, values)

    async def copy(self, name: str, text: str, rows: str) -> None:
        """See Statements."""
        if self._watch:
            self._watch(name, text, [])
        self._sync.copy(text, rows)


class SyncTransaction(_AtOnce, PostgresTransaction):
    """All operations, in whatever transaction the connection is in."""


class SyncMigrations(_AtOnce, PostgresMigrations):
    """Reads the applied migrations."""


class PsycopgConnection:
    """A connection of psycopg, whatever its cursor and row factories."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        """See SyncConnection."""
        return (
            not self._connection.autocommit
            or self._connection.info.transaction_status != TransactionStatus.IDLE
        )

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        """See SyncConnection."""
        try:
            cursor = RawCursor(self._connection, row_factory=tuple_row)
            cursor.adapters.register_loader("timestamptz", WideTimes)
            cursor.execute(text.encode(), values or None, prepare=False, binary=True)
            columns = cursor.description
            if not columns:
                return Rows()
            return Rows(cursor.fetchall(), [column.name for column in columns])
        except psycopg.Error as error:
            raise translate(error) from error

    def run(self, text: str) -> None:
        """See SyncConnection."""
        try:
            RawCursor(self._connection).execute(text.encode(), prepare=False)
        except psycopg.Error as error:
            raise translate(error) from error

    def copy(self, text: str, rows: str) -> None:
        """See SyncConnection."""
        try:
            with RawCursor(self._connection).copy(text.encode()) as copy:
                copy.write(rows)
        except psycopg.Error as error:
            raise translate(error) from error


class Psycopg2Connection:
    """A connection of psycopg2, whatever its cursor factory and types."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        # A caller that passes one of psycopg2's has imported it.
        self._library = import_module("psycopg2.extensions")

    @property
    def in_transaction(self) -> bool:
        """See SyncConnection."""
        idle = self._library.TRANSACTION_STATUS_IDLE
        return not self._connection.autocommit or self._connection.get_transaction_status() != idle

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        """See SyncConnection."""
        # In parentheses, as `-1::bigint` is -(1::bigint), which fails for the lowest number.
        named = _PARAMETER.sub(r"(%(p\1)s)", text.replace("%", "%%"))
        parameters = {f"p{place}": value for place, value in enumerate(values, 1)}
        try:
            with self._cursor() as cursor:
                cursor.execute(named, parameters)
                columns = cursor.description
                if columns is None:
                    return Rows()
                return Rows(cursor.fetchall(), [column[0] for column in columns])
        except Exception as error:
            raise translate_foreign(error) from error

    def run(self, text: str) -> None:
        """See SyncConnection."""
        try:
            with self._cursor() as cursor:
                cursor.execute(text)
        except Exception as error:
            raise translate_foreign(error) from error

    def copy(self, text: str, rows: str) -> None:
        """See SyncConnection."""
        try:
            with self._cursor() as cursor:
                cursor.copy_expert(text, StringIO(rows))
        except Exception as error:
            raise translate_foreign(error) from error

    def _cursor(self) -> Any:
        """Return a cursor that returns tuples, with values as in psycopg."""
        library = self._library
        cursor = self._connection.cursor(cursor_factory=library.cursor)
        for oids, name, read in _READERS:
            library.register_type(library.new_type(oids, name, read), cursor)
        return cursor


def _bytes(value: str | None, cursor: Any) -> bytes | None:
    found = import_module("psycopg2").BINARY(value, cursor)
    return None if found is None else bytes(found)


_READERS: tuple[tuple[tuple[int, ...], str, Any], ...] = (
    ((17,), "bytea", _bytes),
    ((1184,), "timestamptz", lambda value, _: None if value is None else instant_of(value)),
)
"""Types that psycopg2 reads unlike psycopg: their OIDs, names and readers."""


def adopted(transaction: object) -> SyncConnection:
    """Return the connection of a caller's transaction; TypeError for anything else."""
    connection = sync_connection_of(transaction)
    return (
        PsycopgConnection(connection)
        if isinstance(connection, psycopg.Connection)
        else Psycopg2Connection(connection)
    )
