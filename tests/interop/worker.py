"""A real Go River client as a child process: commands go in and events come out as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_CACHE = _HERE.parents[1] / ".cache" / "interop"

DEADLINE = 30.0
"""Seconds within which anything asked for must have happened, on a slow and busy machine too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One line that the Go program wrote; fields it left out have their empty value."""

    event: str
    attempt: int = 0
    count: int = 0
    duplicate: bool = False
    error: str = ""
    id: int = 0
    kind: str = ""
    message: str = ""
    queue: str = ""
    ref: str = ""
    seconds: float = 0.0
    state: str = ""


class BuildError(Exception):
    """A Go program cannot be built."""


class GoError(Exception):
    """The Go client answered a command with an error."""


class GoWorker:
    """One running Go program. Every wait has a deadline, and a miss tells what did happen."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._news = asyncio.Condition()
        self._unread: list[Event] = []
        self._history: list[Event] = []
        self._refs = 0
        self.client_id = ""
        """What River calls this client, as in `attempted_by`."""

    async def ask(self, op: str, **parameters: Any) -> Event:
        """Gives a command and waits for its answer; GoError when Go's client gave an error."""
        self._refs += 1
        line = json.dumps({"op": op, "ref": str(self._refs), **parameters})
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()
        answer = await self.wait(
            "answer", ref=str(self._refs), within=DEADLINE + parameters.get("seconds", 0)
        )
        if answer.error:
            raise GoError(answer.error)
        return answer

    async def insert(self, kind: str, *, opts: dict[str, Any] | None = None, **args: Any) -> int:
        """Inserts one job through Go's client and gives its id."""
        return (await self.ask("insert", kind=kind, args=args, opts=opts or {})).id

    async def wait(self, event: str, *, within: float = DEADLINE, **expected: Any) -> Event:
        """Takes the first event not yet taken that has these fields, as soon as it is there."""
        deadline = time.monotonic() + within
        async with self._news:
            while True:
                for found in self._unread:
                    if found.event == event and all(getattr(found, k) == v for k, v in expected.items()):
                        self._unread.remove(found)
                        return found
                left = deadline - time.monotonic()
                try:
                    await asyncio.wait_for(self._news.wait(), left)
                except TimeoutError:
                    seen = "\n".join(map(str, self._history)) or "nothing"
                    raise AssertionError(f"no {event} {expected} within {within} s; seen:\n{seen}") from None

    async def listen(self) -> None:
        """Reads the program's lines until it ends."""
        assert self._process.stdout is not None
        known = {field.name for field in fields(Event)}
        while line := await self._process.stdout.readline():
            event = Event(**{k: v for k, v in json.loads(line).items() if k in known})
            async with self._news:
                self._unread.append(event)
                self._history.append(event)
                self._news.notify_all()

    async def end(self) -> None:
        """Lets the program finish (end of input makes it stop its client), then makes sure."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), DEADLINE)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def go_worker(
    binary: Path, database_url: str, *flags: str, start: bool = True
) -> AsyncIterator[GoWorker]:
    """A Go client on this database; with `start` it works jobs, without it only answers commands."""
    process = await asyncio.create_subprocess_exec(
        binary,
        f"-database-url={database_url}",
        *flags,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    worker = GoWorker(process)
    reading = asyncio.create_task(worker.listen())
    try:
        worker.client_id = (await worker.wait("ready")).message
        if start:
            await worker.ask("start")
        yield worker
    finally:
        await worker.end()
        await reading


def build(program: str) -> Path:
    """The compiled program of `go/<program>`; BuildError, in clear words, where that cannot be."""
    if shutil.which("go") is None:
        raise BuildError("interop tests need Go ≥ 1.26 on the PATH: they run the real River")
    binary = _CACHE / program
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:  # several test processes may come here at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["go", "build", "-trimpath", "-o", binary, "."],
            cwd=_HERE / "go" / program,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BuildError(f"go build of tests/interop/go/{program} failed:\n{done.stderr}")
    return binary
