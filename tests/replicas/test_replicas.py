"""Two dashboards of one database and a balancer without sticky sessions: an action on all matching
jobs is started on one, watched on the other, and goes on when the one that works on it is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.replicas.processes import balancer, browser, replica, wait_for
from tests.web.html import parse

JOBS = 12_000
"""Enough that a dashboard is killed in the middle of an operation on all of them."""
KEY = {"RIVERUI_SECRET_KEY": "the same in each container"}
LEASE_SECONDS = 15
"""Within which another dashboard goes on with what a killed one leaves."""

Row = dict[str, Any]


@pytest.fixture
async def jobs(connection: AsyncConnection[Any]) -> AsyncConnection[Any]:
    """Jobs to cancel, and a journal of how often each is changed."""
    await connection.execute(
        "insert into river_job (kind, args, state, scheduled_at, max_attempts)"
        " select 'mail', '{}', 'retryable', now() + n * interval '1 s', 25"
        " from generate_series(1, %s) n",
        [JOBS],
    )
    await connection.execute(
        """
        insert into river_job (kind, args, max_attempts) values ('other', '{}', 25);
        create table journal (id bigint not null);
        create function journal() returns trigger language plpgsql as
        'begin insert into journal values (old.id); return new; end';
        create trigger journal after update or delete on river_job for each row
        execute function journal();
        """
    )
    return connection


async def cancel_all(client: httpx2.AsyncClient) -> str:
    """Start to cancel every retryable job, as a person does; return the operation's address."""
    preview = parse((await client.get("/jobs/bulk?verb=cancel&state=retryable&q=kind:mail")).text)
    form = next(
        form
        for form in preview.all("form")
        if form.attributes.get("action", "").endswith("/jobs/bulk/cancel")
    )
    answer = await client.post("/jobs/bulk/cancel", data=dict(form.fields()))
    assert answer.status_code == 303, answer.text
    where: str = answer.headers["location"]
    assert where.startswith("/operations/")
    return where


async def reach(
    connection: AsyncConnection[Any], fits: Callable[[Row], object], *, seconds: float = 60
) -> Row:
    """Return the operation's row, once it is as wanted."""

    async def look() -> Row | None:
        rows = await connection.execute("select * from riverui_operation")
        row: Row | None = await rows.fetchone()
        return row if row is not None and fits(row) else None

    found: Row = await wait_for(look, seconds=seconds)
    return found


async def check_once(connection: AsyncConnection[Any]) -> None:
    """Every job was acted on, none twice, and no other."""
    rows = await connection.execute(
        "select count(*) as acts, count(distinct id) as jobs from journal"
    )
    assert await rows.fetchone() == {"acts": JOBS, "jobs": JOBS}
    rows = await connection.execute("select state::text, count(*) as n from river_job group by 1")
    assert {row["state"]: row["n"] for row in await rows.fetchall()} == {
        "cancelled": JOBS,
        "available": 1,
    }


async def check_history(client: httpx2.AsyncClient, where: str) -> None:
    """Who asked for what, and what became of it."""
    page = parse((await client.get(where)).text).one(id="operation")
    assert page.attributes["data-final"] == "1"
    assert f"{JOBS:,} jobs cancelled" in page.text
    assert "by ada" in page.text
    assert "kind:mail" in page.text
    listed = parse((await client.get("/operations")).text).one(id="operations-list").text
    assert "ada" in listed
    assert "done" in listed


async def test_one_is_killed_and_the_other_ends_it(
    database_url: str, jobs: AsyncConnection[Any], own_tables: None
) -> None:
    async with (
        replica(database_url, **KEY) as first,
        replica(database_url, **KEY) as second,
        balancer(first.port, second.port) as port,
        browser(port) as client,
    ):
        replicas = {first.process.pid: first, second.process.pid: second}
        where = await cancel_all(client)
        row = await reach(jobs, lambda row: row["changed"] or row["ended_at"])
        works = replicas.pop(int(row["holder"].split(":")[1]))
        (watches,) = replicas.values()
        async with browser(watches.port) as beside:
            assert "Stop" in (await beside.get(where)).text
        works.process.kill()
        killed = time.monotonic()
        row = await reach(jobs, lambda row: row["fence"] == 2, seconds=LEASE_SECONDS)
        assert 0 < row["changed"] < JOBS
        assert time.monotonic() - killed < LEASE_SECONDS
        row = await reach(jobs, lambda row: row["ended_at"])
        assert (row["status"], row["changed"], row["username"]) == ("done", JOBS, "ada")
        assert int(row["holder"].split(":")[1]) == watches.process.pid
        await check_once(jobs)
        await check_history(client, where)
        await watches.said("taken over")
        assert [line for line in watches.lines if "cancel done: 12000 changed" in line]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_single_dashboard_goes_on_after_a_restart(
    number: int, database_url: str, jobs: AsyncConnection[Any], own_tables: None
) -> None:
    async with replica(database_url, **KEY) as first, browser(first.port) as client:
        where = await cancel_all(client)
        await reach(jobs, lambda row: row["changed"])
        await first.stop(number)
        row = await reach(jobs, lambda row: True)
        assert (row["status"], row["ended_at"]) == ("running", None)
        # One that stops by itself lets go.
        assert (row["held_until"] < row["created_at"]) == (number == signal.SIGTERM)
    async with replica(database_url, **KEY) as again, browser(again.port) as client:
        started = time.monotonic()
        row = await reach(jobs, lambda row: row["fence"] == 2, seconds=LEASE_SECONDS)
        if number == signal.SIGTERM:
            assert time.monotonic() - started < 5
        row = await reach(jobs, lambda row: row["ended_at"])
        assert (row["status"], row["changed"]) == ("done", JOBS)
        await check_once(jobs)
        await check_history(client, where)


