"""A database that goes away, cuts connections or falls silent: nothing is lost, and nothing runs
twice.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from tests.faults.conftest import Begin
from tests.faults.journal import Journal
from tests.faults.server import CUT, Server, proxy
from tests.interop.look import eventually, jobs, settled
from tests.interop.worker import Peer

Connection = AsyncConnection[DictRow]


_JOBS = 1500
"""Jobs that are under way through a fault: some seconds of work."""


async def _all_once(database: Connection, path: Path, count: int) -> None:
    """Check that every job is completed, in one attempt, and was run once."""
    await eventually(
        lambda: _unfinished(database), fits=lambda left: left == 0, within=60, every=0.1
    )
    rows = await jobs(database)
    assert len(rows) == count
    assert {(row["state"], row["attempt"], row["errors"] is None) for row in rows} == {
        ("completed", 1, True)
    }
    journal = Journal.read([path])
    assert set(journal.count("start").values()) == {1}
    assert len(journal.count("end")) == count


async def _unfinished(database: Connection) -> int:
    cursor = await database.execute(
        "select count(*) as count from river_job where state <> 'completed'"
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row["count"])


async def _completed(database: Connection, at_least: int) -> None:
    async def count() -> int:
        cursor = await database.execute(
            "select count(*) as count from river_job where state = 'completed'"
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row["count"])

    await eventually(count, fits=lambda found: found >= at_least)


async def _worker(begin: Begin, path: Path) -> Peer:
    worker = await begin(queues={"default": 40}, journal=str(path), quiet=True, log_jobs=False)
    await worker.ask(
        "insert_many", jobs=[{"kind": "soak", "args": {"seconds": 0.02}}], count=_JOBS, fast=True
    )
    return worker


async def test_connections_that_are_cut(begin: Begin, database: Connection, tmp_path: Path) -> None:
    await _worker(begin, tmp_path / "journal")
    for done in (300, 900):
        await _completed(database, done)
        await database.execute(CUT)
    await _all_once(database, tmp_path / "journal", _JOBS)


async def test_a_server_that_is_restarted(
    begin: Begin, database: Connection, server: Server, tmp_path: Path
) -> None:
    worker = await _worker(begin, tmp_path / "journal")
    await _completed(database, 500)
    await asyncio.to_thread(server.stop)
    # Jobs end meanwhile, and wait to be written.
    stats = (await worker.ask("stats")).result
    await asyncio.to_thread(server.start)
    async with await AsyncConnection.connect(
        server.url, autocommit=True, row_factory=dict_row
    ) as again:
        await _completed(again, 900)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.start)
    async with await AsyncConnection.connect(
        server.url, autocommit=True, row_factory=dict_row
    ) as again:
        await _all_once(again, tmp_path / "journal", _JOBS)
    assert stats["tasks"] < 200


async def test_a_server_that_is_away_while_the_client_stops(
    begin: Begin, database: Connection, server: Server, tmp_path: Path
) -> None:
    """The stop waits for the database and then writes what ended."""
    worker = await begin(queues={"default": 20}, journal=str(tmp_path / "journal"), quiet=True)
    await worker.ask("insert_many", jobs=[{"kind": "soak", "args": {"seconds": 0.3}}], count=20)
    await eventually(lambda: jobs(database, "state = 'running'"), fits=lambda rows: len(rows) == 20)
    await asyncio.to_thread(server.stop)
    stopping = asyncio.create_task(worker.ask("stop"))
    await eventually(lambda: _ends(tmp_path / "journal"), fits=lambda ends: ends == 20)
    await asyncio.to_thread(server.start)
    await stopping
    async with await AsyncConnection.connect(
        server.url, autocommit=True, row_factory=dict_row
    ) as again:
        rows = await jobs(again)
    assert {(row["state"], row["attempt"]) for row in rows} == {("completed", 1)}


async def test_a_database_that_lets_nobody_in(
    begin: Begin, database: Connection, server: Server, tmp_path: Path
) -> None:
    await _worker(begin, tmp_path / "journal")
    await _completed(database, 300)
    async with await AsyncConnection.connect(server.admin_url, autocommit=True) as admin:
        await admin.execute("alter database faults allow_connections false")
        await admin.execute(CUT)
        # Somebody has tried by now, and was turned away.
        await eventually(lambda: _turned_away(server), within=10)
        await admin.execute("alter database faults allow_connections true")
    async with await AsyncConnection.connect(
        server.url, autocommit=True, row_factory=dict_row
    ) as again:
        await _all_once(again, tmp_path / "journal", _JOBS)


async def test_a_pool_that_the_host_has_emptied(
    begin: Begin, database: Connection, tmp_path: Path
) -> None:
    worker = await begin(
        queues={"default": 40},
        host_pool=3,
        journal=str(tmp_path / "journal"),
        quiet=True,
        log_jobs=False,
    )
    await worker.ask("hold", count=3)
    with psycopg.connect(database.info.dsn, autocommit=True) as other:
        other.execute(
            "insert into river_job (kind, args, max_attempts)"
            " select 'soak', '{\"seconds\": 0.01}', 25 from generate_series(1, 400)"
        )
    # Fetching and completing have lines of their own.
    await _all_once(database, tmp_path / "journal", 400)
    await worker.ask("let_go")
    assert (await settled(database, await worker.insert("noop"), "completed"))["attempt"] == 1


async def test_a_listener_that_dies_in_silence(
    begin: Begin, database: Connection, server: Server
) -> None:
    async with proxy(server) as between:
        worker = await begin(url=between.url, answer_within=0.3, fetch_poll_interval=0.5)
        held = await worker.insert("block")
        await worker.wait("started", id=held)
        heard = between.listens
        between.silence_listeners()
        # Not told of new jobs, it finds them by asking.
        other = await begin(start=False)
        await worker.wait("job_completed", id=await other.insert("noop"))
        # It notices, and listens again; what it missed meanwhile it asks for.
        await other.ask("cancel", id=held)
        await worker.wait("job_cancelled", id=held)
        assert between.listens > heard
        held = await other.insert("block")
        await worker.wait("started", id=held)
        await other.ask("cancel", id=held)
        await worker.wait("job_cancelled", id=held, within=5)
        await worker.ask("stop")


async def test_a_network_that_swallows_everything(
    begin: Begin, database: Connection, server: Server, tmp_path: Path
) -> None:
    """What was fetched into the void is rescued, and all else goes on."""
    journal = tmp_path / "journal"
    async with proxy(server) as between:
        worker = await begin(
            url=between.url,
            journal=str(journal),
            answer_within=0.5,
            quiet=True,
            log_jobs=False,
            queues={"default": 40},
            job_timeout=4,
            rescue_after=5,
            retry_in=0.01,
        )
        other = await begin(start=False)
        jobs_to_do = [{"kind": "soak", "args": {"seconds": 0.02}}]
        await other.ask("insert_many", jobs=jobs_to_do, count=1000, fast=True)
        await _completed(database, 200)
        between.silence_all()
        await _completed(database, 900)
        await eventually(lambda: _unfinished(database), fits=lambda left: left <= 40)
        # Were jobs lost on their way, a new leader rescues them at once, the old one twice a
        # minute.
        for _ in range(10):
            if await _unfinished(database) == 0:
                break
            await other.ask("request_resign")
            with suppress(AssertionError):
                await eventually(
                    lambda: _unfinished(database), fits=lambda left: left == 0, within=3
                )
        rows = await jobs(database)
        assert {row["state"] for row in rows} == {"completed"}
        # Whatever was attempted twice was begun once: the first attempt never reached us.
        assert set(Journal.read([journal]).count("start").values()) == {1}
        assert (await worker.ask("stats")).result["running"] == 0
        await worker.ask("stop")


async def _turned_away(server: Server) -> bool:
    return await asyncio.to_thread(server.log_tells, "not currently accepting connections")


async def _ends(path: Path) -> int:
    return Journal.read([path]).count("end").total()
