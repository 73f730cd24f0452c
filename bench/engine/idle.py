"""What a client costs that has nothing to do: statements a minute and CPU, Python and Go at the
same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.engine.wiretap import Wiretap, wiretap

_SETTLE = 15.0
"""Seconds for starting, and for being elected."""
_PING = "-- ping"
"""What Go's pool asks before it hands out a connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Idleness:
    """Of a client with one queue, that leads."""

    statements: Counter[str]
    """Times a minute."""
    cpu: float
    """Milliseconds a minute."""

    @property
    def per_minute(self) -> int:
        """Statements, pings left out."""
        return self.statements.total() - self.pings

    @property
    def pings(self) -> int:
        """Round trips that only ask whether a connection is alive."""
        return self.statements[_PING]


async def measure_idle(
    urls: tuple[str, str], go: Path, *, minutes: float = 1.0
) -> tuple[Idleness, Idleness]:
    """Python's and Go's client, each on a migrated database of its own."""
    async with contextlib.AsyncExitStack() as stack:
        ours, tap = await stack.enter_async_context(wiretap(urls[0]))
        theirs, go_tap = await stack.enter_async_context(wiretap(urls[1]))
        python = [sys.executable, "-m", "bench.engine.ours", "idle", ours]
        start = b'{"op": "start", "ref": "1"}\n'
        programs = [
            (tap, await stack.enter_async_context(running(python))),
            (
                go_tap,
                await stack.enter_async_context(
                    running([go, f"-database-url={theirs}", "-queues=default=10"], say=start)
                ),
            ),
        ]
        await asyncio.sleep(_SETTLE)
        before = []
        for tap, pid in programs:
            tap.clear()
            before.append(cpu_of(pid))
        await asyncio.sleep(minutes * 60)
        first, second = (
            _idleness(tap, cpu_of(pid) - cpu, minutes)
            for (tap, pid), cpu in zip(programs, before, strict=True)
        )
        return first, second


def _idleness(tap: Wiretap, cpu: float, minutes: float) -> Idleness:
    rates = {statement: round(count / minutes) for statement, count in tap.statements.items()}
    return Idleness(statements=Counter(rates), cpu=cpu * 1000 / minutes)


@contextlib.asynccontextmanager
async def running(command: Sequence[str | Path], *, say: bytes = b"") -> AsyncIterator[int]:
    """Run a program that ends when its standard input does; yield its process id."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=asyncio.subprocess.DEVNULL
    )
    assert process.stdin is not None
    try:
        process.stdin.write(say)
        yield process.pid
        if process.returncode is not None:
            raise SystemExit(f"{command[0]} ended by itself")
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()


def cpu_of(pid: int) -> float:
    """Return the seconds, user and system, of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
