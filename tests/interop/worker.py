"""River clients as child processes, Go's and ours: commands go in and events come out as JSON
lines.

Both programs know the same commands and work the same kinds, so that a test can put either in
either place.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from tests.needs import need

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
    result: Any = None
    seconds: float = 0.0
    state: str = ""


class BuildError(Exception):
    """A Go program cannot be built."""


class PeerError(Exception):
    """The client answered a command with an error."""


class PeerGone(Exception):
    """The program ended before it answered."""


class Peer:
    """One running program. Every wait has a deadline, and a miss tells what did happen."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._news = asyncio.Condition()
        self._unread: list[Event] = []
        self._history: list[Event] = []
        self._refs = 0
        self._ended = False
        self.client_id = ""
        """What River calls this client, as in `attempted_by`."""

    async def ask(self, op: str, **parameters: Any) -> Event:
        """Give a command and wait for its answer; PeerError when the client gave an error."""
        self._refs += 1
        line = json.dumps({"op": op, "ref": str(self._refs), **parameters}, ensure_ascii=False)
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()
        answer = await self.wait(
            "answer", ref=str(self._refs), within=DEADLINE + parameters.get("seconds", 0)
        )
        if answer.error:
            raise PeerError(answer.error)
        return answer

    async def insert(self, kind: str, *, opts: dict[str, Any] | None = None, **args: Any) -> int:
        """Insert one job through this client and return its id."""
        return (await self.ask("insert", kind=kind, args=args, opts=opts or {})).id

    async def driver(self, method: str, **params: Any) -> Any:
        """Go only: calls a method of River's driver, as Go names it, with Go's params; gives its
        result.
        """
        return (await self.ask("driver", method=method, params=params)).result

    def seen(self, event: str, **expected: Any) -> list[Event]:
        """Return what of this there has been so far, taken or not."""
        return [found for found in self._history if _fits(found, event, expected)]

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    async def kill(self) -> None:
        """End the program as kill -9 does, and wait until it is gone."""
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def wait(self, event: str, *, within: float = DEADLINE, **expected: Any) -> Event:
        """Take the first event not yet taken that has these fields, as soon as it is there."""
        deadline = time.monotonic() + within
        async with self._news:
            while True:
                for found in self._unread:
                    if _fits(found, event, expected):
                        self._unread.remove(found)
                        return found
                if self._ended:
                    raise PeerGone(f"no {event} {expected}: the program ended")
                left = deadline - time.monotonic()
                try:
                    await asyncio.wait_for(self._news.wait(), left)
                except TimeoutError:
                    seen = "\n".join(map(_short, self._history[-50:])) or "nothing"
                    raise AssertionError(
                        f"no {event} {expected} within {within} s; seen:\n{seen}"
                    ) from None

    async def listen(self) -> None:
        """Read the program's lines until it ends."""
        assert self._process.stdout is not None
        known = {field.name for field in fields(Event)}
        while line := await self._process.stdout.readline():
            event = Event(**{k: v for k, v in json.loads(line).items() if k in known})
            async with self._news:
                self._unread.append(event)
                self._history.append(event)
                self._news.notify_all()
        async with self._news:
            self._ended = True
            self._news.notify_all()

    async def end(self) -> None:
        """Let the program finish (end of input makes it stop its client), then make sure."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.wait_closed()
        try:
            await asyncio.wait_for(self._process.wait(), DEADLINE)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def _peer(*command: str | Path, start: bool, **environment: str) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
        env={**os.environ, **environment},
    )
    peer = Peer(process)
    reading = asyncio.create_task(peer.listen())
    try:
        peer.client_id = (await peer.wait("ready")).message
        if start:
            await peer.ask("start")
        yield peer
    finally:
        await peer.end()
        await reading


def go_worker(
    binary: Path,
    database_url: str,
    *flags: str,
    start: bool = True,
    schema: str = "",
    **config: Any,
) -> contextlib.AbstractAsyncContextManager[Peer]:
    """Return a Go client on this database; with `start` it works jobs, without it only answers
    commands.

    `config` is as in `settings.go`.
    """
    told = (f"-database-url={database_url}", f"-schema={schema}", f"-config={json.dumps(config)}")
    return _peer(binary, *told, *flags, start=start)


def python_worker(
    database_url: str, *, start: bool = True, schema: str = "", **config: Any
) -> contextlib.AbstractAsyncContextManager[Peer]:
    """Our client on this database, told the same way as Go's."""
    program = [sys.executable, "-m", "tests.interop.python_worker"]
    told = (
        f"--database-url={database_url}",
        f"--schema={schema}",
        f"--config={json.dumps(config)}",
    )
    # A zone that no test would happen to get right by itself.
    return _peer(*program, *told, start=start, TZ="Pacific/Chatham")


def _short(event: Event) -> str:
    told = {
        field.name: getattr(event, field.name) for field in fields(Event) if field.name != "result"
    }
    return " ".join(f"{name}={value!r}" for name, value in told.items() if value)


def _fits(found: Event, event: str, expected: dict[str, Any]) -> bool:
    return found.event == event and all(getattr(found, k) == v for k, v in expected.items())


def built(program: str) -> Path:
    """Return the compiled program of `go/<program>`; skips the test without Go, fails it where Go
    fails.
    """
    need("Go")
    try:
        return build(program)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def build(program: str, package: str = ".") -> Path:
    """Return the compiled program of `go/<program>`, or of a package that its `go.mod` requires;
    BuildError, in clear words, where that cannot be.
    """
    binary = _CACHE / program
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:  # several test processes may come here at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["go", "build", "-trimpath", "-o", binary, package],
            cwd=_HERE / "go" / program,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BuildError(f"go build of tests/interop/go/{program} failed:\n{done.stderr}")
    return binary
