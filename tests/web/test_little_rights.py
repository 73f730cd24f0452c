"""Databases that tell little or take no changes: a hot standby, and users with few rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection, sql

from riverui.engine.feature_list import plain_pilot
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from tests.databases.streaming import streaming
from tests.factory import Make, job, leader, queue
from tests.web.html import get
from tests.web.stand_ins import browser

PAGES = (
    "/jobs",
    "/jobs?state=completed",
    "/queues",
    "/operations",
    "/about",
    "/help",
    "/api/jobs",
    "/api/queues",
)


@asynccontextmanager
async def dashboard(url: str) -> AsyncIterator[AsyncClient]:
    driver = connect(url)
    app = build_app(
        driver, SignIn(no_auth=True), pilot=plain_pilot(), options=AppOptions(close_driver=True)
    )
    try:
        async with browser(app) as client:
            yield client
    finally:
        await app.state.dashboard.close()
        await driver.close()


async def fill(url: str) -> dict[str, int]:
    """Jobs, a queue and a leader; the ids of the jobs by state."""
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await queue(connection, "default")
        await leader(connection, "the_leader")
        return {
            state: await job(connection, state)
            for state in ("available", "completed", "retryable", "running", "scheduled")
        }


@pytest.fixture(scope="module")
def standby() -> Iterator[tuple[str, dict[str, int]]]:
    """Yield a hot standby, made from the base backup of a server with jobs in it: its URL and its
    jobs.
    """
    jobs: dict[str, int] = {}

    def prepare(url: str) -> None:
        async def run() -> None:
            driver = connect(url)
            await migrate(driver, "up")
            await migrate(driver, "up", line="riverui")
            await driver.close()
            jobs.update(await fill(url))

        asyncio.run(run())

    with streaming(prepare) as servers:
        yield servers.standby, jobs


@pytest.fixture
def role(database_url: str) -> Iterator[Callable[..., str]]:
    """Make a user with nothing but these grants; return the URL with which it sees this test's
    database.
    """
    name = f"riverui_test_{token_hex(6)}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))

        def grant(*tables: str, rights: str = "select") -> str:
            for table in tables:
                admin.execute(
                    sql.SQL("grant {} on {} to {}").format(
                        sql.SQL(rights), sql.Identifier(table), sql.Identifier(name)
                    )
                )
            return with_user(database_url, name)

        yield grant
        admin.execute(sql.SQL("drop owned by {}; drop role {}").format(*[sql.Identifier(name)] * 2))


def with_user(url: str, name: str) -> str:
    """Return the same database for another user."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{name}:x@{place}"))


async def tables(url: str) -> list[str]:
    async with await AsyncConnection.connect(url) as connection:
        found = await connection.execute(
            "select table_name from information_schema.tables where table_schema = 'public'"
        )
        return [row[0] for row in await found.fetchall()]


async def test_a_standby_tells_all_but_what_it_lacks(standby: tuple[str, dict[str, int]]) -> None:
    url, jobs = standby
    async with dashboard(url) as client:
        about = (await get(client, "/about")).one(id="about").text
        assert "The leader could not be read. A standby cannot read unlogged tables" in about
        assert "This database is read-only: it is a standby" in about
        assert "main" in about, "the migrations are told"
        assert "shared_buffers" in about
        for path in PAGES:
            assert (await client.get(path)).status_code == 200, path
        for state, job_id in jobs.items():
            page = (await get(client, f"/jobs/{job_id}")).one(id="job").text
            assert "There is no leader" not in page
            assert ("The leader could not be read. A standby" in page) is (
                state in ("retryable", "scheduled")
            )
        metrics = (await client.get("/metrics")).text
        assert "riverui_database_up 1.0" in metrics
        assert 'river_queue_jobs{queue="default",state="available"} 1.0' in metrics
        assert 'river_jobs_finished_last_minute{state="completed"}' in metrics
        assert "river_leader" not in metrics
        assert (await client.get("/api/health-checks/complete")).status_code == 200


async def test_a_standby_takes_no_changes_and_says_so(standby: tuple[str, dict[str, int]]) -> None:
    url, jobs = standby
    form = {"ids": str(jobs["available"]), "confirmed": "1"}
    async with dashboard(url) as client:
        # The first request of all: nothing is known yet of the database.
        answer = await client.post("/jobs/cancel", data=form)
        assert answer.status_code == 403
        assert "This database is read-only" in answer.text
        await expect_read_only(client, jobs["available"], "it is a standby")


