"""What a worker process holds stays bounded, whatever waits, however large it is and however long
it runs.
"""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from tests.faults.conftest import Begin
from tests.interop.look import eventually
from tests.interop.worker import Peer
from tests.scale import scaled

pytestmark = pytest.mark.timeout(scaled(120, 1800))

Connection = AsyncConnection[DictRow]

_POOL = 4
"""Connections that the driver keeps for all sorts of things: a few more or less are open at any
time.
"""


async def _stats(peer: Peer) -> dict[str, Any]:
    return dict((await peer.ask("stats")).result)


async def _count(database: Connection, condition: str) -> int:
    cursor = await database.execute(f"select count(*) as count from river_job where {condition}")
    row = await cursor.fetchone()
    assert row is not None
    return int(row["count"])


async def _finish(worker: Peer, database: Connection) -> float:
    """Wait until nothing is left to do; return the most memory that was seen, in MB."""
    most = 0.0

    async def left() -> int:
        nonlocal most
        most = max(most, (await _stats(worker))["mb"])
        return await _count(database, "finalized_at is null")

    await eventually(left, fits=lambda count: count == 0, within=scaled(60, 900), every=0.2)
    return most


async def _connections(database: Connection, application: str) -> int:
    cursor = await database.execute(
        "select count(*) as count from pg_stat_activity where datname = current_database() and pid"
        " <> pg_backend_pid() and application_name like %s",
        [application],
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row["count"])


async def test_a_long_queue_takes_no_memory(begin: Begin, database: Connection) -> None:
    await database.execute(
        "insert into river_job (kind, args, max_attempts)"
        " select 'noop', jsonb_build_object('n', n), 25"
        f" from generate_series(1, {scaled(50_000, 1_000_000)}) as n"
    )
    await database.execute("analyze river_job")
    worker = await begin(start=False, queues={"default": 500}, quiet=True, log_jobs=False)
    before = (await _stats(worker))["mb"]
    await worker.ask("start")
    most = await _finish(worker, database)
    assert most < before + 60, f"{before:.0f} MB before, {most:.0f} MB at most"


async def test_large_args_are_held_only_while_they_are_worked(
    begin: Begin, database: Connection
) -> None:
    await database.execute(
        "insert into river_job (kind, args, max_attempts)"
        " select 'noop', jsonb_build_object('payload', repeat('x', 2000000)), 25"
        f" from generate_series(1, {scaled(100, 2000)})"
    )
    worker = await begin(start=False, queues={"default": 8}, quiet=True, log_jobs=False)
    before = (await _stats(worker))["mb"]
    await worker.ask("start")
    most = await _finish(worker, database)
    # Eight jobs in a few copies each: as bytes, as text, decoded.
    assert most < before + 8 * 2 * 6 + 40, f"{before:.0f} MB before, {most:.0f} MB at most"


async def test_nothing_is_left_of_ten_thousand_jobs(begin: Begin, database: Connection) -> None:
    worker = await begin(queues={"default": 300}, quiet=True, retry_in=0.01, fetch_cooldown=0.005)
    batch = [
        {"kind": "noop"},
        {"kind": "snooze", "args": {"times": 1}},
        {"kind": "flaky", "args": {"failures": 1, "message": "not yet"}},
        {"kind": "cancel", "args": {"message": "no more"}},
        {"kind": "log", "args": {"lines": 3, "message": "hello"}},
    ]
    for job in batch:
        await worker.ask("insert_many", jobs=[job], count=20)
    await _finish(worker, database)
    before, connections = await _stats(worker), await _connections(database, "riverui%")
    for _ in range(5):
        await worker.ask("insert_many", jobs=batch, count=400)
    await _finish(worker, database)
    after = await _stats(worker)
    assert after["running"] == 0
    assert after["tasks"] <= before["tasks"] + _POOL
    assert after["files"] <= before["files"] + _POOL
    assert after["mb"] < before["mb"] + 25
    assert await _connections(database, "riverui%") <= connections + _POOL


async def test_nothing_is_left_of_many_starts_and_stops(begin: Begin, database: Connection) -> None:
    worker = await begin(start=False, quiet=True)

    async def once() -> None:
        await worker.ask("start")
        job_id = await worker.insert("noop")
        await eventually(lambda: _count(database, f"id = {job_id} and state = 'completed'"))
        await worker.ask("stop")

    # By then its threads and the leader's services have what they keep: it grows no more.
    for _ in range(25):
        await once()
    before = await _stats(worker)
    for _ in range(scaled(25, 1000)):
        await once()
    after = await _stats(worker)
    assert after["tasks"] <= before["tasks"] + _POOL
    assert after["files"] <= before["files"] + _POOL
    assert after["mb"] < before["mb"] + 15
    assert await _connections(database, "riverui%") <= _POOL
    assert await _count(database, "state <> 'completed'") == 0
