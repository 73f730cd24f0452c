"""Runs a client as a process of its own, and stops it in three phases."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from riverui.engine.client import Client
from riverui.worker.health import Health
from riverui.worker.settings import WorkerConfig

log = logging.getLogger("riverui.worker")


async def run(client: Client, config: WorkerConfig) -> None:
    """Works until SIGINT or SIGTERM, then ends in three phases: waits for running jobs, cancels them, exits.

    A further signal begins the next phase at once. SchemaMissing, or another DatabaseError, where it cannot
    start. Jobs that heed nothing end with the process, which then exits with code 1.
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
    health = Health(client)
    with _signals() as asked:
        async with health.told(
            host=config.health_host, port=config.health_port, file=config.health_file
        ) as address:
            await client.start()
            log.info("worker has started", extra=_about(client, address))
            await asked.get()
            health.stopping = True
            await _stop(client, asked, config)


async def _stop(client: Client, asked: asyncio.Queue[None], config: WorkerConfig) -> None:
    log.info("stopping: running jobs may end for %s", _seconds(config.soft_stop), extra=_now(client))
    if await _ended(client.stop(), asked, config.soft_stop):
        return
    log.warning("cancelling the jobs that still run, for %s", _seconds(config.hard_stop), extra=_now(client))
    if await _ended(client.stop_and_cancel(), asked, config.hard_stop):
        return
    log.error("exiting without jobs that do not end; they are rescued later", extra=_now(client))
    # Threads that never return would keep the interpreter from leaving.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(1)


async def _ended(work: Coroutine[Any, Any, None], asked: asyncio.Queue[None], patience: timedelta) -> bool:
    """Whether the work ended in time, and before another signal came; it goes on in any case."""
    working, signalled = asyncio.ensure_future(work), asyncio.ensure_future(asked.get())
    done, _ = await asyncio.wait(
        {working, signalled}, timeout=patience.total_seconds(), return_when=asyncio.FIRST_COMPLETED
    )
    signalled.cancel()
    if working in done:
        await working
    return working in done


@contextmanager
def _signals() -> Iterator[asyncio.Queue[None]]:
    """SIGINT and SIGTERM, one entry each time."""
    asked: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.put_nowait, None)
    try:
        yield asked
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _about(client: Client, address: str) -> dict[str, object]:
    queues = (f"{name}={queue.max_workers}" for name, queue in sorted(client.config.queues.items()))
    about: dict[str, object] = {"client": client.id, "queues": " ".join(queues)}
    return about | ({"health": address} if address else {})


def _now(client: Client) -> dict[str, object]:
    return {"client": client.id, "running": client.running}


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"
