"""Runs named SQL blocks on one connection, in or outside a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncRawCursor
from psycopg.adapt import Buffer, Loader, Transformer
from psycopg.pq import Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from riverui.domain.time import FIRST, LAST
from riverui.errors import DatabaseError, DatabaseUnavailable, QueryTimeout, SchemaMissing
from riverui.storage.interface.sql_blocks import Fragment, Queries, Row, Rows
from riverui.storage.options import Watch
from riverui.storage.postgres import round_trips
from riverui.storage.postgres.conninfo import Connection
from riverui.storage.postgres.errors import translate
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from riverui.storage.postgres.round_trips import Keep
from riverui.storage.postgres.sessions import ClientTimeout
from riverui.storage.tables import OWN_TABLES, PRO_TABLES, KnownTables

_MIDNIGHT = datetime(2000, 1, 1, tzinfo=UTC)
"""Postgres's epoch, from which it counts microseconds."""


class PostgresQueries(Queries):
    """All SQL blocks for one schema, and the cached names of its optional tables."""

    def __init__(self, schema: str | None) -> None:
        folder = Path(__file__).parent
        stores, features = folder.parent / "stores", folder.parents[1] / "features"
        files = [*folder.glob("*/*.sql"), *stores.glob("*.sql"), *features.rglob("*.sql")]
        files = [file for file in files if not file.match("*.sqlite.sql")]
        super().__init__(sorted(files), schema)
        self.known_tables = KnownTables()


def instant(value: datetime | None) -> datetime | str | None:
    """Return a time as a parameter; the ends of Python's calendar represent the infinities
    (`WideTimes`).
    """
    if value == LAST:
        return "infinity"
    if value == FIRST:
        return "-infinity"
    return value


class WideTimes(Loader):
    """Reads times as UTC, whatever the session's time zone, and those beyond Python's calendar as
    its ends.
    """

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        """Return the time from its eight bytes: microseconds since the year 2000."""
        microseconds = int.from_bytes(data, "big", signed=True)
        try:
            return _MIDNIGHT + timedelta(microseconds=microseconds)
        except OverflowError:
            return FIRST if microseconds < 0 else LAST


def _with_wide_times(connection: Connection, result: PGresult, names: Sequence[str]) -> Rows:
    """Return the rows of a result that may have times in another zone, or beyond the calendar."""
    cursor = AsyncRawCursor(connection)
    cursor.adapters.register_loader("timestamptz", WideTimes)
    transformer = Transformer.from_context(cursor)
    transformer.set_pgresult(result)
    return Rows(transformer.load_rows(0, result.ntuples, tuple), names)


def _column_names(result: PGresult) -> tuple[str, ...]:
    return tuple((result.fname(place) or b"").decode() for place in range(result.nfields))


