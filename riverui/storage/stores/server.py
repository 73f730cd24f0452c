"""Facts about the server and River's migrations on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from riverui.errors import BadRequest
from riverui.storage.interface.migrations import MigrationRow
from riverui.storage.options import DASHBOARD_PREFIX
from riverui.storage.store import Store


class ReplicationRow(Struct, frozen=True, kw_only=True):
    """One server at one moment."""

    standby: bool
    """Whether it follows another server and takes no changes."""
    position: int | None
    """WAL position in bytes: flushed on a primary, replayed on a standby. None if the server does
    not report it.
    """
    system: str
    """The identifier that a primary shares with its standbys only; empty if it is not known."""
    behind: timedelta | None
    """Age of the newest change that a standby shows, by its own clock; None if it shows none."""


class ServerRow(Struct, frozen=True, kw_only=True):
    """The database, a server or a file, as the About page shows it."""

    version: str
    database: str
    user: str
    """Empty for a file."""
    schema: str
    """The schema in use: the configured one, or the first of the search path."""
    settings: tuple[tuple[str, str], ...]
    """Names and values (with units) of the server settings that matter to a queue."""


_SETTINGS = (
    "max_connections",
    "shared_buffers",
    "work_mem",
    "random_page_cost",
    "jit",
    "autovacuum",
    "autovacuum_vacuum_scale_factor",
    "synchronous_commit",
    "idle_in_transaction_session_timeout",
    "default_transaction_read_only",
)


class ServerStore(Store):
    """Reads facts about the server."""

    async def migration_list(self) -> Sequence[MigrationRow]:
        """Return applied migrations of every line, by line and version; empty without a migration
        table.
        """
        if not (await self._sql.rows("migration_table_exists")).value():
            return []
        rows = await self._sql.rows("migration_list")
        return [MigrationRow(**row._asdict()) for row in rows.records()]

    async def transaction_id(self) -> int:
        """Return the id of the current transaction, to look it up later."""
        return int((await self._sql.rows("transaction_id")).value())

    async def transaction_committed(self, id: int) -> bool | None:
        """Return whether that transaction was committed; None while it is in progress.

        True also for one so old that the server has forgotten it, False for one that it does not
        know.
        """
        try:
            status = (await self._sql.rows("transaction_status", {"id": id})).value()
        except BadRequest:
            # An id of a server that a standby has replaced since.
            return False
        return None if status == "in progress" else status != "aborted"

    async def dashboard_list(self) -> Sequence[str]:
        """Return the names of the processes of `riverui serve` that are connected to this
        database, each once.
        """
        rows = await self._sql.rows("dashboard_list", {"prefix": DASHBOARD_PREFIX})
        return [str(name).removeprefix(DASHBOARD_PREFIX) for name in rows.values()]

    async def replication_get(self) -> ReplicationRow:
        """Return the server's replication state."""
        return ReplicationRow(**(await self._sql.row("replication_get"))._asdict())

    async def server_get(self) -> ServerRow:
        """Return facts about the server for the About page."""
        row = await self._sql.row("server_get", {"schema": self._sql.schema})
        settings = (await self._sql.rows("server_settings", {"names": list(_SETTINGS)})).records()
        return ServerRow(
            **row._asdict(), settings=tuple((found.name, found.value) for found in settings)
        )
