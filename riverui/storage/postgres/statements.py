"""Runs named SQL blocks on one connection, in whatever transaction that is in."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import AsyncRawCursor
from psycopg.adapt import Buffer, Loader, Transformer
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import tuple_row

from riverui.domain.clock import FIRST, LAST
from riverui.storage.postgres.client_timeout import ClientTimeout
from riverui.storage.postgres.errors import translate
from riverui.storage.postgres.pool import Connection
from riverui.storage.sql import Queries, number

Row = tuple[Any, ...]
Watch = Callable[[str, str, Sequence[Any]], None]
"""Is told of each statement before it runs: the block's name, the SQL as sent, its parameters."""

_MIDNIGHT = datetime(2000, 1, 1, tzinfo=UTC)
"""Where Postgres counts its microseconds from."""

_T = TypeVar("_T")


class Statement(NamedTuple):
    """A block to run and what goes into it."""

    name: str
    parameters: Mapping[str, Any]
    clauses: Mapping[str, str] = {}
    parts: Mapping[str, str] = {}
    """Slots to fill with other blocks, by name."""
    copy: str | None = None
    """Rows to send, where the block is a COPY."""
    prepare: bool = False
    """Where the connection can: for statements whose plan is the same whatever the table holds."""


Steps = Generator[Statement, list[Row], _T]
"""An operation that does not know how statements reach the database: yields them and is sent their
rows.
"""


def load_queries(schema: str | None) -> Queries:
    """Postgres's SQL blocks for one schema."""
    return Queries(sorted(Path(__file__).parent.glob("*/*.sql")), schema)


def instant(value: datetime | None) -> datetime | str | None:
    """A time as parameter; the ends of Python's calendar stand for the infinities (`WideTimes`)."""
    if value == LAST:
        return "infinity"
    if value == FIRST:
        return "-infinity"
    return value


class WideTimes(Loader):
    """Reads times as UTC, whatever zone the session is in, and those beyond Python's calendar as
    its ends.
    """

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        microseconds = int.from_bytes(data, "big", signed=True)
        try:
            return _MIDNIGHT + timedelta(microseconds=microseconds)
        except OverflowError:
            return FIRST if microseconds < 0 else LAST


class Statements:
    """What the groups of operations have in common: a connection, the SQL blocks and the schema."""

    _copies = True
    """Whether the driver has COPY."""

    def __init__(
        self,
        connection: Connection,
        queries: Queries,
        schema: str | None,
        watch: Watch | None = None,
        *,
        limit: float | None = None,
        bounded: bool = True,
        prepares: bool = False,
    ) -> None:
        self._connection = connection
        self._queries = queries
        self._schema = schema
        self._limit = limit
        """Seconds that a statement may take; None where there is no limit."""
        self._bounded = bounded
        """Whether the server keeps that limit."""
        self._prepares = prepares
        """Whether the connection is one of ours that stays with one server process."""
        self._watch = watch

    @property
    def _in_transaction(self) -> bool:
        """Whether a statement that fails would spoil what comes after it."""
        return (
            not self._connection.autocommit
            or self._connection.info.transaction_status != TransactionStatus.IDLE
        )

    async def _rows(
        self,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        /,
        *,
        sql: str | None = None,
        **clauses: str,
    ) -> list[Row]:
        """Every row of one block (or of `sql`, put together from blocks and known by that name)."""
        text, names = number(sql if sql is not None else self._queries.text(name, **clauses))
        values = [parameters[key] for key in names] if parameters else []
        return await self._ask(name, text, values)

    async def _row(
        self, name: str, parameters: Mapping[str, Any] | None = None, /, **clauses: str
    ) -> Row | None:
        """The first row of one block; None where there is none."""
        rows = await self._rows(name, parameters, **clauses)
        return rows[0] if rows else None

    async def _ready(
        self,
        name: str,
        parameters: Mapping[str, Any],
        /,
        *,
        prepare: bool = False,
        parts: Mapping[str, str] | None = None,
        **clauses: str,
    ) -> list[Row]:
        """Every row of one block that runs so often that its text is kept; see Queries.ready.

        `prepare` is for statements whose plan is the same whatever the table holds.
        """
        text, names = self._queries.ready(name, clauses, parts)
        return await self._ask(
            name, text, [parameters[key] for key in names], prepare and self._prepares
        )

    async def _drive(self, steps: Steps[_T]) -> _T:
        """Runs an operation's statements; what it returns."""
        try:
            statement = next(steps)
            while True:
                text, names = self._queries.ready(
                    statement.name, statement.clauses, statement.parts
                )
                if statement.copy is not None:
                    await self._copy(statement.name, text, statement.copy)
                    statement = steps.send([])
                else:
                    values = [statement.parameters[key] for key in names]
                    prepare = statement.prepare and self._prepares
                    statement = steps.send(await self._ask(statement.name, text, values, prepare))
        except StopIteration as end:
            result: _T = end.value
            return result

    async def _run(self, statement: str) -> None:
        """A statement of our own wording that gives no rows, such as `savepoint`."""
        try:
            async with ClientTimeout(self._connection, self._limit, stop=not self._bounded):
                await AsyncRawCursor(self._connection).execute(statement.encode(), prepare=False)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _ask(
        self, name: str, text: str, values: Sequence[Any], prepare: bool = False
    ) -> list[Row]:
        if self._watch:
            self._watch(name, text, values)
        # A cursor for each statement, so that tasks which share a session do not read one another's
        # rows.
        cursor: AsyncRawCursor[Row] = AsyncRawCursor(self._connection, row_factory=tuple_row)
        if self._connection.pgconn.parameter_status(b"TimeZone") != b"UTC":
            cursor.adapters.register_loader("timestamptz", WideTimes)
        try:
            async with ClientTimeout(self._connection, self._limit, stop=not self._bounded):
                # Binary, so that neither DateStyle nor other settings of the session change what is
                # read.
                await cursor.execute(text.encode(), values or None, prepare=prepare, binary=True)
            result = cursor.pgresult
            if result is None or not result.nfields:
                return []
            try:
                return await cursor.fetchall()
            except psycopg.DataError:
                # A time that Python cannot hold. Rare, so the slower reader comes in only now; the
                # statement has run and must not run again.
                cursor.adapters.register_loader("timestamptz", WideTimes)
                transformer = Transformer.from_context(cursor)
                transformer.set_pgresult(result)
                rows: list[Row] = transformer.load_rows(0, result.ntuples, tuple)
                return rows
        except psycopg.Error as error:
            raise translate(error) from error

    async def _copy(self, name: str, text: str, rows: str) -> None:
        if self._watch:
            self._watch(name, text, [])
        try:
            async with (
                ClientTimeout(self._connection, self._limit, stop=not self._bounded),
                AsyncRawCursor(self._connection).copy(text.encode()) as copy,
            ):
                await copy.write(rows)
        except psycopg.Error as error:
            raise translate(error) from error
