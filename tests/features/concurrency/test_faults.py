"""Global limits while processes are killed and event loops stand still; each job notes when it
began and ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import accumulate

import pytest

from riverui import ConcurrencyConfig
from riverui.engine.config import QueueConfig
from riverui.engine.work.worker import Job
from tests.engine.conftest import Playground, Task

BEAT = timedelta(seconds=0.25)
"""Seconds between heartbeats: a killed client is declared dead within about a second."""

_WORKER = r"""
    import asyncio, os, sys, time
    from dataclasses import dataclass
    from datetime import timedelta
    from typing import ClassVar
    from riverui import Client, ClientConfig, ConcurrencyConfig, QueueConfig, Workers

    @dataclass
    class Task:
        kind: ClassVar[str] = "task"
        value: str = ""
        number: int = 0

    workers = Workers()

    @workers.work(Task)
    async def work(job):
        os.write(1, f"begin {job.id} {time.time()}\n".encode())
        if job.args.value == "block":
            time.sleep(2)
        elif job.args.value == "hold":
            await asyncio.sleep(60)
        else:
            await asyncio.sleep(0.02)
        os.write(1, f"end {job.id} {time.time()}\n".encode())

    async def run():
        limit = ConcurrencyConfig(global_limit=int(sys.argv[1]))
        config = ClientConfig(
            workers=workers,
            queues={"default": QueueConfig(max_workers=10, concurrency=limit)},
            fetch_cooldown=timedelta(milliseconds=1),
            fetch_poll_interval=timedelta(milliseconds=20),
            heartbeat_interval=timedelta(seconds=0.25),
            leader_election_disabled=True,
        )
        async with Client(os.environ["URL"], config):
            os.write(1, b"ready\n")
            await asyncio.sleep(60)

    asyncio.run(run())
"""


class Notes:
    """When jobs began and ended, in any process."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.lost: set[int] = set()
        """Jobs that were at work as their worker was killed."""
        self.moments: list[tuple[float, int]] = []
        self.open: dict[str, dict[int, float]] = {}

    def begin(self, worker: str, job_id: int, at: float) -> None:
        self.moments.append((at, 1))
        self.open.setdefault(worker, {})[job_id] = at

    def end(self, worker: str, job_id: int, at: float) -> None:
        self.moments.append((at, -1))
        self.ended.add(job_id)
        del self.open[worker][job_id]

    def killed(self, worker: str, at: float) -> None:
        """Record that the jobs of a worker are over."""
        lost = self.open.pop(worker, {})
        self.moments += [(at, -1) for _ in lost]
        self.lost |= lost.keys()

    @property
    def most(self) -> int:
        """The most jobs that ran at once; jobs that end and begin at the same instant do not."""
        return max(accumulate(step for _, step in sorted(self.moments)), default=0)


class Killable:
    """A client in a process of its own."""

    def __init__(self, name: str, notes: Notes) -> None:
        self.name = name
        self.notes = notes

    async def start(self, url: str, limit: int) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", textwrap.dedent(_WORKER), str(limit)),
            env={**os.environ, "URL": url},
            stdout=asyncio.subprocess.PIPE,
        )
        self.ready = asyncio.Event()
        self.reading = asyncio.create_task(self._read())
        await self.ready.wait()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, *rest = line.decode().split()
            if word == "ready":
                self.ready.set()
            else:
                note = self.notes.begin if word == "begin" else self.notes.end
                note(self.name, int(rest[0]), float(rest[1]))

    async def kill(self) -> None:
        """Kill it."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        at = time.time()
        await self.reading
        self.notes.killed(self.name, at)


@pytest.fixture
async def notes(play: Playground, own_tables: None) -> Notes:
    """Return the notes of a playground whose own jobs are noted too."""
    notes = Notes()

    async def work(job: Job[Task]) -> None:
        notes.begin("here", job.id, time.time())
        await asyncio.sleep(0.02)
        notes.end("here", job.id, time.time())

    play.worker(work)
    return notes


@pytest.fixture
async def killable(notes: Notes) -> AsyncIterator[Killable]:
    """Yield a client to be killed, at the end at last."""
    killable = Killable("there", notes)
    yield killable
    if hasattr(killable, "process"):
        await killable.kill()


async def _insert(play: Playground, count: int) -> set[int]:
    return {await play.insert(Task(value="x"), max_attempts=5) for _ in range(count)}


async def _start_here(play: Playground, limit: int) -> None:
    concurrency = ConcurrencyConfig(global_limit=limit)
    queue = QueueConfig(max_workers=10, concurrency=concurrency)
    await play.start(queues={"default": queue}, heartbeat_interval=BEAT)


async def test_never_more_when_a_client_is_killed(
    play: Playground, notes: Notes, killable: Killable
) -> None:
    """Its slots stay taken until it is surely dead; then other clients get them."""
    hold = await play.insert(Task(value="hold"), max_attempts=5)
    await killable.start(play.database_url, 4)
    await play.until(lambda: hold in notes.open.get("there", {}))
    jobs = await _insert(play, 300)
    await _start_here(play, 4)
    await play.until(lambda: len(notes.ended) > 40)
    await killable.kill()

    async def over() -> bool:
        # Without a leader, jobs that were fetched and had not begun stay retryable.
        rows = await play.rows("select id from river_job where state = 'retryable'")
        return notes.ended | notes.lost | {row["id"] for row in rows} >= jobs

    await play.until(over)
    assert notes.most == 4
    assert hold in notes.lost
    assert len(notes.lost) <= 4

    async def freed() -> bool:
        return not await play.rows("select 1 from riverui_limit where taken > 0")

    await play.until(freed)


async def test_an_event_loop_that_stands_still_loses_no_slot(
    play: Playground, notes: Notes, killable: Killable
) -> None:
    """For eight heartbeats, where three and a half are the end."""
    block = await play.insert(Task(value="block"))
    await killable.start(play.database_url, 1)
    await play.until(lambda: block in notes.open.get("there", {}))
    jobs = await _insert(play, 20)
    await _start_here(play, 1)
    await play.until(lambda: notes.ended == {block, *jobs})
    assert notes.most == 1
    assert not await play.rows("select 1 from riverui_client where declared_dead_at is not null")
