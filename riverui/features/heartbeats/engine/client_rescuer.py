"""Rescues the jobs of clients that no longer send heartbeats, and deletes the rows of clients that
are dead; every client does that for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from riverui.engine.client_context import ClientContext
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.service import ServiceContext, run_round
from riverui.features.heartbeats.store import ClientStore

_FORGOTTEN = 1_000
"""Clients deleted by one statement: more than have died since the last time."""


class ClientRescuer:
    """Declares clients dead that have been silent for too long, and rescues their jobs."""

    name = "client rescuer"

    def __init__(
        self, client: ClientContext, *, may_judge: Callable[[], bool] = lambda: True
    ) -> None:
        self._client_id = client.id
        self._context = ServiceContext(
            driver=client.driver, clock=client.clock, logger=client.logger
        )
        self._keep: timedelta = client.limits.forget_clients_after
        self._may_judge = may_judge
        self._rescuer = JobRescuer(self._context, client.config, pilot=client.pilot)
        self._wake_up = asyncio.Event()

    def look(self) -> None:
        """Look for such clients soon."""
        self._wake_up.set()

    async def run(self) -> None:
        """Look whenever requested, until cancelled; an error is logged and ends only that look."""
        while True:
            await self._wake_up.wait()
            self._wake_up.clear()
            # The event loop may have been blocked since, or the database unavailable.
            if self._may_judge():
                await run_round(self.name, self.run_once, self._context)

    async def run_once(self) -> int:
        """Rescue the jobs of every client that is due; return how many clients that were."""
        found = 0
        while True:
            async with self._context.executor() as executor:
                dead = await ClientStore(executor).client_declare_dead(by=self._client_id)
            if dead is None:
                break
            found += 1
            self._context.logger.warning(
                "client %s (process %d on %s) sent no heartbeat since %s and is declared dead: its"
                " jobs are rescued",
                dead.life.id,
                dead.pid,
                dead.host or "an unknown host",
                f"{dead.silent_since:%Y-%m-%d %H:%M:%S %Z}",
            )
            done = await self._rescuer.rescue_client(dead)
            async with self._context.executor() as executor:
                await ClientStore(executor).client_rescued(
                    dead.life, done.retried + done.discarded + done.cancelled
                )
        if found:
            async with self._context.executor() as executor:
                await ClientStore(executor).client_delete_dead_before(
                    self._context.clock() - self._keep, limit=_FORGOTTEN
                )
        return found
