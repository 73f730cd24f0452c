"""Removes the rows of queues that no client works any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.engine.lead.maintenance.service import BatchSize, ServiceContext, in_batches

_RETENTION = timedelta(hours=24)
"""Time without a report after which a queue's row is removed: River's figure. Clients report every
ten minutes.
"""


class QueueCleaner:
    """Removes rows of queues that no client has reported for a day."""

    name = "queue cleaner"
    interval = timedelta(hours=1)

    def __init__(self, context: ServiceContext, *, size: BatchSize | None = None) -> None:
        self._context = context
        self._size = size or BatchSize()

    async def run_once(self) -> Sequence[str]:
        """Remove the rows, and return the names of their queues."""
        removed: list[str] = []

        async def remove(limit: int) -> int:
            before = self._context.clock() - _RETENTION
            async with self._context.executor() as executor:
                names = await executor.queues.delete_expired(updated_before=before, limit=limit)
            removed.extend(names)
            return len(names)

        await in_batches(self._size, remove, self._context.timing)
        if removed:
            self._context.logger.info("%s: removed %s", self.name, ", ".join(removed))
        return removed
