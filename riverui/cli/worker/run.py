"""Runs a client as this process's only work, and stops it in three phases."""

from __future__ import annotations

import logging

from riverui.cli.worker.health import WorkerHealth, health_served
from riverui.cli.worker.settings import WorkerConfig
from riverui.engine.client import Client
from riverui.engine.shutdown import leave_process, signals, stop_in_phases

log = logging.getLogger("riverui.worker")


async def run(client: Client, config: WorkerConfig) -> None:
    """Work until SIGINT or SIGTERM, then stop in three phases: wait for jobs, cancel them, exit.

    A further signal begins the next phase at once. Raise SchemaMissing, or another DatabaseError,
    where it cannot start. Where jobs do not end even when they are cancelled, the process exits
    with code 1.
    """
    try:
        async with client.driver.reading() as db:
            await db.queue_row_get("default")
        await _work(client, config)
    finally:
        # Where it could not start, this closes its connections.
        await client.stop()
    log.info("worker has stopped", extra={"client": client.id})


async def _work(client: Client, config: WorkerConfig) -> None:
    health = WorkerHealth(client)
    metrics = None
    if config.metrics:
        # Its library is loaded only where it is wanted.
        from riverui.cli.worker.metrics import prometheus_plugin, text

        plugin = prometheus_plugin(client)

        async def metrics() -> bytes:
            return text(plugin)

    with signals() as asked:
        async with health_served(
            health.check,
            host=config.health_host,
            port=config.health_port,
            file=config.health_file,
            metrics=metrics,
        ) as address:
            await client.start()
            log.info("worker has started", extra=_about(client, address))
            await asked.get()
            health.stopping = True
            if not await stop_in_phases(
                client, asked, soft_stop=config.soft_stop, hard_stop=config.hard_stop
            ):
                leave_process()


def _about(client: Client, address: str) -> dict[str, object]:
    queues = (f"{name}={queue.max_workers}" for name, queue in sorted(client.config.queues.items()))
    about: dict[str, object] = {"client": client.id, "queues": " ".join(queues)}
    return about | ({"health": address} if address else {})