async def test_a_standby_stores_nothing(
    standby: tuple[str, dict[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    driver = connect(standby[0])
    app = build_app(driver, SignIn(no_auth=True), pilot=plain_pilot())
    figures = app.state.dashboard.figures
    async with browser(app) as client:
        # The first of all: nothing is known yet of the database.
        assert not await figures.writer.tick()
        assert "Delete all stored figures" not in (await get(client, "/about")).text
        answer = await client.post("/database/figures/delete", data={"confirmed": "1"})
        assert answer.status_code == 403
        assert (await client.get("/?window=7d")).status_code == 200
    await figures.close()
    await app.state.dashboard.close()
    await driver.close()
    assert "figures could not be stored" not in caplog.text


async def expect_read_only(client: AsyncClient, job_id: int, reason: str) -> None:
    """No buttons, a word of why, and 403 for who asks nevertheless."""
    for path in ("/jobs", "/queues", "/queues/default", f"/jobs/{job_id}"):
        page = await get(client, path)
        tags = [
            tag.attributes["title"] for tag in page.all(class_="tag") if tag.text == "read-only"
        ]
        assert [reason in tag for tag in tags] == [True], path
        verbs = [element for element in page.walk() if "data-verb" in element.attributes]
        assert not verbs + page.all("form", action="/queues/pause"), path
    form = {"ids": str(job_id), "confirmed": "1"}
    for verb in ("cancel", "delete", "move", "retry"):
        answer = await client.post(f"/jobs/{verb}", data=form)
        assert (answer.status_code, reason in answer.text) == (403, True), verb
        told = await client.post(f"/api/jobs/{verb}", json={"ids": [job_id]})
        assert (told.status_code, reason in told.json()["message"]) == (403, True), verb
    assert (await client.post("/queues/pause", data={"name": "default"})).status_code == 403
    assert (await client.put("/api/queues/default/pause")).status_code == 403


@pytest.mark.parametrize("which", ["setting of the role", "options of the URL"])
async def test_a_user_whose_transactions_are_read_only_is_taken_at_its_word(
    database_url: str, role: Callable[..., str], make: Make, which: str
) -> None:
    jobs = await fill(database_url)
    url = role(*await tables(database_url), rights="all")
    if which == "setting of the role":
        name = urlsplit(url).username or ""
        statement = "alter role {} set default_transaction_read_only = on"
        await make.execute(sql.SQL(statement).format(sql.Identifier(name)))
    else:
        url += ("&" if "?" in url else "?") + "default_transaction_read_only=on"
    async with dashboard(url) as client:
        answer = await client.post(
            "/jobs/cancel", data={"ids": str(jobs["available"]), "confirmed": "1"}
        )
        assert answer.status_code == 403
        assert "read-only" in answer.text
        await expect_read_only(client, jobs["available"], "default_transaction_read_only is on")
        assert (
            "default_transaction_read_only is on"
            in (await get(client, "/about")).one(id="about").text
        )
    found = await make.execute("select state from river_job where id = %s", [jobs["available"]])
    assert await found.fetchone() == {"state": "available"}


async def test_reading_jobs_and_queues_alone(database_url: str, role: Callable[..., str]) -> None:
    jobs = await fill(database_url)
    async with dashboard(role("river_job", "river_queue")) as client:
        for path in PAGES:
            assert (await client.get(path)).status_code == 200, path
        about = (await get(client, "/about")).one(id="about").text
        assert "The leader could not be read." in about
        assert "permission denied for table river_leader" in about
        assert "permission denied for table river_migration" in about
        assert "Missing migrations" not in about
        assert "shared_buffers" in about
        page = (await get(client, f"/jobs/{jobs['scheduled']}")).one(id="job").text
        assert "permission denied for table river_leader" in page
        assert "There is no leader" not in page
        metrics = (await client.get("/metrics")).text
        assert "riverui_database_up 1.0" in metrics
        assert "river_queue_paused" in metrics
        assert "river_leader" not in metrics
        answer = await client.post(
            "/jobs/cancel", data={"ids": str(jobs["available"]), "confirmed": "1", "next": "/jobs"}
        )
        assert answer.status_code == 503
        assert "permission denied for table river_job" in answer.text


async def test_without_rights_on_queues(database_url: str, role: Callable[..., str]) -> None:
    jobs = await fill(database_url)
    others = [table for table in await tables(database_url) if table != "river_queue"]
    async with dashboard(role(*others)) as client:
        for state, job_id in jobs.items():
            page = (await get(client, f"/jobs/{job_id}")).one(id="job").text
            assert "No client has ever served" not in page, state
            unread = "The queue could not be read. " in page
            assert unread is (state != "completed"), state
            assert ("permission denied for table river_queue" in page) is unread
            told = (await client.get(f"/api/jobs/{job_id}/explain")).json()
            results = {check["name"]: check["result"] for check in told["checks"]}
            assert results.get("paused", "unknown") == "unknown", state
        for path in ("/jobs", "/jobs?q=queue:default", "/about", "/api/jobs", "/api/states"):
            assert (await client.get(path)).status_code == 200, path
        metrics = (await client.get("/metrics")).text
        assert "riverui_database_up 1.0" in metrics
        assert "river_leader 1.0" in metrics
        assert 'river_jobs_finished_last_minute{state="completed"}' in metrics
        assert "river_queue_" not in metrics
        for path in ("/queues", "/queues/default"):
            assert "permission denied for table river_queue" in (await get(client, path, 503)).text


async def test_without_rights_on_jobs(database_url: str, role: Callable[..., str]) -> None:
    await fill(database_url)
    others = [table for table in await tables(database_url) if table != "river_job"]
    async with dashboard(role(*others)) as client:
        assert "permission denied for table river_job" in (await get(client, "/jobs", 503)).text
        assert "the_leader" in (await get(client, "/about")).one(id="about").text
        metrics = (await client.get("/metrics")).text
        assert "riverui_database_up 1.0" in metrics
        assert "river_leader 1.0" in metrics
        assert "river_jobs{" not in metrics


async def test_without_rights_on_operations(database_url: str, role: Callable[..., str]) -> None:
    owner = connect(database_url)
    await migrate(owner, "up", line="riverui")
    await owner.close()
    url = role("river_job", "river_queue", "river_migration", "river_leader")
    async with dashboard(url) as client:
        assert "riverui_operation" in (await get(client, "/operations", 503)).text
        await get(client, "/jobs")
    role("riverui_operation")
    async with dashboard(url) as client:
        page = await get(client, "/operations")
        assert "No operations" in page.text
        assert "this process" not in page.text
