"""Autocomplete, features, states and health, as River UI's API answers them."""

from __future__ import annotations

import platform
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import UNSET
from psycopg import AsyncConnection

from riverui import __version__, create_app
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, CountKind
from riverui.web.auth.rights import Access
from riverui.web.config import DashboardConfig
from riverui.web.http.counts import CountLimits
from riverui.web.limits import DashboardLimits
from riverui.web.sections.overview.api import CountedState
from tests import factory
from tests.own_tables import OWN_TABLES
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate
from tests.web.stand_ins import browser

Connection = AsyncConnection[dict[str, Any]]
NONE = {
    "dead_letter_jobs": False,
    "durable_periodic_jobs": False,
    "has_producer_table": False,
    "has_sequence_table": False,
    "producer_queries": False,
    "workflow_queries": False,
}


async def test_a_hundred_names_at_most(get: Get, connection: Connection) -> None:
    for number in range(101):
        await factory.queue(connection, f"q{number:03}")
    assert len((await get("autocomplete", facet="queue_name"))["data"]) == 100


async def test_features_without_river_pro(get: Get) -> None:
    assert await get("features") == {"extensions": NONE, "job_list_hide_args_by_default": False}


async def test_features_tell_of_tables_and_of_the_settings(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute(
        "create table river_producer (id bigint); create table river_workflow (id text)"
    )
    async with browser(
        create_app(driver, no_auth=True, config=DashboardConfig(hide_args=True))
    ) as client:
        found = (await client.get("/api/features")).json()
        assert found["job_list_hide_args_by_default"] is True
        assert found["extensions"] == {**NONE, "has_producer_table": True, "producer_queries": True}
        for table in ("attempt", "attempt_task", "signal", "timer", "worklist"):
            await connection.execute(f"create table river_workflow_{table} (id text)")
        await connection.execute(
            "create table river_job_sequence (id text); create table river_periodic_job (id text)"
        )
        found = (await client.get("/api/features")).json()
        assert found["extensions"] == {**dict.fromkeys(NONE, True), "dead_letter_jobs": False}
        await connection.execute(OWN_TABLES)
        found = (await client.get("/api/features")).json()
        assert found["extensions"] == dict.fromkeys(NONE, True)


# However busy the machine is, this counts as cheap.
@pytest.mark.parametrize(
    "dashboard_limits", [DashboardLimits(counts=CountLimits(cheap_seconds=10))]
)
async def test_states_are_those_of_the_moment_whoever_changed_them(
    get: Get, connection: Connection
) -> None:
    for number in range(1, 6):
        await factory.job(connection, "available")
        assert (await get("states"))["available"]["count"] == number


async def test_big_states_are_counted_to_the_end(driver: Driver, connection: Connection) -> None:
    for state in ("available", "completed"):
        for _ in range(5):
            await factory.job(connection, state)
    app = create_app(driver, no_auth=True, config=DashboardConfig(count_cap=2))
    async with browser(app) as client:
        found = (await client.get("/api/states")).json()
    await app.state.dashboard.close()
    assert [found[state]["count"] for state in ("available", "completed", "running")] == [5, 5, 0]


def test_what_is_not_exact_is_told_in_river_uis_words() -> None:
    now = datetime(2026, 11, 23, 8, 30, 5, tzinfo=UTC)
    at = now - timedelta(seconds=5)
    told = [
        (count.accuracy, count.count, count.observed_at)
        for count in (
            CountedState.from_count(Count(value=7, kind=kind, at=when), now)
            for kind, when in (
                (CountKind.EXACT, None),
                (CountKind.EXACT, at),
                (CountKind.ESTIMATED, None),
                (CountKind.AT_LEAST, None),
            )
        )
    ]
    assert told == [
        ("exact", 7, "2026-11-23T08:30:05Z"),
        ("exact_cached", 7, "2026-11-23T08:30:00Z"),
        ("estimated", 7, UNSET),
        ("lower_bound", 7, UNSET),
    ]


async def test_the_version_in_river_uis_words(get: Get) -> None:
    assert await get("version") == {
        "version": f"riverui {__version__}",
        "revision": "",
        "time": "",
        "modified": False,
        "go_version": f"Python {platform.python_version()}",
    }


async def test_the_overview_in_one_answer(get: Get, connection: Connection) -> None:
    await factory.queue(connection, "mail")
    for _ in range(3):
        await factory.job(connection, queue="mail")
    running = await factory.job(connection, "running", kind="report")
    failed = await factory.job(connection, "discarded", kind="charge")
    again = await factory.job(connection, "retryable", kind="charge")
    told = await get("overview")
    validate("Overview", told)
    assert told["health"]["sections"][0]["name"] == "flow"
    counts = {each["state"]: each["count"] for each in told["states"]}
    assert (counts["available"], counts["running"], counts["pending"]) == (3, 1, 0)
    queues = {queue["name"]: queue for queue in told["queues"]}
    assert queues["mail"]["available"] == 3
    assert queues["mail"]["registered"]
    assert queues["mail"]["oldest_waiting_at"]
    assert not queues["default"]["registered"]
    assert [job["id"] for job in told["running"]] == [running]
    assert {job["id"]: job["error"] for job in told["failures"]} == {
        failed: "it broke",
        again: "it broke",
    }
    assert told["missing"] == ""
    assert "parameter" in (await get("overview", 400, window="1h"))["message"].lower()


async def test_the_overview_leaves_out_what_one_may_not_see(driver: Driver) -> None:
    rights = frozenset({"figures.read"})
    app = create_app(driver, authenticate=lambda connection: Access(rights=rights))
    async with browser(app, base_url="http://river.test/api/") as client:
        told = (await client.get("overview")).json()
    assert (told["states"], told["queues"], told["running"], told["failures"]) == (None,) * 4
    assert told["health"]["level"]
    await app.state.dashboard.close()
