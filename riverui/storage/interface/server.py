"""Facts about the database server, for the About page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.migrations import MigrationRow


class ServerRow(Struct, frozen=True, kw_only=True):
    """The database server as the About page tells it."""

    version: str
    database: str
    user: str
    schema: str
    """The schema in use: the configured one, or the first of the search path."""
    settings: tuple[tuple[str, str], ...]
    """Names and values (with units) of the server settings that matter to a queue."""
    job_rows_estimated: int
    """`pg_class.reltuples` of river_job; -1 before the first ANALYZE."""
    job_bytes: int
    """Size of river_job with its indexes and TOAST."""


class ServerExecutor(Protocol):
    """Reads what lies around River's tables."""

    async def server_get(self) -> ServerRow:
        """Return facts about the server for the About page."""
        ...

    async def migration_list(self) -> Sequence[MigrationRow]:
        """Return applied migrations of every line, by line and version; empty without a migration
        table.
        """
        ...

    async def dashboard_list(self) -> Sequence[str]:
        """Return the names of the dashboards that are connected to this database and say so: those
        of `riverui serve`, each process once.
        """
        ...


SERVER: Capability[ServerExecutor] = Capability(
    "server", "The database does not tell its version, its settings or the migrations applied."
)
