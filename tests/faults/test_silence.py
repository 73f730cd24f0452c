"""Clients that die, freeze and are cut off while they work: what the dead held is worked again in a
minute and a half, and nothing is worked twice at once because somebody was slow.

The quick form has heartbeats of two seconds; the full one River UI's own of twenty.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.faults.conftest import Begin
from tests.faults.journal import Journal
from tests.faults.server import Server
from tests.interop.look import Row, eventually, jobs
from tests.interop.worker import Peer, built, go_worker
from tests.scale import scaled
from tests.storage.tcp_proxy import tcp_proxy

Connection = AsyncConnection[DictRow]

pytestmark = pytest.mark.timeout(scaled(120, 1800))

_BEAT = scaled(2, 20)
"""Seconds between two heartbeats."""
_AGAIN = scaled(20, 90)
"""Seconds within which what a dead client held is at work again: three and a half heartbeats, the
first retry after a second, and the scheduler's five.
"""
_FROZEN = 2.25 * _BEAT
"""Seconds for which a process is only slow: 45 in the full form."""
_JOBS = scaled(6_000, 100_000)
_HELD = 40
"""Slots of each client."""


@pytest.fixture
async def line(server: Server, database: Connection) -> AsyncIterator[None]:
    """Let the database have riverui's own tables, for this test."""
    driver = connect(server.url)
    await migrate(driver, "up", line="riverui")
    yield
    await migrate(driver, "down", line="riverui", target_version=-1)
    await driver.close()


@dataclass
class Fleet:
    """Clients of ours that write down what they do."""

    begin: Begin
    folder: Path

    async def start(self, name: str, **config: Any) -> Peer:
        """Start one more."""
        given: dict[str, Any] = {
            "id": name,
            "journal": str(self.folder / name),
            "locks": str(self.folder.parent / "locks"),
            "heartbeat_interval": _BEAT,
            "queues": {"default": _HELD},
            "quiet": True,
            "log_jobs": False,
        }
        return await self.begin(**given | config)

    async def journal(self) -> Journal:
        """Return what they did."""
        return await asyncio.to_thread(Journal.below, self.folder)


@pytest.fixture
async def fleet(line: None, begin: Begin, tmp_path: Path) -> Fleet:
    folder = tmp_path / "journals"
    folder.mkdir()
    return Fleet(begin, folder)


def soak(seconds: float, **opts: Any) -> Row:
    return {"kind": "soak", "args": {"seconds": seconds}, "opts": opts}


async def count(database: Connection, condition: str) -> int:
    cursor = await database.execute(f"select count(*) as n from river_job where {condition}")
    row = await cursor.fetchone()
    assert row is not None
    return int(row["n"])


async def feed(peer: Peer, database: Connection) -> None:
    """Insert jobs as fast as they are worked: what is tried again has not to wait for long."""
    for first in range(0, _JOBS, 1_000):
        await eventually(
            lambda: count(database, "state = 'available'"),
            fits=lambda n: n < 1_000,
            within=scaled(30, 300),
            every=0.05,
        )
        size = min(1_000, _JOBS - first)
        await peer.ask("insert_many", jobs=[soak(0.02)], count=size, fast=True)


async def clients(database: Connection) -> dict[str, DictRow]:
    cursor = await database.execute("select * from riverui_client order by registered_at")
    return {row["id"]: row for row in await cursor.fetchall()}


async def beats(database: Connection, name: str) -> None:
    """Wait for the next sign of life of a client, to begin at the worst moment: just before the
    next one.
    """
    before = (await clients(database))[name]["heartbeat_at"]

    async def beaten() -> bool:
        return bool((await clients(database))[name]["heartbeat_at"] > before)

    await eventually(beaten, within=2 * _BEAT)
    await asyncio.sleep(_BEAT * 0.9)


