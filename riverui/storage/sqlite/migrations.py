"""Runs River's migrations for SQLite, each with its record in one transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from riverui.errors import LockTimeout, MigrationError
from riverui.storage.interface.migrations import Ask
from riverui.storage.migrations import FIRST_WITH_LINE, MigrationFolder
from riverui.storage.sqlite.file import Connection, read_json_as_text
from riverui.storage.sqlite.scopes import translated
from riverui.storage.sqlite.values import stamp
from riverui.storage.sqlite.waiting import Waiting
from riverui.storage.tables import LINE

SOURCE = MigrationFolder(Path(__file__).parent / "migrations")
"""The migrations for SQLite."""

_MAIN = "main"
_WAIT, _LONGEST = 0.05, 60.0
"""Seconds between two attempts to begin, and until the last one."""


class SqliteMigrations:
    """Reads and writes river_migration, and runs the SQL of migrations, on one connection."""

    def __init__(self, connection: Connection, waiting: Waiting) -> None:
        self._connection = connection
        self._waiting = waiting
        read_json_as_text(connection.raw)

    async def versions(self, line: str) -> Sequence[int]:
        """Return the applied versions of a line, ascending: all of `main` in a file that does not
        record lines yet. Raise MigrationError for another line of such a file.
        """
        with translated():
            columns = self._connection.execute("select name from pragma_table_info(?)", [_RECORD])
            has_line = ("line",) in columns
            if line != _MAIN and not has_line:
                raise MigrationError(
                    f"The line “{line}” needs the migrations of the line “main” first."
                )
            if not columns:
                return []
            which = "line = ?" if has_line else "'main' = ?"
            rows = self._connection.execute(
                f"select version from river_migration where {which} order by version", [line]
            )
            return [version for (version,) in rows]

    @asynccontextmanager
    async def step(self, *, statement_timeout: timedelta | None = None) -> AsyncIterator[None]:
        """Begin a transaction, the only one that writes; kept unless an exception leaves it."""
        execute = self._connection.execute
        give_up = time.monotonic() + _LONGEST
        while True:
            try:
                with translated():
                    execute("begin immediate")
                break
            except LockTimeout:
                if time.monotonic() > give_up:
                    raise
            await self._waiting.pause(_WAIT)
        if statement_timeout is not None:
            self._connection.deadline = time.monotonic() + statement_timeout.total_seconds()
        try:
            yield
        except BaseException:
            execute("rollback")
            raise
        finally:
            self._connection.deadline = float("inf")
        with translated():
            execute("commit")

    async def apply(self, sql: str) -> None:
        """Run a migration's SQL, which may hold several statements."""
        try:
            for statement in _statements(sql):
                self._connection.execute(statement)
        except sqlite3.Error as error:
            raise MigrationError(str(error)) from error

    async def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> None:
        """Add or remove the record of one version; without `has_line` the table has no
        column `line`.
        """
        values = {"line": line, "version": version, "now": stamp(datetime.now(UTC))}
        if applied:
            names = "created_at, version, line" if has_line else "created_at, version"
            given = ":now, :version, :line" if has_line else ":now, :version"
            sql = f"insert into river_migration ({names}) values ({given})"
        else:
            of_line = " and line = :line" if has_line else ""
            sql = f"delete from river_migration where version = :version{of_line}"
        with translated():
            self._connection.execute(sql, values)


_RECORD = "river_migration"


class SqliteMigrationTexts:
    """The record as SQL without parameters: see MigrationTexts."""

    def schema_missing(self, ask: Ask) -> bool:
        """Return False: there are no schemas."""
        return False

    def jobs_exist(self, ask: Ask) -> bool:
        """Return whether there is a table of jobs."""
        return bool(ask("select 1 from sqlite_master where name = 'river_job'"))

    def versions(self, ask: Ask, line: str) -> Sequence[int]:
        """Return the applied versions of a line; empty without a table of migrations."""
        columns = {name for (name,) in ask(f"select name from pragma_table_info('{_RECORD}')")}
        if not columns or ("line" not in columns and line != _MAIN):
            return []
        which = f"where line = '{line}'" if "line" in columns else ""
        rows = ask(f"select version from river_migration {which} order by version")
        return [version for (version,) in rows]

    def emptying(self, ask: Ask) -> str:
        """Return the SQL that empties the tables of River and riverui, except the record of
        migrations; empty without tables.
        """
        tables = ask(
            "select name from sqlite_master where type = 'table' and name <> 'river_migration'"
            " and (name glob 'river_*' or name glob 'riverui_*') order by name"
        )
        return "; ".join(f"delete from {name}" for (name,) in tables)

    def opening(self) -> str:
        """Return nothing: one transaction writes at a time."""
        return ""

    def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> str:
        """Return the SQL that adds or removes the record of one version."""
        if applied:
            names, value = ("line, ", f"'{line}', ") if has_line else ("", "")
            return f"insert into river_migration ({names}version) values ({value}{version:d})"
        of_line = f" and line = '{line}'" if has_line else ""
        return f"delete from river_migration where version = {version:d}{of_line}"


def create_tables(raw: sqlite3.Connection) -> None:
    """Create River's tables and riverui's in an empty file."""
    for line in (_MAIN, LINE):
        for version in SOURCE.versions(line):
            raw.executescript(SOURCE.sql(line, version, "up"))
            if line == _MAIN and version < FIRST_WITH_LINE:
                raw.execute("insert into river_migration (version) values (?)", [version])
            else:
                record = "insert into river_migration (line, version) values (?, ?)"
                raw.execute(record, [line, version])


def _statements(sql: str) -> Iterator[str]:
    """Yield the statements of a script."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
