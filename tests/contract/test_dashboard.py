"""The dashboard on a driver with almost no optional parts: the one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from httpx2 import AsyncClient

from riverui.domain.jobs import JobState
from riverui.storage.interface import Driver
from riverui.testing import MemoryDatabase
from tests.contract.seeds import ended, insert, job, running, state_of
from tests.web.html import parse
from tests.web.stand_ins import dashboard


@pytest.fixture
def plain() -> Driver:
    """Return an empty database."""
    return MemoryDatabase()


@pytest.fixture
async def client(plain: Driver) -> AsyncIterator[AsyncClient]:
    """Yield a browser on a dashboard of that driver."""
    async with dashboard(plain) as client:
        yield client


@pytest.fixture
async def jobs(plain: Driver) -> dict[str, int]:
    """Return a job in most states, by state."""
    async with plain.autocommit() as executor:
        await executor.queues.upsert("default")
    return {
        "available": (await insert(plain, job("waits", queue="other")))[0],
        "running": (await running(plain, job("works")))[0],
        "completed": (await ended(plain, JobState.COMPLETED, job("done")))[0],
        "discarded": (await ended(plain, JobState.DISCARDED, job("fails")))[0],
    }


async def test_every_page_answers(client: AsyncClient, jobs: dict[str, int]) -> None:
    for path, shown in (
        ("/jobs", "waits"),
        ("/jobs?state=discarded", "fails"),
        ("/jobs?q=kind:works", "works"),
        (f"/jobs/{jobs['discarded']}", "boom"),
        ("/queues", "default"),
        ("/queues/default", "default"),
        ("/operations", "Operations"),
        ("/workers", "host_a_2026"),
        ("/errors", "boom"),
        ("/suggest?q=kind:wai", "waits"),
        ("/help", "Keyboard"),
        ("/metrics", ""),
        ("/api/jobs?state=available", "waits"),
        ("/api/states", "available"),
        ("/api/queues", "default"),
        (f"/api/jobs/{jobs['completed']}", "done"),
        ("/api/autocomplete?facet=job_kind", "waits"),
        ("/api/health-checks/complete", "ok"),
    ):
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert shown in answer.text, path


async def test_jobs_and_queues_can_be_changed(
    client: AsyncClient, plain: Driver, jobs: dict[str, int]
) -> None:
    for verb, state, after in (
        ("retry", "discarded", "available"),
        ("cancel", "available", "cancelled"),
    ):
        answer = await client.post(f"/api/jobs/{verb}", json={"ids": [str(jobs[state])]})
        assert answer.status_code == 200, answer.text
        assert await state_of(plain, jobs[state]) == after
    answer = await client.put("/api/queues/default/pause")
    assert answer.status_code == 200, answer.text
    async with plain.reading() as executor:
        row = await executor.queues.row_get("default")
    assert row is not None
    assert row.paused_at is not None


async def test_the_about_page_knows_the_file(client: AsyncClient) -> None:
    answer = await client.get("/about")
    text = parse(answer.text).one(id="about").text
    assert answer.status_code == 200
    for shown in ("sqlite3", "jobs.db", "journal_mode", "wal", "main 8"):
        assert shown in text
    for absent in ("Postgres", "could not be read", "None recorded", "Check the database"):
        assert absent not in text


async def test_programs_are_told_what_is_missing(client: AsyncClient) -> None:
    features = (await client.get("/api/features")).json()
    found = {name for name, there in features["extensions"].items() if there}
    assert found == {
        "dead_letter_jobs",
        "durable_periodic_jobs",
        "has_producer_table",
        "producer_queries",
    }
    described = (await client.get("/api/openapi.json")).json()["paths"]
    for path, methods in described.items():
        for method, operation in methods.items():
            if "501" not in operation["responses"] or "requestBody" in operation:
                continue
            needed = [each for each in operation.get("parameters", ()) if each["required"]]
            values = {each["name"]: each["schema"].get("enum", ["7"])[0] for each in needed}
            query = {each["name"]: values[each["name"]] for each in needed if each["in"] == "query"}
            answer = await client.request(method, path.format(**values), params=query)
            assert answer.status_code in {200, 404, 501}, (path, answer.text)
            if answer.status_code == 501:
                message = answer.json()["message"]
                assert "Postgres" in message or "the tables of riverui" in message, path


async def test_the_search_box_offers_what_it_can(client: AsyncClient, jobs: dict[str, int]) -> None:
    for text, offered in (("kind:f", 1), ("queue:o", 1), ("worker:h", 1), ("args.c", 0)):
        answer = await client.get("/suggest", params={"q": text})
        assert answer.status_code == 200, answer.text
        assert len(parse(answer.text).all(role="option")) == offered, text
