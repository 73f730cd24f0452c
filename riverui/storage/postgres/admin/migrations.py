"""Runs migrations on Postgres: reads what is recorded, and runs each step with its record in one
transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import psycopg

from riverui.errors import DatabaseError, MigrationError
from riverui.storage.postgres.statements import Statements

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
        """Return the versions recorded for the line; MigrationError where the database does not
        know lines yet.
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
        rows = await self._rows("migration_list")
        return [row.version for row in rows.records() if row.line == line]

    @asynccontextmanager
    async def step(self, *, statement_timeout: timedelta | None = None) -> AsyncIterator[None]:
        """Begin a transaction alone among riverui's migrations; kept unless an exception leaves it.

        A statement may take as long as `statement_timeout`, or as it needs.
        """
        milliseconds = 0 if statement_timeout is None else max(1, statement_timeout // _MILLISECOND)
        try:
            await self._run(
                "begin; set local statement_timeout = 0; set local lock_timeout = '60s'"
            )
            await self._rows("migration_lock", {"key": _LOCK_KEY})
            # A waiting ALTER TABLE makes every worker queue up behind it: better to give up and be
            # run again.
            await self._run(
                "set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = 0;"
                f" set local statement_timeout = {milliseconds:d}"
            )
            yield
        except BaseException:
            with suppress(DatabaseError, psycopg.Error):
                await self._run("rollback")
            raise
        await self._run("commit")

    async def apply(self, sql: str) -> None:
        """Run a migration's SQL, which may hold several statements."""
        try:
            await self._connection.execute(sql.encode(), prepare=False)
        except psycopg.Error as error:
            raise MigrationError(_words(error)) from error

    async def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> None:
        """Add or remove the record of one version; without `has_line` the table does not know
        lines.
        """
        if has_line:
            block = "migration_insert" if applied else "migration_delete"
        else:
            block = "migration_insert_without_line" if applied else "migration_delete_without_line"
        await self._rows(block, {"line": line, "version": version})

    async def _exists(self, name: str) -> bool:
        return bool((await self._rows(name)).value())


def _words(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)
