"""Facts about the server and River's migrations on it."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.errors import BadRequest
from riverui.storage.interface.migrations import MigrationRow
from riverui.storage.interface.replication import ReplicationRow
from riverui.storage.interface.server import ServerRow
from riverui.storage.options import DASHBOARD_PREFIX
from riverui.storage.postgres.statements import Statements

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


class ServerStatements(Statements):
    """Operations on what lies around River's tables."""

    async def migration_list(self) -> Sequence[MigrationRow]:
        """Return the applied migrations of every line, by line and version; none without a
        migration table.
        """
        if not (await self.rows("migration_table_exists")).value():
            return []
        rows = await self.rows("migration_list")
        return [MigrationRow(**row._asdict()) for row in rows.records()]

    async def transaction_id(self) -> int:
        """Return the number of the transaction that this is part of, by which it is known
        afterwards.
        """
        return int((await self.rows("transaction_id")).value())

    async def transaction_committed(self, id: int) -> bool | None:
        """Return whether that transaction was kept, None while it is not decided.

        It is True also for one so old that the server has forgotten it, and False for one that it
        has never heard of.
        """
        try:
            status = (await self.rows("transaction_status", {"id": id})).value()
        except BadRequest:
            # Of a server whose place a standby has taken since.
            return False
        return None if status == "in progress" else status != "aborted"

    async def dashboard_list(self) -> Sequence[str]:
        """Return the names of the dashboards that are connected and say so, each process once."""
        rows = await self.rows("dashboard_list", {"prefix": DASHBOARD_PREFIX})
        return [str(name).removeprefix(DASHBOARD_PREFIX) for name in rows.values()]

    async def replication_get(self) -> ReplicationRow:
        """Return where the server stands in the stream of changes that standbys follow."""
        return ReplicationRow(**(await self.row("replication_get"))._asdict())

    async def server_get(self) -> ServerRow:
        """Return the facts about the server for the About page."""
        row = await self.row("server_get", {"schema": self.schema})
        settings = (await self.rows("server_settings", {"names": list(_SETTINGS)})).records()
        return ServerRow(
            **row._asdict(), settings=tuple((found.name, found.value) for found in settings)
        )