async def ended(database: Connection, total: int, within: float) -> list[Row]:
    async def left() -> int:
        return await count(database, "finalized_at is null")

    await eventually(left, fits=lambda n: n == 0, within=within, every=0.2)
    rows = await jobs(database)
    assert len(rows) == total
    assert {row["state"] for row in rows} == {"completed"}
    return rows


async def test_what_a_killed_client_held_is_worked_again_soon_and_nothing_is_lost(
    fleet: Fleet, database: Connection
) -> None:
    # Each client holds its share of the long jobs at the kill; those of 20 ms may just be over.
    queues = {"default": _HELD, "long": _HELD // 2}
    peers = [await fleet.start(f"python-{n}", queues=queues) for n in range(3)]
    load = asyncio.create_task(feed(peers[0], database))
    await eventually(
        lambda: count(database, "state = 'completed'"),
        fits=lambda n: n > _JOBS // 10,
        within=scaled(30, 300),
    )
    await peers[0].ask("insert_many", jobs=[soak(2 * _BEAT, queue="long")], count=3 * _HELD // 2)
    held = "state = 'running' and attempted_by[array_upper(attempted_by, 1)] = 'python-1'"
    await eventually(
        lambda: count(database, f"{held} and queue = 'long'"),
        fits=lambda n: n == _HELD // 2,
        within=scaled(30, 300),
        every=0.02,
    )
    killed_at = time.monotonic()
    await peers[1].kill()
    stuck = {row["id"]: row for row in await jobs(database, held)}
    assert stuck
    ids = list(stuck)

    async def again() -> int:
        cursor = await database.execute(
            "select count(*) as n from river_job where id = any(%s) and attempt > 1", [ids]
        )
        row = await cursor.fetchone()
        return int(row["n"]) if row else 0

    await eventually(again, fits=lambda n: n == len(ids), within=_AGAIN, every=0.1)
    seconds = time.monotonic() - killed_at
    await load
    rows = await ended(database, _JOBS + 3 * _HELD // 2, scaled(60, 900))
    journal = await fleet.journal()
    starts = journal.count("start")
    assert set(starts) == {row["id"] for row in rows}
    assert not journal.count("twice")
    for row in rows:
        rescued = row["id"] in stuck
        assert row["metadata"].get("river:rescue_count", 0) == rescued, row
        assert row["attempt"] == 1 + rescued
        assert starts[row["id"]] <= 1 + rescued
        if rescued:
            assert [error["error"] for error in row["errors"]] == [
                "Stuck job rescued by JobRescuer"
            ]
            assert row["attempted_by"][0] == "python-1" != row["attempted_by"][1]
    known = await clients(database)
    assert known["python-1"]["rescued"] == len(stuck)
    assert all(known[name]["declared_dead_at"] is None for name in ("python-0", "python-2"))
    print(f"{len(stuck)} jobs of the dead client were all at work again after {seconds:.1f} s")


async def test_a_client_that_stood_still_for_a_while_goes_on_as_if_nothing_had_been(
    fleet: Fleet, database: Connection
) -> None:
    slow, _ = await fleet.start("slow"), await fleet.start("other", queues={"other": 1})
    await slow.ask("insert_many", jobs=[soak(4 * _BEAT)], count=10)
    await eventually(lambda: count(database, "state = 'running'"), fits=lambda n: n == 10)
    await beats(database, "slow")
    os.kill(slow.pid, signal.SIGSTOP)
    await asyncio.sleep(_FROZEN)
    os.kill(slow.pid, signal.SIGCONT)
    rows = await ended(database, 10, within=4 * _BEAT + 20)
    assert {row["attempt"] for row in rows} == {1}
    assert (await clients(database))["slow"]["declared_dead_at"] is None
    journal = await fleet.journal()
    assert set(journal.count("start").values()) == {1}
    assert not journal.count("stop")


async def test_a_client_that_comes_back_from_the_dead_ends_nothing_of_what_others_work(
    fleet: Fleet, database: Connection
) -> None:
    slow = await fleet.start("slow")
    ids = [await slow.insert("soak", seconds=3 * _BEAT) for _ in range(10)]
    await eventually(lambda: count(database, "state = 'running'"), fits=lambda n: n == 10)
    await fleet.start("other")
    os.kill(slow.pid, signal.SIGSTOP)
    try:
        await eventually(
            lambda: count(database, "state = 'running' and attempt = 2"),
            fits=lambda n: n == 10,
            within=_AGAIN,
        )
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    # All of its sleeps are over by now: whatever it says of these jobs comes too late.
    rows = await ended(database, 10, within=4 * _BEAT + 20)
    for row in rows:
        assert row["attempted_by"] == ["slow", "other"]
        assert row["finalized_at"] - row["attempted_at"] >= timedelta(seconds=3 * _BEAT - 0.5)
        assert len(row["errors"]) == 1
    assert [row["id"] for row in rows] == ids
    cursor = await database.execute(
        "select count(*) as n from riverui_client where id = 'slow' and declared_dead_at is null"
    )
    assert await cursor.fetchone() == {"n": 1}
    again = await slow.insert("soak")
    await eventually(lambda: jobs(database, f"id = {again} and state = 'completed'"))


async def test_a_client_that_is_cut_off_ends_its_jobs_before_others_begin_them(
    fleet: Fleet, server: Server, database: Connection
) -> None:
    passing = asyncio.Event()
    passing.set()
    async with tcp_proxy(server.url, passing=passing) as way:
        cut = await fleet.start("cut", url=way, answer_within=1)
        await cut.ask("insert_many", jobs=[soak(8 * _BEAT)], count=10)
        await eventually(lambda: count(database, "state = 'running'"), fits=lambda n: n == 10)
        await fleet.start("other")
        await beats(database, "cut")
        passing.clear()
        await eventually(
            lambda: count(database, "state = 'running' and attempt = 2"),
            fits=lambda n: n == 10,
            within=_AGAIN,
        )
        passing.set()
        rows = await ended(database, 10, within=9 * _BEAT + 30)
        journal = await fleet.journal()
        assert not journal.count("twice")
        assert set(journal.count("stop").values()) == {1}
        assert set(journal.count("end").values()) == {1}
        assert {len(row["errors"]) for row in rows} == {1}
        # It is at work again, as another life of the same client.
        again = await cut.ask("insert_many", jobs=[soak(0.01)], count=3)
        ids = [result["id"] for result in again.result]
        await eventually(
            lambda: count(database, f"id = any('{{{','.join(map(str, ids))}}}')"),
            fits=lambda n: n == 3,
        )
        assert (await clients(database))["cut"]["declared_dead_at"] is None


@pytest.mark.interop
async def test_beside_gos_rescuer_each_job_is_rescued_once(
    fleet: Fleet, server: Server, database: Connection
) -> None:
    """And a Go client, which gives no signs of life, is never taken for dead."""
    after = 3.5 * _BEAT
    async with go_worker(
        built("worker"),
        server.url,
        id="go",
        job_timeout=after - 0.5,
        rescue_after=after,
        queues={"default": _HELD},
        quiet=True,
        start=False,
    ) as go:
        first = await fleet.start("first", leader_election_disabled=True)
        await fleet.start("second", leader_election_disabled=True, queues={"idle": 1})
        long = {"kind": "soak", "args": {"seconds": 3600}}
        await first.ask("insert_many", jobs=[long], count=30)
        await eventually(lambda: count(database, "state = 'running'"), fits=lambda n: n == 30)
        await go.ask("start")
        await first.kill()
        await database.execute("update river_job set args = '{\"seconds\": 0.1}'")
        for row in await ended(database, 30, within=_AGAIN + 30):
            assert row["attempted_by"] == ["first", "go"]
            assert row["metadata"]["river:rescue_count"] == 1, row
            assert len(row["errors"]) == 1
        assert "go" not in await clients(database)
        assert await go.ask("stop")
