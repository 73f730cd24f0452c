"""Pages read from a standby, changes made on its primary."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import psycopg
import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from starlette.applications import Starlette

from riverui import create_app
from riverui.engine.feature_list import plain_pilot
from riverui.errors import QueryTimeout, SchemaMissing
from riverui.features.error_groups.store import ErrorGroupStore
from riverui.features.figures.store import JobFigures
from riverui.storage.interface.params import JobPageParams
from riverui.storage.postgres.engine.leader import PostgresLeader
from riverui.storage.postgres.statements import PostgresQueries
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions
from riverui.web.http.read_replica import OF_THE_PRIMARY, ReadReplica, ReplicaTimes
from riverui.web.limits import DashboardLimits
from tests.databases.conftest import caught_up
from tests.databases.streaming import Servers
from tests.drivers import connect
from tests.factory import job, leader, queue
from tests.interop.look import eventually
from tests.web.html import Element, parse
from tests.web.stand_ins import browser

PAGES = (
    "/",
    "/jobs",
    "/jobs?q=kind:test_kind",
    "/kinds",
    "/queues",
    "/queues/default",
    "/errors",
    "/workers",
    "/periodic",
    "/operations",
    "/dead-letters",
    "/workflows",
    "/about",
    "/api/jobs",
    "/api/queues",
    "/api/health-report",
    "/metrics",
)
_LATER = 3600.0
"""Seconds that a test must not wait."""


class Board:
    """One dashboard process on both servers, and the statements of each."""

    def __init__(
        self, urls: Sequence[str], *, secret_key: str = "", times: ReplicaTimes | None = None
    ) -> None:
        self.asked: tuple[list[str], list[str]] = ([], [])
        """Names of the statements that the primary and the standby have been sent."""
        self.drivers = [
            connect(url, watch=lambda name, text, values, to=asked: to.append(name))  # type: ignore[misc]
            for url, asked in zip(urls, self.asked, strict=True)
        ]
        self.app: Starlette = build_app(
            self.drivers[0],
            SignIn(no_auth=True),
            DashboardConfig(secret_key=secret_key or None),
            pilot=plain_pilot(),
            options=AppOptions(
                limits=DashboardLimits(replica_times=times or ReplicaTimes()),
                standby=self.drivers[1],
            ),
        )
        replica = self.app.state.dashboard.replica
        assert isinstance(replica, ReadReplica)
        self.replica = replica

    def forget(self) -> None:
        """Forget the statements so far."""
        for asked in self.asked:
            asked.clear()

    async def from_standby(self, client: AsyncClient) -> bool:
        """Return whether the list of jobs is read from the standby just now."""
        self.forget()
        await page(client, "/jobs")
        asked = ["job_list" in each for each in self.asked]
        assert asked in ([True, False], [False, True])
        return asked[1]


@asynccontextmanager
async def board(urls: Sequence[str], **given: Any) -> AsyncIterator[tuple[Board, Any]]:
    """Yield a dashboard and a browser of it."""
    made = Board(urls, **given)
    async with browser(made.app) as client:
        yield made, client
    await made.app.state.dashboard.close()
    for driver in made.drivers:
        await driver.close()


async def page(client: AsyncClient, path: str) -> Element:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text[:2000]
    return parse(answer.text)


def warning(shown: Element) -> str:
    """Return what the tag about the standby says; empty where it is not shown."""
    (tag,) = (tag for tag in shown.all(class_="tag") if tag.text == "standby")
    assert ("hidden" in tag.attributes) == (not tag.attributes["title"])
    return tag.attributes["title"]


async def state_of(client: AsyncClient, job_id: int) -> str:
    answer = await client.get(f"/api/jobs/{job_id}")
    return str(answer.json()["state"]) if answer.status_code == 200 else answer.text


async def test_what_pages_show_is_read_from_the_standby(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    await queue(primary)
    await leader(primary, "the_leader")
    for state in ("available", "completed", "discarded", "retryable", "running", "scheduled"):
        await job(primary, state)
    caught_up(servers)
    async with board(database) as (made, client):
        await eventually(lambda: made.from_standby(client))
        made.forget()
        for path in PAGES:
            assert (await client.get(path)).status_code == 200, path
        spared = {"job_count_by_state", "job_json_list", "job_ended_tally_list"}
        assert spared & {*made.asked[0]} == set()
        assert spared <= {*made.asked[1]}
        assert "job_list" in made.asked[1]
        about = await page(client, "/about")
        assert "the_leader" in about.text, "the primary shows the leader, a standby does not"
        assert "Read from a standby, " in about.one("footer").text
        assert not warning(about)


async def test_blocks_of_features_are_read_from_the_primary_where_operations_are(
    database: tuple[str, str],
) -> None:
    async with board(database) as (made, client):
        await eventually(lambda: made.from_standby(client))
        made.forget()
        async with made.replica.steady.reading() as executor:
            await JobFigures(executor).job_first_completed_at(datetime.now(UTC))
            with suppress(SchemaMissing):
                await ErrorGroupStore(executor).error_group_list(["none"])
        names = ("job_first_completed_at", "error_group_list")
        assert [[name in asked for name in names] for asked in made.asked] == [
            [False, True],
            [True, False],
        ]


async def test_who_acts_sees_it_at_once(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    job_id = await job(primary)
    caught_up(servers)
    times = ReplicaTimes(changed=_LATER)
    key = "the same for all processes"
    async with (
        board(database, secret_key=key, times=times) as (first, client),
        board(database, secret_key=key, times=times) as (there, stranger),
    ):
        await eventually(lambda: first.from_standby(client))
        await eventually(lambda: there.from_standby(stranger))
        servers.pause()
        answer = await client.post("/jobs/cancel", data={"ids": str(job_id), "confirmed": "1"})
        assert answer.status_code == 303, answer.text
        assert await state_of(client, job_id) == "cancelled"
        assert "Cancelled" in (await page(client, f"/jobs/{job_id}")).one(id="job").text
        # Another process knows nothing of it but by the cookie of who did it.
        assert await state_of(stranger, job_id) == "available"
        cookies = [each for each in client.cookies.jar if each.name == "riverui_changed"]
        assert [each.path for each in cookies] == ["/"]
        stranger.cookies.set("riverui_changed", "ImZvcmdlZCI.aaaa.bbbb")
        assert await state_of(stranger, job_id) == "available"
        stranger.cookies.set("riverui_changed", str(cookies[0].value))
        assert await state_of(stranger, job_id) == "cancelled"
        servers.resume()
        await eventually(lambda: first.from_standby(client))
        await eventually(lambda: there.from_standby(stranger))
        assert await state_of(client, job_id) == "cancelled"


async def test_what_is_acted_on_is_read_from_the_primary(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    async with board(database) as (made, client):
        await eventually(lambda: made.from_standby(client))
        servers.pause()
        job_id = await job(primary)
        assert (await client.get(f"/jobs/{job_id}")).status_code == 404, "it is not there yet"
        form = {"q": "kind:test_kind", "all": "1", "confirmed": "1"}
        answer = await client.post("/jobs/cancel", data={**form, "ids": str(job_id)})
        assert answer.status_code == 303, answer.text
        assert await state_of(client, job_id) == "cancelled"


async def test_after_a_while_a_standby_that_lags_is_read_again(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    job_id = await job(primary)
    caught_up(servers)
    async with board(database, times=ReplicaTimes(changed=0.5)) as (made, client):
        await eventually(lambda: made.from_standby(client))
        servers.pause()
        await client.post("/jobs/cancel", data={"ids": str(job_id), "confirmed": "1"})
        await eventually(lambda: made.from_standby(client))
        assert await state_of(client, job_id) == "available"


async def test_lag_is_told(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    async with board(database, times=ReplicaTimes(late=0.2, look=0.05)) as (made, client):
        await eventually(lambda: made.from_standby(client))
        servers.pause()
        await job(primary)

        async def warned() -> str:
            return warning(await page(client, "/queues"))

        words = await eventually(warned)
        assert words.startswith("Read from a standby, "), words
        assert words.endswith(" behind."), words
        about = (await page(client, "/about")).one(id="about")
        assert "behind." in about.all(class_="banner")[0].text
        # Figures are those of the time that the standby shows.
        assert timedelta(seconds=0.2) < made.replica.figure_lag() < timedelta(seconds=60)
        metrics = (await client.get("/metrics")).text
        assert "riverui_standby_used 1.0" in metrics
        (behind,) = re.findall(r"(?m)^riverui_standby_lag_seconds (\S+)", metrics)
        assert 0.2 < float(behind) < 60
        assert (await refreshed(client)).startswith("!Read from a standby, ")
        servers.resume()
        assert await eventually(warned, fits=lambda words: not words) == ""
        words = await eventually(lambda: refreshed(client), fits=lambda words: words[0] != "!")
        assert words.startswith("Read from a standby, ")


async def refreshed(client: AsyncClient) -> str:
    """Return the standby's state in the answer to a live region without changes."""
    headers = {"HX-Request": "true", "HX-Target": "section#queues-list", "Riverui-Live": "2"}
    first = await client.get("/queues", headers=headers)
    assert first.status_code == 200
    again = await client.get("/queues", headers={**headers, "If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    return unquote(again.headers["Riverui-Standby"])


async def test_without_its_standby_pages_are_the_primarys(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    job_id = await job(primary)
    caught_up(servers)
    times = ReplicaTimes(retry=0.05)
    async with board(database, times=times) as (made, client):
        await eventually(lambda: made.from_standby(client))
        servers.stop()
        try:
            assert not await made.from_standby(client), "the first page after it went away"
            for path in PAGES:
                assert (await client.get(path)).status_code == 200, path
            await eventually(lambda: _problem(made, client))
            shown = await page(client, f"/jobs/{job_id}")
            assert "Read from the primary, not from its standby." in shown.one("footer").text
            assert warning(shown).startswith("Read from the primary, not from its standby.")
        finally:
            servers.start()
    # Its address is another one after a start.
    urls = servers.urls(database[0].rpartition("/")[2].partition("?")[0])
    async with board(urls) as (made, client):
        await eventually(lambda: made.from_standby(client))


async def _problem(made: Board, client: AsyncClient) -> str:
    await page(client, "/jobs")
    return made.replica.problem


async def test_a_server_that_is_no_standby_is_not_read(
    database: tuple[str, str], database_url: str, primary: AsyncConnection[DictRow]
) -> None:
    job_id = await job(primary)
    for other in (database[0], database_url):
        async with board((database[0], other)) as (made, client):
            assert await state_of(client, job_id) == "available"
            await eventually(lambda: _problem(made, client))
            assert made.replica.problem == "It is not a standby of this database."
            assert "job_get" not in made.asked[1]
    async with board((database_url, database[1])) as (made, client):
        await eventually(lambda: _problem(made, client))
        assert made.replica.problem == "It is not a standby of this database."


async def test_a_query_that_the_standby_ends_is_asked_of_the_primary(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    await job(primary)
    # For this user a look at a job takes long, but only on the standby.
    await primary.execute(
        """
        create function slowly() returns bool language plpgsql as $$ begin
          if pg_is_in_recovery() then perform pg_sleep(60); end if; return true; end $$;
        drop role if exists patient;
        create role patient login;
        grant all on all tables in schema public to patient;
        alter table river_job enable row level security;
        create policy slow on river_job using (slowly());
        """
    )
    caught_up(servers)
    urls = [url.replace("//riverui@", "//patient@") for url in database]
    async with board(urls) as (made, _):
        # A standby that is slow is not a reason to burden the primary.
        with pytest.raises(QueryTimeout):
            async with made.replica.steady.reading(timeout=timedelta(seconds=0.2)) as executor:
                await executor.jobs.list(JobPageParams(limit=5))
        made.forget()
        async with made.replica.steady.reading(timeout=timedelta(seconds=60)) as executor:
            asking = asyncio.create_task(executor.jobs.list(JobPageParams(limit=5)))
            await eventually(lambda: _sleeping(servers))
            # Does not wait on the primary, but on the standby for readers of the table.
            await primary.execute("vacuum full river_job")
            found = await asking
        assert len(found.rows) == 1
        assert [asked.count("job_list") for asked in made.asked] == [1, 1]
    await primary.execute("drop owned by patient; drop role patient")


async def _sleeping(servers: Servers) -> bool:
    async with await AsyncConnection.connect(servers.standby, autocommit=True) as connection:
        found = await connection.execute(
            "select 1 from pg_stat_activity where wait_event = 'PgSleep'"
        )
        return await found.fetchone() is not None


async def test_programs_name_a_standby_with_read(
    database: tuple[str, str], primary: AsyncConnection[DictRow], servers: Servers
) -> None:
    job_id = await job(primary)
    caught_up(servers)
    app = create_app(database[0], read=database[1], no_auth=True)
    async with browser(app) as client:
        shown = await page(client, f"/jobs/{job_id}")
        assert "Read from a standby, " in shown.one("footer").text
        answer = await client.post("/jobs/cancel", data={"ids": str(job_id), "confirmed": "1"})
        assert answer.status_code == 303
        assert await state_of(client, job_id) == "cancelled"


def test_what_is_read_from_the_primary_alone_exists() -> None:
    blocks = PostgresQueries(None).names
    assert {*blocks, "leader.get"} >= OF_THE_PRIMARY
    assert hasattr(PostgresLeader, "get")


def test_flushed_is_known_to_be_longer_than_the_servers_own_pause(servers: Servers) -> None:
    with psycopg.connect(servers.primary) as connection:
        row = connection.execute(
            "select setting::int from pg_settings where name = 'wal_writer_delay'"
        ).fetchone()
    assert row is not None
    assert ReplicaTimes().flushed >= 3 * row[0] / 1000
