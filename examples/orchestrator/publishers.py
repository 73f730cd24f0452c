"""Hands events over to the queue."""

from __future__ import annotations

from dataclasses import dataclass

from examples.orchestrator.jobs import UsageEvent
from examples.orchestrator.repos import Connection
from riverui import Client


@dataclass(frozen=True)
class UsagePublisher:
    """Usage events become jobs: they are in Postgres before anybody works on them, and survive a
    restart.
    """

    client: Client

    async def publish(self, transaction: Connection, event: UsageEvent) -> int:
        """Insert the job in the caller's transaction, kept or lost with all else in it; return the
        job's id.
        """
        return (await self.client.insert_tx(transaction, event)).job.id
