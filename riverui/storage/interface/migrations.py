"""Running River's migrations, which each driver lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from msgspec import Struct

from riverui.storage.interface.capabilities import Capability, Offering

Direction = Literal["up", "down"]


class MigrationRow(Struct, frozen=True, kw_only=True):
    """An applied migration as `river_migration` records it."""

    line: str
    version: int
    created_at: datetime


class MigrationSource(Protocol):
    """The migrations that a driver knows, by line and version."""

    def lines(self) -> Sequence[str]:
        """Return the names of the lines in order; River's own is `main`."""
        ...

    def versions(self, line: str) -> Mapping[int, str]:
        """Return version and name, in words, of each migration of a line, by version."""
        ...

    def sql(self, line: str, version: int, direction: Direction) -> str:
        """Return a migration's SQL; `/* schema */` marks the places of the schema."""
        ...


class MigrationSteps(Protocol):
    """River's record of migrations on one connection, and the running of their SQL."""

    async def versions(self, line: str) -> Sequence[int]:
        """Return the applied versions of a line, ascending: all of `main` in a database that does
        not record lines yet. Raise MigrationError for another line of such a database.
        """
        ...

    def step(
        self, *, statement_timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Begin a transaction in which no other process migrates; an exception rolls it back.

        `statement_timeout` limits each statement; None for no limit.
        """
        ...

    async def apply(self, sql: str) -> None:
        """Run a migration's SQL; MigrationError with the database's words."""
        ...

    async def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> None:
        """Add or remove the record of one version; `has_line` False for tables from before
        lines.
        """
        ...


Ask = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement without parameters on a program's own connection, and returns its rows."""


class MigrationTexts(Protocol):
    """River's record of migrations as SQL, for a program that runs it on its own connection:
    see MigrationSteps.
    """

    def schema_missing(self, ask: Ask) -> bool:
        """Return whether a schema is named that does not exist."""
        ...

    def jobs_exist(self, ask: Ask) -> bool:
        """Return whether there is a table of jobs."""
        ...

    def versions(self, ask: Ask, line: str) -> Sequence[int]:
        """Return the applied versions of a line; empty without a table of migrations."""
        ...

    def emptying(self, ask: Ask) -> str:
        """Return the SQL that empties the tables of River and riverui, except the record of
        migrations; empty without tables.
        """
        ...

    def opening(self) -> str:
        """Return the SQL with which a transaction of migrations begins, if any: no other process
        migrates until its end.
        """
        ...

    def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> str:
        """Return the SQL that adds or removes the record of one version."""
        ...


class MigrationDriver(Offering, Protocol):
    """A driver on whose database migrations can be run."""

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        ...

    @property
    def migrations(self) -> MigrationSource:
        """The migrations for this kind of database."""
        ...

    def migrating(self) -> AbstractAsyncContextManager[MigrationSteps]:
        """Lend a connection for migrations, without a statement timeout."""
        ...


MIGRATIONS: Capability[MigrationDriver] = Capability(
    "migrations", "Migrations cannot be run through this driver."
)
