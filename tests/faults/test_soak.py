"""Thousands of jobs through two workers of ours and one of Go's while everything around them fails.

Every job ends in the state it was meant to end in. What ran more often than it should was rescued
from a process that was killed, which is what "at least once" means.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from tests.faults.journal import Journal
from tests.faults.server import CUT, Server
from tests.interop.look import Row, eventually, jobs
from tests.interop.worker import Peer, PeerError, built, go_worker, python_worker
from tests.scale import scaled

pytestmark = [pytest.mark.interop, pytest.mark.timeout(scaled(180, 1800))]

_JOBS = scaled(12_000, 100_000)
_LATE = _JOBS // 10
"""Jobs that are inserted while things go wrong."""
_SLOTS = scaled(60, 150)
_RESCUE_AFTER = 8
"""Seconds after which a running job counts as stuck; more than the job timeout, which a client
insists on.
"""

# How jobs run: weight, args, options, the state they end in, how often they start if nothing goes
# wrong.
_PLANS: list[tuple[int, Row, Row, str, int]] = [
    (60, {"seconds": 0.02}, {}, "completed", 1),
    (20, {}, {"priority": 2}, "completed", 1),
    (4, {"seconds": 0.3}, {}, "completed", 1),
    (3, {"failures": 1, "retry_in": 0.05}, {}, "completed", 2),
    (2, {"failures": 2, "retry_in": 0.05}, {"queue": "second"}, "completed", 3),
    (3, {"times": 1}, {}, "completed", 2),
    (2, {"times": 2, "failures": 1, "retry_in": 0.05}, {"priority": 4}, "completed", 4),
    (3, {"message": "cancelled"}, {}, "cancelled", 1),
    (3, {"message": "discarded", "retry_in": 0.05}, {"max_attempts": 2}, "discarded", 2),
]
_WHEEL = [plan for plan in _PLANS for _ in range(plan[0])]


def _plan(n: int) -> tuple[int, Row, Row, str, int]:
    # 37 and the wheel's length have no common factor: the plans come well mixed.
    return _WHEEL[n * 37 % len(_WHEEL)]


def _job(n: int) -> Row:
    _, args, opts, _, _ = _plan(n)
    return {"kind": "soak", "args": {**args, "n": n}, "opts": opts}


@dataclass
class Fleet:
    """The workers, and what is done to them."""

    server: Server
    binary: Path
    folder: Path
    stack: AsyncExitStack
    workers: dict[str, Peer] = field(default_factory=dict)
    """By their id, which is also the name of their journal."""
    lost: set[str] = field(default_factory=set)
    """Who was killed, or frozen for so long that its jobs were rescued."""
    told: list[str] = field(default_factory=list)
    """What was done, for the tally."""

    async def start(self, kind: str) -> Peer:
        """Start one more worker, `go` or `python`."""
        name = f"{kind}-{len(self.workers) + len(self.lost)}"
        config: dict[str, Any] = {
            "id": name,
            "job_timeout": 6,
            "journal": str(self.folder / name),
            "queues": {"default": _SLOTS, "second": 10},
            "quiet": True,
            "rescue_after": _RESCUE_AFTER,
        }
        begin = (
            go_worker(self.binary, self.server.url, **config)
            if kind == "go"
            else python_worker(self.server.url, **config)
        )
        self.workers[name] = await self.stack.enter_async_context(begin)
        return self.workers[name]

    async def kill(self, name: str) -> None:
        """Kill a worker and start another one of its kind in its place."""
        self.lost.add(name)
        await self.workers.pop(name).kill()
        await self.start(name.partition("-")[0])

    # Each of these is a fault.

    async def cut_connections(self) -> None:
        await self.ask(CUT)

    async def kill_a_python(self) -> None:
        await self.kill(next(name for name in self.workers if name.startswith("python")))

    async def kill_the_go_worker(self) -> None:
        await self.kill(next(name for name in self.workers if name.startswith("go")))

    async def kill_the_leader(self) -> None:
        rows = await self.ask("select leader_id from river_leader")
        if rows and rows[0]["leader_id"] in self.workers:
            await self.kill(rows[0]["leader_id"])
            # Its term of 15 s ends now, as it would have without it.
            await self.ask("update river_leader set expires_at = now() - interval '1 s'")

    async def freeze_a_python(self) -> None:
        name, worker = next(item for item in self.workers.items() if item[0].startswith("python"))
        frozen_at = time.monotonic()
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            await self.progress(200)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        # What it was working on was already stuck for a moment when it froze.
        if time.monotonic() - frozen_at > _RESCUE_AFTER - 2:
            self.lost.add(name)

    async def restart_postgres(self) -> None:
        await asyncio.to_thread(self.server.stop)
        await asyncio.to_thread(self.server.start)

    async def crash_postgres(self) -> None:
        await asyncio.to_thread(self.server.crash)
        await asyncio.to_thread(self.server.start)

    async def ask(self, statement: str) -> list[DictRow]:
        """Return what the database answers, as soon as there is one."""
        while True:
            with suppress(psycopg.OperationalError):
                async with await AsyncConnection.connect(
                    self.server.url, autocommit=True, row_factory=dict_row
                ) as connection:
                    cursor = await connection.execute(statement)
                    return await cursor.fetchall() if cursor.description else []
            await asyncio.sleep(0.02)

    async def done(self) -> int:
        """Return how many jobs have ended for good."""
        rows = await self.ask(
            "select count(*) as count from river_job where finalized_at is not null"
        )
        return int(rows[0]["count"])

    async def progress(self, more: int) -> None:
        """Wait until so many more jobs have ended, or all but a few have."""
        goal = min(await self.done() + more, _JOBS * 95 // 100)
        await eventually(self.done, fits=lambda count: count >= goal, within=120, every=0.1)


_FAULTS: list[Callable[[Fleet], Coroutine[Any, Any, None]]] = [
    Fleet.cut_connections,
    Fleet.kill_a_python,
    Fleet.restart_postgres,
    Fleet.kill_the_leader,
    Fleet.cut_connections,
    Fleet.crash_postgres,
    Fleet.freeze_a_python,
    Fleet.kill_the_go_worker,
    Fleet.kill_the_leader,
]


@pytest.fixture
async def fleet(server: Server, tmp_path: Path) -> AsyncIterator[Fleet]:
    binary = built("worker")
    async with AsyncExitStack() as stack:
        yield Fleet(server, binary, tmp_path, stack)


async def test_every_job_ends_once_in_the_right_state(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    await fleet.ask("truncate river_job, river_queue, river_leader")
    inserters = [
        await fleet.stack.enter_async_context(
            go_worker(fleet.binary, fleet.server.url, start=False)
        ),
        await fleet.stack.enter_async_context(python_worker(fleet.server.url, start=False)),
    ]
    early = range(_JOBS - _LATE)
    for turn, first in enumerate(early[::1000]):
        batch = [_job(n) for n in early[first : first + 1000]]
        await inserters[turn % 2].ask("insert_many", jobs=batch, fast=turn % 3 > 0)
    for kind in ("python", "python", "go"):
        await fleet.start(kind)

    started = time.monotonic()
    late = asyncio.create_task(_insert_late(fleet, inserters))
    for fault in _FAULTS * (1 if _JOBS < 50_000 else 4):
        await fleet.progress(_JOBS // (len(_FAULTS) + 1) // (1 if _JOBS < 50_000 else 4))
        await fault(fleet)
        fleet.told.append(
            f"{fault.__name__.replace('_', ' ')} at {time.monotonic() - started:.1f} s"
        )
    await late

    async def left() -> int:
        rows = await fleet.ask("select count(*) as count from river_job where finalized_at is null")
        return int(rows[0]["count"])

    # A new leader looks for stuck jobs at once, instead of every 30 s.
    while await left():
        with suppress(AssertionError):
            await eventually(left, fits=lambda count: count == 0, within=3, every=0.1)
        with suppress(PeerError):
            await inserters[1].ask("request_resign")
    await asyncio.gather(*(worker.ask("stop") for worker in fleet.workers.values()))

    async with await AsyncConnection.connect(fleet.server.url, row_factory=dict_row) as connection:
        rows = await jobs(connection)
    journal = await asyncio.to_thread(Journal.below, fleet.folder)
    print(*fleet.told, sep="\n")
    tally = _judge(rows, journal, fleet.lost)
    with capsys.disabled():
        print(f"\n{_JOBS} jobs; {', '.join(fleet.told)}:\n  {_sentence(tally)}")


async def _insert_late(fleet: Fleet, inserters: list[Peer]) -> None:
    """Insert the rest in small batches, each until it is there: an error may come after the
    commit.
    """
    late = range(_JOBS - _LATE, _JOBS)
    for turn in range(0, len(late), 50):
        batch = late[turn : turn + 50]
        there = False
        while not there:
            try:
                await inserters[turn // 50 % 2].ask("insert_many", jobs=[_job(n) for n in batch])
                there = True
            except PeerError:
                (found,) = await fleet.ask(
                    f"select count(*) as count from river_job where args @> '{{\"n\": {batch[0]}}}'"
                )
                there = found["count"] > 0
        await asyncio.sleep(0.05)


def _judge(rows: list[Row], journal: Journal, lost: set[str]) -> Counter[str]:
    """Fail for whatever was lost or doubled without need; count the rest."""
    starts, ends = journal.count("start"), journal.count("end")
    assert sorted(row["args"]["n"] for row in rows) == list(range(_JOBS))
    tally: Counter[str] = Counter()
    for row in rows:
        _, _, _, state, expected = _plan(row["args"]["n"])
        rescued = row["metadata"].get("river:rescue_count", 0)
        told = f"{row}\n{journal.jobs[row['id']]}"
        assert row["state"] == state, told
        assert row["finalized_at"] is not None
        assert starts[row["id"]] <= expected + rescued, told
        assert ends[row["id"]] <= 1 + rescued, told
        if not rescued:
            assert starts[row["id"]] == expected, told
            assert ends[row["id"]] == (state != "discarded"), told
        else:
            _explain(row, journal, lost)
        tally[state] += 1
        tally["rescued"] += rescued > 0
        if ends[row["id"]] > 1:
            first = min(
                journal.jobs[row["id"]], key=lambda entry: (entry.what != "end", entry.attempt)
            )
            tally[
                f"run to the end twice, first by a {first.process.partition('-')[0]} process"
            ] += 1
        tally["starts"] += starts[row["id"]]
    return tally


def _explain(row: Row, journal: Journal, lost: set[str]) -> None:
    """Check that a rescued attempt was a lost process's, or never began: the answer that brought it
    was lost.
    """
    entries = journal.jobs[row["id"]]
    for error in row["errors"]:
        if "on purpose" in error["error"]:
            continue
        attempt = [entry for entry in entries if entry.attempt == error["attempt"]]
        started = {entry.process for entry in attempt if entry.what == "start"}
        assert not started or started & lost, f"{row}\n{entries}\nlost: {lost}"


def _sentence(tally: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(tally.items()))
