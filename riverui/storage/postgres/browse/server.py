"""Facts about the server and River's migrations on it."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.errors import BadRequest
from riverui.storage.interface.params import MigrationRow, ServerRow
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


class Server(Statements):
    """Operations on what lies around River's tables."""

    async def migration_list(self) -> Sequence[MigrationRow]:
        """Applied migrations of every line, by line and version; empty without a migration
        table.
        """
        row = await self._row("migration_table_exists")
        if not (row and row[0]):
            return []
        rows = await self._rows("migration_list")
        return [
            MigrationRow(line=line, version=version, created_at=at) for line, version, at in rows
        ]

    async def transaction_id(self) -> int:
        """The number of the transaction that this is part of, by which it is known afterwards."""
        row = await self._row("transaction_id")
        assert row is not None
        number: int = row[0]
        return number

    async def transaction_committed(self, id: int) -> bool | None:
        """Whether that transaction was kept; None while it is not decided.

        True also for one so old that the server has forgotten it, False for one it has never heard
        of.
        """
        try:
            row = await self._row("transaction_status", {"id": id})
        except BadRequest:
            # Of a server whose place a standby has taken since.
            return False
        assert row is not None
        return None if row[0] == "in progress" else row[0] != "aborted"

    async def server_get(self) -> ServerRow:
        """Facts about the server for the About page."""
        row = await self._row("server_get", {"schema": self._schema})
        assert row is not None
        version, database, user, schema, rows, size = row
        settings = await self._rows("server_settings", {"names": list(_SETTINGS)})
        return ServerRow(
            version=version,
            database=database,
            user=user,
            schema=schema,
            settings=tuple((name, value) for name, value in settings),
            job_rows_estimated=rows,
            job_bytes=size,
        )
