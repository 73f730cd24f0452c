"""Facts about the database server, for the About page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.params import MigrationRow, ServerRow


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
