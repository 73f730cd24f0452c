"""Runs migrations on Postgres: reads their record, and runs each step with its record in one
transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import psycopg
from psycopg.sql import Identifier, Literal

from riverui.errors import DatabaseError, MigrationError
from riverui.storage.interface.migrations import Ask
from riverui.storage.interface.sql_blocks import number
from riverui.storage.postgres.statements import PostgresQueries, Statements

_MILLISECOND = timedelta(milliseconds=1)
_LOCK_KEY = 0x72697665727569
"""“riverui” in ASCII: the advisory lock that keeps two riverui processes from migrating at the same
time. River itself takes none.
"""


class PostgresMigrations(Statements):
    """Reads and writes river_migration, and runs the SQL of migrations."""

    async def tables_exist(self) -> bool:
        """Return whether there is a river_job table."""
        return await self._exists("job_table_exists")

    async def versions(self, line: str) -> Sequence[int]:
        """Return the applied versions of a line, ascending: all of `main` in a database that does
        not record lines yet. Raise MigrationError for another line of such a database.
        """
        if not await self._exists("migration_table_exists"):
            if line != "main":
                raise MigrationError(
                    f"The line “{line}” needs the migrations of the line “main” first."
                )
            return []
        if line != "main" and not await self._exists("migration_line_exists"):
            raise MigrationError(
                f"The line “{line}” needs the migrations of the line “main” first."
            )
        rows = await self.rows("migration_list")
        return [row.version for row in rows.records() if row.line == line]

    @asynccontextmanager
    async def step(self, *, statement_timeout: timedelta | None = None) -> AsyncIterator[None]:
        """Begin a transaction alone among riverui's migrations; kept unless an exception leaves it.

        `statement_timeout` limits each statement; None for no limit.
        """
        milliseconds = 0 if statement_timeout is None else max(1, statement_timeout // _MILLISECOND)
        try:
            await self.run("begin; set local statement_timeout = 0; set local lock_timeout = '60s'")
            await self.rows("migration_lock", {"key": _LOCK_KEY})
            # Every worker queues up behind a waiting ALTER TABLE: give up soon, to be run again.
            await self.run(
                "set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = 0;"
                f" set local statement_timeout = {milliseconds:d}"
            )
            yield
        except BaseException:
            with suppress(DatabaseError, psycopg.Error):
                await self.run("rollback")
            raise
        await self.run("commit")

    async def apply(self, sql: str) -> None:
        """Run a migration's SQL, which may hold several statements."""
        try:
            await self._connection.execute(sql.encode(), prepare=False)
        except psycopg.Error as error:
            raise MigrationError(_words(error)) from error

    async def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> None:
        """Add or remove the record of one version; without `has_line` the table has no
        column `line`.
        """
        if has_line:
            block = "migration_insert" if applied else "migration_delete"
        else:
            block = "migration_insert_without_line" if applied else "migration_delete_without_line"
        await self.rows(block, {"line": line, "version": version})

    async def _exists(self, name: str) -> bool:
        return bool((await self.rows(name)).value())


class PostgresMigrationTexts:
    """The same as SQL without parameters: see MigrationTexts."""

    def __init__(self, schema: str | None) -> None:
        self._queries = PostgresQueries(schema)
        self._schema = schema

    def schema_missing(self, ask: Ask) -> bool:
        """Return whether a schema is named that does not exist."""
        return self._schema is not None and not ask(self._text("schema_exists", self._schema))[0][0]

    def jobs_exist(self, ask: Ask) -> bool:
        """Return whether there is a table of jobs."""
        return bool(ask(self._text("job_table_exists"))[0][0])

    def versions(self, ask: Ask, line: str) -> Sequence[int]:
        """Return the applied versions of a line; empty without a table of migrations."""
        if not ask(self._text("migration_table_exists"))[0][0]:
            return []
        return [version for of, version, _ in ask(self._text("migration_list")) if of == line]

    def emptying(self, ask: Ask) -> str:
        """Return the SQL that empties the tables of River and riverui, except the record of
        migrations; empty without tables.
        """
        place = [self._schema] if self._schema else []
        rows = ask(self._text("river_table_list"))
        tables = ", ".join(Identifier(*place, name).as_string() for (name,) in rows)
        return tables and f"truncate {tables}"

    def opening(self) -> str:
        """Return the SQL with which a transaction of migrations begins: no other process
        migrates until its end, and a waiting ALTER TABLE, which blocks every worker, gives up soon.
        """
        lock = self._text("migration_lock", _LOCK_KEY)
        timeouts = "set local statement_timeout = 0; set local lock_timeout"
        return f"{timeouts} = '60s'; {lock}; set local lock_timeout = '5s'"

    def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> str:
        """Return the SQL that adds or removes the record of one version."""
        if has_line:
            block = "migration_insert" if applied else "migration_delete"
            return self._text(block, line, version)
        block = "migration_insert_without_line" if applied else "migration_delete_without_line"
        return self._text(block, version)

    def _text(self, block: str, *values: str | int) -> str:
        """Return a block with values in place of its parameters, in their order."""
        text, names = number(self._queries.text(block))
        for place in range(len(names), 0, -1):
            text = text.replace(f"${place}", Literal(values[place - 1]).as_string())
        return text


def _words(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)