async def test_a_killed_worker_is_followed_by_another(
    database_url: str, jobs: AsyncConnection[Any], own_tables: None
) -> None:
    async with (
        replica(database_url, "--workers", "2") as server,
        browser(server.port) as client,
    ):
        await server.said("worker started", times=2)
        where = await cancel_all(client)
        row = await reach(jobs, lambda row: row["changed"] or row["ended_at"])
        worker = int(row["holder"].split(":")[1])
        assert worker in server.workers
        os.kill(worker, signal.SIGKILL)
        row = await reach(jobs, lambda row: row["fence"] == 2, seconds=LEASE_SECONDS)
        row = await reach(jobs, lambda row: row["ended_at"])
        assert (row["status"], row["changed"]) == ("done", JOBS)
        assert int(row["holder"].split(":")[1]) in set(server.workers) - {worker}
        await check_once(jobs)
        await check_history(client, where)


async def test_one_that_is_held_up_does_nothing_twice(
    database_url: str, jobs: AsyncConnection[Any], own_tables: None
) -> None:
    """It is stopped as a machine without processor time is, and goes on when another has."""
    async with replica(database_url, **KEY) as first, browser(first.port) as client:
        where = await cancel_all(client)
        await reach(jobs, lambda row: row["changed"])
        first.process.send_signal(signal.SIGSTOP)
        async with replica(database_url, **KEY) as second, browser(second.port) as beside:
            # It may have been stopped within a chunk: then the server ends its transaction.
            row = await reach(jobs, lambda row: row["fence"] == 2, seconds=LEASE_SECONDS)
            first.process.send_signal(signal.SIGCONT)
            await first.said("has taken this operation over")
            row = await reach(jobs, lambda row: row["ended_at"])
            assert (row["status"], row["changed"], row["fence"]) == ("done", JOBS, 2)
            await check_once(jobs)
            await check_history(beside, where)


async def test_without_the_table_each_knows_its_own(
    database_url: str, jobs: AsyncConnection[Any]
) -> None:
    async with (
        replica(database_url, **KEY) as first,
        replica(database_url, **KEY) as second,
        browser(first.port) as client,
        browser(second.port) as beside,
    ):
        assert (await beside.get("/jobs")).status_code == 200
        where = await cancel_all(client)

        async def done() -> bool:
            page = parse((await client.get(where)).text).one(id="operation")
            return page.attributes["data-final"] == "1"

        await wait_for(done)
        await check_once(jobs)
        assert (await beside.get(where)).status_code == 404
        listed = parse((await client.get("/operations")).text).one(id="operations-list").text
        assert "Another dashboard is connected to this database" in listed
        assert "riverui migrate-up --line riverui" in listed


async def test_the_line_is_noticed_without_a_restart(
    database_url: str, jobs: AsyncConnection[Any]
) -> None:
    async with (
        replica(database_url, **KEY) as first,
        browser(first.port) as client,
    ):
        assert "migrate-up --line riverui" in (await client.get("/operations")).text
        driver = connect(database_url)
        await migrate(driver, "up", line="riverui")
        await driver.close()

        async def noticed() -> bool:
            return "migrate-up --line riverui" not in (await client.get("/operations")).text

        await wait_for(noticed)
        where = await cancel_all(client)
        await reach(jobs, lambda row: row["ended_at"])
        await check_history(client, where)
        await asyncio.gather(*(client.get("/operations") for _ in range(3)))
