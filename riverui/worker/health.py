"""Tells whoever supervises a worker process how it is: on a port, and by a file."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from riverui.engine.client import Client
from riverui.errors import ListenError
from riverui.storage.pulse import Pulse

log = logging.getLogger("riverui.worker")

_FILE_INTERVAL = 5.0
_REQUEST_BYTES = 8_192
_PATIENCE_SECONDS = 5.0
_HEAD = (
    "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
    "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
)
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Health:
    """How a client is: well while it is started, is not stopping, and its database answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pulse = Pulse(client.driver)
        self.stopping = False

    async def check(self) -> dict[str, object]:
        """`status` is `ok`, `starting`, `stopping` or `no database`; the rest is there to be looked at."""
        client = self._client
        # A client that stops closes its connections: nobody should open new ones.
        database = not self.stopping and await self._pulse.beats()
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
    async def told(self, *, host: str, port: int | None, file: Path | None) -> AsyncIterator[str]:
        """Tells it as long as the block lasts; gives the address. ListenError where the port is taken."""
        address = ""
        server = None
        if port is not None:
            try:
                server = await asyncio.start_server(self._answer, host, port, limit=_REQUEST_BYTES)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ListenError(f"cannot listen on {host}:{port}: {reason}") from None
            shown = f"[{host}]" if ":" in host else host
            address = f"http://{shown}:{server.sockets[0].getsockname()[1]}/health"
        touching = asyncio.create_task(self._keep_touching(file)) if file else None
        try:
            yield address
        finally:
            if server:
                server.close()
            if file and touching:
                touching.cancel()
                await asyncio.wait([touching])
                _remove(file)

    async def _keep_touching(self, file: Path) -> None:
        while True:
            if (await self.check())["status"] == "ok":
                _touch(file)
            await asyncio.sleep(_FILE_INTERVAL)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of HTTP/1 and its answer; whatever is wrong with it hangs up."""
        with suppress(
            OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
                status, body = await self._respond(method, path.partition("?")[0])
                text = json.dumps(body).encode()
                writer.write(_HEAD.format(status=status, reason=_REASONS[status], size=len(text)).encode())
                writer.write(b"" if method == "HEAD" else text)
                await writer.drain()
        writer.close()

    async def _respond(self, method: str, path: str) -> tuple[int, dict[str, object]]:
        if method not in ("GET", "HEAD"):
            return 405, {"message": "Only GET."}
        # `riverui healthcheck` asks at the addresses of the dashboard.
        if path == "/api/health-checks/minimal":
            return 200, {"status": "ok"}
        if path not in ("/health", "/api/health-checks/complete"):
            return 404, {"message": "There is only /health."}
        told = await self.check()
        return (200 if told["status"] == "ok" else 503), told


def _touch(file: Path) -> None:
    try:
        file.touch()
    except OSError as error:
        log.warning("cannot touch the health file", extra={"file": file, "error": str(error)})


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
