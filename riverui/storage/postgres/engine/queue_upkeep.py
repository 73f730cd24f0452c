"""The engine's operations on queues: report them, find work, remove expired ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from riverui.domain.queues import QueueRow
from riverui.storage.postgres.browse.rows import queue_row
from riverui.storage.postgres.statements import Part


class QueueUpkeep(Part):
    """Operations on river_queue for clients and maintenance."""

    async def upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Create the queue's row or set its updated_at; metadata and paused_at stay as they are."""
        return queue_row(await self._sql.row("queue_upsert", {"name": name, "now": now}))

    async def upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Do as queue_upsert for distinct queues in one statement, and return their rows in any
        order.
        """
        rows = await self._sql.rows("queue_upsert_many", {"names": list(names)})
        return [queue_row(row) for row in rows.records()]

    async def with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the queues that have an available job, of any kind."""
        rows = await self._sql.prepared("queue_with_available_list", {"names": list(names)})
        return set(rows.values())

    async def delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Remove the rows of queues that no client has reported since, and return their names."""
        rows = await self._sql.rows(
            "queue_delete_expired", {"updated_before": updated_before, "limit": limit}
        )
        return sorted(rows.values())

    async def restore_many(self, rows: Sequence[QueueRow]) -> None:
        """Write whole rows of queues as they are."""
        values = {
            "names": [row.name for row in rows],
            "created_at": [row.created_at for row in rows],
            "metadata": [row.metadata.text for row in rows],
            "paused_at": [row.paused_at for row in rows],
            "updated_at": [row.updated_at for row in rows],
        }
        await self._sql.rows("queue_restore_many", values)
