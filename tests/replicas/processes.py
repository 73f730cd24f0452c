"""Dashboards in processes of their own, and a balancer in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.ports import free_port

PASSWORD = "correct horse"


class Replica:
    """One `riverui serve`, and what it has said so far."""

    def __init__(self, port: int, process: asyncio.subprocess.Process) -> None:
        self.port = port
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def said(self, words: str, *, times: int = 1) -> str:
        """Return the line with these words, once it was said so often."""

        async def look() -> str | None:
            found = [line for line in self.lines if words in line]
            assert len(found) >= times or not self._reading.done(), self.lines
            return found[times - 1] if len(found) >= times else None

        return str(await wait_for(look))

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return how the process ended."""
        self.process.send_signal(number)
        async with asyncio.timeout(20):
            code = await self.process.wait()
            await self._reading
        return code

    async def end(self) -> None:
        """Leave nothing running."""
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        async with asyncio.timeout(20):
            await self._reading

    @property
    def workers(self) -> list[int]:
        """The process ids of workers that have started."""
        return [
            int(found[1])
            for line in self.lines
            if (found := re.search(r'msg="worker started" pid=(\d+)', line))
        ]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode())


@asynccontextmanager
async def replica(url: str, *argv: str, **environ: str) -> AsyncIterator[Replica]:
    """Yield a dashboard that ada may use, once it listens."""
    port = free_port()
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "riverui", "serve", *argv),
        env={
            **inherited,
            "DATABASE_URL": url,
            "PORT": str(port),
            "RIVER_BASIC_AUTH_PASS": PASSWORD,
            "RIVER_BASIC_AUTH_USER": "ada",
            "RIVER_HOST": "127.0.0.1",
            **environ,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    started = Replica(port, process)
    try:
        await started.said("is listening")
        yield started
    finally:
        await started.end()


@asynccontextmanager
async def balancer(*ports: int) -> AsyncIterator[int]:
    """Yield a port whose connections go to the given ones in turn, past those that do not
    answer.
    """
    turns = itertools.cycle(ports)
    open_now: set[asyncio.Task[Any]] = set()

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(65_536):
                target.write(piece)
                await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        down: asyncio.StreamWriter | None = None
        try:
            for _ in ports:
                with contextlib.suppress(OSError):
                    up, down = await asyncio.open_connection("127.0.0.1", next(turns))
                    break
            if down is not None:
                await asyncio.gather(pump(reader, down), pump(up, writer))
        finally:
            open_now.discard(task)
            for each in (down, writer):
                if each is not None:
                    each.close()
                    with contextlib.suppress(OSError):
                        await each.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = set(open_now)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@asynccontextmanager
async def browser(port: int, *, password: str = PASSWORD) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a browser of ada's, with a connection of its own for each request."""
    async with httpx2.AsyncClient(
        auth=("ada", password),
        base_url=f"http://127.0.0.1:{port}",
        headers={"Connection": "close"},
        limits=httpx2.Limits(max_keepalive_connections=0),
        timeout=20,
    ) as client:
        yield client


async def wait_for(happened: Callable[[], Awaitable[Any]], *, seconds: float = 30) -> Any:
    """Return what it gives, once that is something; fails when it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := await happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)
    return found


def alive(pids: Sequence[int]) -> list[int]:
    """Those that still run."""
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    found.append(pid)
    return found
