"""Facts about the server and River's migrations on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from riverui.errors import BadRequest
from riverui.storage.interface.migrations import MigrationRow
from riverui.storage.options import DASHBOARD_PREFIX
from riverui.storage.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationRow:
    """One server at one moment."""

    standby: bool
    """Whether it follows another server and takes no changes."""
    position: int | None
    """Bytes of changes since the beginning: written for good on a primary, readable on a standby.
    None where the server does not tell.
    """
    system: str
    """What a primary and its standbys have in common and no other servers; empty where it is not
    told.
    """
    behind: timedelta | None
    """Age of the newest change that a standby shows, by its own clock; None where it shows none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRow:
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
    """Operations on what lies around River's tables."""

    async def migration_list(self) -> Sequence[MigrationRow]:
        """Return applied migrations of every line, by line and version; empty without a migration
        table.
        """
        if not (await self._sql.rows("migration_table_exists")).value():
            return []
        rows = await self._sql.rows("migration_list")
        return [MigrationRow(**row._asdict()) for row in rows.records()]

    async def transaction_id(self) -> int:
        """Return the number of the transaction that this is part of, by which it is known later."""
        return int((await self._sql.rows("transaction_id")).value())

    async def transaction_committed(self, id: int) -> bool | None:
        """Return whether that transaction was kept; None while it is not decided.

        True also for one so old that the server has forgotten it, False for one it has never heard
        of.
        """
        try:
            status = (await self._sql.rows("transaction_status", {"id": id})).value()
        except BadRequest:
            # Of a server whose place a standby has taken since.
            return False
        return None if status == "in progress" else status != "aborted"

    async def dashboard_list(self) -> Sequence[str]:
        """Return the names of the dashboards that are connected to this database and say so: those
        of `riverui serve`, each process once.
        """
        rows = await self._sql.rows("dashboard_list", {"prefix": DASHBOARD_PREFIX})
        return [str(name).removeprefix(DASHBOARD_PREFIX) for name in rows.values()]

    async def replication_get(self) -> ReplicationRow:
        """Return where the server stands."""
        return ReplicationRow(**(await self._sql.row("replication_get"))._asdict())

    async def server_get(self) -> ServerRow:
        """Return facts about the server for the About page."""
        row = await self._sql.row("server_get", {"schema": self._sql.schema})
        settings = (await self._sql.rows("server_settings", {"names": list(_SETTINGS)})).records()
        return ServerRow(
            **row._asdict(), settings=tuple((found.name, found.value) for found in settings)
        )