class Statements:
    """Base of the groups of operations: a connection, the SQL blocks and the schema."""

    copies = True
    """Whether the driver has COPY."""

    def __init__(
        self,
        connection: Connection,
        queries: PostgresQueries,
        schema: str | None,
        watch: Watch | None = None,
        *,
        limits: PostgresLimits = LIMITS,
        limit: float | None = None,
        bounded: bool = True,
        prepares: bool = False,
        reading: round_trips.ReadSettings | None = None,
        prepared: round_trips.Prepared | None = None,
    ) -> None:
        self._connection = connection
        self.queries = queries
        self.schema = schema
        self.limits = limits
        self._limit = limit
        """Seconds that a statement may take; None if there is no limit."""
        self._bounded = bounded
        """Whether the server enforces that limit."""
        self._kept = Keep.STATEMENT if prepares else Keep.NOTHING
        """What may be prepared: statements on riverui's own connections that stay with one server
        process.
        """
        self._reading = reading
        """The settings of each statement in its own transaction; None if a transaction has begun or
        nothing is to be set.
        """
        self._prepared_here = prepared
        """The connection's prepared statements for them; None if it can keep none."""
        self._watch = watch

    @property
    def backend_pid(self) -> int | None:
        """The process that the server named when the connection was made; None if not known."""
        return self._connection.info.backend_pid

    @property
    def _in_transaction(self) -> bool:
        """Return whether a failing statement would abort a transaction."""
        return (
            not self._connection.autocommit
            or self._connection.info.transaction_status != TransactionStatus.IDLE
        )

    def render(self, fragment: Fragment) -> tuple[str, Sequence[Any]]:
        """Return the text of a block with its slots filled, and the values of its parameters."""
        return self.queries.render(fragment)

    async def tables(self) -> frozenset[str]:
        """Return the names of the optional tables; see riverui.storage.tables."""
        known = self.queries.known_tables
        if (names := known.names()) is None:
            values = {"schema": self.schema, "names": sorted(OWN_TABLES | PRO_TABLES)}
            names = frozenset((await self.rows("table_name_list", values)).values())
            known.keep(names)
        return names

    async def rows(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Rows:
        """Return every row of one block, its slots filled and its parameters given."""
        text, given = self.queries.render(Fragment(block, values, **slots))
        return await self.ask(block, text, given)

    async def prepared(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Rows:
        """Return rows as `rows` does; prepare the statement if the connection can keep it.

        For statements that run often and whose plan does not depend on the table's contents.
        """
        text, given = self.queries.render(Fragment(block, values, **slots))
        return await self.ask(block, text, given, self._kept)

    async def planned(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Rows:
        """Return rows as `rows` does; the connection keeps the plan of a statement that repeats
        with the same values.
        """
        text, given = self.queries.render(Fragment(block, values, **slots))
        return await self.ask(block, text, given, Keep.PLAN)

    async def row(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Any:
        """Return the first row of one block, its columns as attributes; None if there is
        none.
        """
        return (await self.rows(block, values, **slots)).first()

    async def guarded(self, name: str, parameters: Mapping[str, Any], **slots: Fragment) -> Rows:
        """Return the rows of a block; its failure leaves the transaction usable."""
        if not self._in_transaction:
            return await self.rows(name, parameters, **slots)
        await self.run("savepoint riverui_change")
        try:
            rows = await self.rows(name, parameters, **slots)
        except DatabaseUnavailable:
            raise
        except DatabaseError:
            await self.run("rollback to savepoint riverui_change; release savepoint riverui_change")
            raise
        await self.run("release savepoint riverui_change")
        return rows

    @asynccontextmanager
    async def bitmaps(
        self, *, milliseconds: int | None = None, scans: bool = False
    ) -> AsyncIterator[None]:
        """Let the statements inside read GIN indexes, which needs bitmaps, for at most
        `milliseconds` each; with `scans` whole tables too. In a transaction it applies up to its
        end, or to that of the savepoint.
        """
        before = self._reading
        if before is None:
            settings = "set local enable_bitmapscan = on"
            if milliseconds is not None:
                settings += f"; set local statement_timeout = {milliseconds:d}"
            await self.run(f"{settings}; set local enable_seqscan = on" if scans else settings)
        else:
            limit = before.statement if milliseconds is None else milliseconds
            self._reading = before._replace(statement=limit, bitmaps=True, scans=scans, replan=True)
        try:
            yield
        finally:
            self._reading = before

    @asynccontextmanager
    async def trying_bitmaps(self, *, milliseconds: int) -> AsyncIterator[None]:
        """Let the statements inside use bitmaps; a QueryTimeout ends only these statements."""
        begun = self._reading is None
        if begun:
            await self.run("savepoint riverui_try")
        with suppress(QueryTimeout):
            async with self.bitmaps(milliseconds=milliseconds):
                yield
        if begun:
            await self.run("rollback to savepoint riverui_try; release savepoint riverui_try")

    async def run(self, statement: str) -> None:
        """Run a trusted statement without parameters or rows, such as `savepoint`."""
        try:
            async with self._timed():
                await AsyncRawCursor(self._connection).execute(statement.encode(), prepare=False)
        except psycopg.Error as error:
            raise self._translated(error) from error

    async def ask(
        self, name: str, text: str, values: Sequence[Any], keep: Keep = Keep.NOTHING
    ) -> Rows:
        """Run one statement and return its rows; `name` is passed to a watcher.

        All blocks use this method, so that each has its time limit, reads times alike and fails
        with riverui's errors.
        """
        if self._watch:
            self._watch(name, text, values)
        if self._reading is not None:
            return await self._read(self._reading, text, values, keep)
        # A cursor for each statement, so that tasks which share a session do not read one another's
        # rows.
        cursor: AsyncRawCursor[Row] = AsyncRawCursor(self._connection, row_factory=tuple_row)
        if self._connection.pgconn.parameter_status(b"TimeZone") != b"UTC":
            cursor.adapters.register_loader("timestamptz", WideTimes)
        try:
            async with self._timed():
                # Binary, which DateStyle and other settings of the session do not change.
                prepare = keep is Keep.STATEMENT
                await cursor.execute(text.encode(), values or None, prepare=prepare, binary=True)
            result = cursor.pgresult
            if result is None or not result.nfields:
                return Rows()
            names = self.queries.columns(text, lambda: _column_names(result))
            try:
                return Rows(await cursor.fetchall(), names)
            except psycopg.DataError:
                # A time that Python cannot represent. Rare, so the slower loader is used only now;
                # the statement has run and must not run again.
                return _with_wide_times(self._connection, result, names)
        except psycopg.Error as error:
            raise self._translated(error) from error

    async def _read(
        self,
        settings: round_trips.ReadSettings,
        text: str,
        values: Sequence[Any],
        keep: Keep,
    ) -> Rows:
        """Return the rows of a statement in its own transaction."""
        connection = self._connection
        try:
            grace = self.limits.grace_seconds
            async with ClientTimeout(connection, settings.statement / 1000, grace=grace):
                result = await round_trips.read(
                    connection,
                    settings,
                    text.encode(),
                    values,
                    prepared=self._prepared_here,
                    keep=keep,
                )
            if not result.nfields:
                return Rows()
            names = self.queries.columns(text, lambda: _column_names(result))
            # The session has its own time zone again.
            if connection.pgconn.parameter_status(b"TimeZone") == b"UTC":
                if (kept := self._prepared_here) is not None:
                    transformer = kept.transformer(connection)
                else:
                    transformer = Transformer.from_context(connection)
                transformer.set_pgresult(result)
                try:
                    return Rows(transformer.load_rows(0, result.ntuples, tuple), names)
                except psycopg.DataError:
                    pass
                finally:
                    transformer.set_pgresult(None)
            return _with_wide_times(connection, result, names)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def _timed(self) -> ClientTimeout:
        grace = self.limits.grace_seconds
        return ClientTimeout(self._connection, self._limit, stop=not self._bounded, grace=grace)

    async def copy(self, name: str, text: str, rows: str) -> None:
        """Run a COPY of rows in its text format; `name` is what a watcher gets."""
        if self._watch:
            self._watch(name, text, [])
        try:
            async with (
                self._timed(),
                AsyncRawCursor(self._connection).copy(text.encode()) as copy,
            ):
                await copy.write(rows)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: psycopg.Error) -> Exception:
        """Return riverui's error."""
        translated = translate(error)
        if isinstance(translated, SchemaMissing):
            self.queries.known_tables.forget()
        return translated


class Part:
    """Operations of an executor on one subject; each is made of its statements."""

    __slots__ = ("_sql",)

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
