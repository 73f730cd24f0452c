"""Runs named SQL blocks on one connection, inside the transaction that the driver began."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import AsyncRawCursor
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

from riverui.storage.postgres.failures import translate
from riverui.storage.postgres.patience import patience
from riverui.storage.postgres.pool import Connection
from riverui.storage.queries import Queries, number

Row = tuple[Any, ...]
Watch = Callable[[str, str, Sequence[Any]], None]
"""Is told of each statement before it runs: the block's name, the SQL as sent, its parameters."""

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def instant(value: datetime | None) -> datetime | str | None:
    """A time as parameter; the ends of Python's calendar stand for the infinities (`_WideTimes`)."""
    if value == _LAST:
        return "infinity"
    if value == _FIRST:
        return "-infinity"
    return value


class _WideTimes(TimestamptzLoader):
    """Reads times beyond Python's calendar (`infinity`, the year 20000, BC) as its ends."""

    def load(self, data: Any) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            text = bytes(data)
            return _FIRST if text.startswith(b"-") or text.endswith(b"BC") else _LAST


class Statements:
    """What the groups of operations have in common: a connection, the SQL blocks and the schema."""

    def __init__(
        self,
        connection: Connection,
        queries: Queries,
        schema: str | None,
        watch: Watch | None = None,
        *,
        limit: float | None = None,
    ) -> None:
        self._connection = connection
        self._queries = queries
        self._schema = schema
        self._limit = limit
        """Seconds that the server gives each statement; None where it sets no limit."""
        self._watch = watch
        self._cursor: AsyncRawCursor[Row] = AsyncRawCursor(connection, row_factory=tuple_row)

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
        if self._watch:
            self._watch(name, text, values)
        try:
            # Without parameters psycopg would use the simple protocol and accept several statements; harmless
            # here.
            await self._execute(text, values)
            try:
                return await self._cursor.fetchall()
            except psycopg.DataError:
                # A time that Python cannot hold. Rare, so the slower reader comes in only now.
                self._cursor.adapters.register_loader("timestamptz", _WideTimes)
                await self._execute(text, values)
                return await self._cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error

    async def _row(
        self, name: str, parameters: Mapping[str, Any] | None = None, /, **clauses: str
    ) -> Row | None:
        """The first row of one block; None where there is none."""
        rows = await self._rows(name, parameters, **clauses)
        return rows[0] if rows else None

    async def _run(self, statement: str) -> None:
        """A statement of our own wording that gives no rows, such as `savepoint`."""
        try:
            await self._execute(statement)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _execute(self, text: str, values: Sequence[Any] = ()) -> None:
        with patience(self._connection, self._limit):
            await self._cursor.execute(text.encode(), values or None, prepare=False)
