"""The health of a worker process, on a port and in a file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from riverui.engine.client import Client
from riverui.web.http.probe import Probe

log = logging.getLogger("riverui.worker")

Check = Callable[[], Awaitable[Mapping[str, object]]]
"""Returns the answer of /health, with a `status`."""

Metrics = Callable[[], Awaitable[bytes]]
"""Returns the metrics, in Prometheus's text format."""

HEALTHY = frozenset({"ok", "degraded"})
"""Statuses while all or some processes work jobs."""
_FILE_INTERVAL = 5.0
"""Seconds between two touches: a probe that allows 15 s tolerates a missed one."""


class WorkerHealth:
    """The health of a client: `ok` if it is started, not stopping, and its database answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._probe = Probe(client.driver)
        self.stopping = False

    async def check(self) -> dict[str, object]:
        """Return the `status` (`ok`, `starting`, `stopping` or `no database`) and details."""
        client = self._client
        # A stopping client closes its connections: do not open new ones.
        database = not self.stopping and await self._probe.answers()
        if self.stopping:
            status = "stopping"
        elif not client.started:
            status = "starting"
        else:
            status = "ok" if database else "no database"
        return {
            "status": status,
            "client": client.id,
            "database": database,
            "last_fetched_at": client.last_fetched_at and client.last_fetched_at.isoformat(),
            "leader": client.is_leader,
            "queues": sorted(client.config.queues),
            "running": client.running,
            "started": client.started,
        }


@asynccontextmanager
async def health_served(
    check: Check,
    *,
    host: str,
    port: int | None,
    file: Path | None,
    metrics: Metrics | None = None,
) -> AsyncIterator[str]:
    """Answer on the port and touch the file during the block; yield the port's address.

    Raise ListenError if the port is in use.
    """
    async with AsyncExitStack() as stack:
        address = ""
        if port is not None:
            # Load the web server only if there is a port.
            from riverui.cli.worker.port import answering

            answers = answering(check, host, port, metrics=metrics)
            address = await stack.enter_async_context(answers)
        if file is not None:
            await stack.enter_async_context(_touching(check, file))
        yield address


@asynccontextmanager
async def _touching(check: Check, file: Path) -> AsyncIterator[None]:
    touching = asyncio.create_task(_keep_touching(check, file))
    try:
        yield
    finally:
        touching.cancel()
        await asyncio.wait([touching])
        _remove(file)


async def _keep_touching(check: Check, file: Path) -> None:
    while True:
        if (await check())["status"] in HEALTHY:
            _touch(file)
        await asyncio.sleep(_FILE_INTERVAL)


def _touch(file: Path) -> None:
    try:
        file.touch()
    except OSError as error:
        log.warning("cannot touch the health file", extra={"file": file, "error": str(error)})


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
