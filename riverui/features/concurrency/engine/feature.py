"""Enforces the limits on concurrent jobs of queues, from their config or from the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.pilot import Feature
from riverui.engine.work.candidate_fetch import Chooser
from riverui.features.concurrency.engine.queue_limit import QueueLimit

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer


class ConcurrencyLimits(Feature):
    """Chooses jobs of limited queues by their free slots. Queues without limits are fetched as
    usual.
    """

    def __init__(self) -> None:
        self._connection: DedicatedConnection | None = None
        self._queues = 0

    def chooser(self, work: Producer) -> Chooser | None:
        """Return the chooser that enforces a queue's limits, including limits set later."""
        if self._connection is None:
            self._connection = work.client.connection()
        self._queues += 1
        return QueueLimit(work, self._connection, self._left)

    async def _left(self) -> None:
        self._queues -= 1
        if self._queues == 0 and self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()
