"""Every error under /api is JSON with a message."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app, errors
from riverui.storage.connect import connect
from tests import factory
from tests.cases import cases
from tests.web.stand_ins import DeadDriver, browser

Connection = AsyncConnection[dict[str, Any]]


def outcome(answer: httpx2.Response) -> tuple[int, bool]:
    """Return the status, and whether it is JSON with nothing but a message."""
    json = answer.headers["content-type"].startswith("application/json")
    return answer.status_code, json and list(answer.json()) == ["message"] and bool(
        answer.json()["message"]
    )


async def test_unknown_addresses(api: httpx2.AsyncClient) -> None:
    with cases() as case:
        for path in ("nothing", "jobs/1/2", "queue", "jobs/", "pro", "health-checks"):
            with case(path):
                for method in ("POST", "PUT"):
                    assert outcome(await api.request(method, path)) == (404, True)


async def test_wrong_methods(api: httpx2.AsyncClient) -> None:
    with cases() as case:
        for method, path, allowed in (
            ("PUT", "jobs", "GET, HEAD, POST"),
            ("DELETE", "jobs/7", "GET, HEAD"),
            ("POST", "queues/default", "GET, HEAD, PATCH"),
            ("POST", "queues/default/pause", "GET, HEAD, PATCH, PUT"),
            ("PUT", "jobs/cancel", "GET, HEAD, POST"),
            ("OPTIONS", "states", "GET, HEAD"),
        ):
            with case(f"{method} {path}"):
                answer = await api.request(method, path)
                assert outcome(answer) == (405, True)
                assert answer.headers["allow"] == allowed


async def test_json_is_taken_whatever_it_is_sent_as(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    with cases() as case:
        for kind in (
            "application/json",
            "text/plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
            "Nonsense",
            None,
        ):
            for browser in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://river.test"}):
                with case((kind, browser)):
                    await connection.execute("delete from river_job")
                    await connection.execute("delete from river_queue")
                    job_id = await factory.job(connection)
                    await factory.queue(connection)
                    headers = browser | ({"Content-Type": kind} if kind else {})
                    body = f'{{"ids": ["{job_id}"]}}'.encode()
                    for method, path, content in (
                        ("POST", "jobs/delete", body),
                        ("PUT", "queues/default/pause", b""),
                        ("PATCH", "queues/default", b'{"concurrency": {"global_limit": 7}}'),
                    ):
                        answer = await api.request(method, path, content=content, headers=headers)
                        assert answer.status_code == 200, answer.text
                    assert await rows(connection) == {"jobs": 0, "paused": 1, "limited": 1}


async def rows(connection: Connection) -> dict[str, int]:
    """Return how many jobs there are, and how many queues are paused or limited."""
    found = await connection.execute(
        "select (select count(*) from river_job where state = 'available') as jobs,"
        " count(paused_at) as paused, count(*) filter (where metadata ? 'concurrency') as limited"
        " from river_queue"
    )
    row = await found.fetchone()
    assert row
    return row


async def test_a_body_has_its_bounds(api: httpx2.AsyncClient) -> None:
    answer = await api.post("jobs/cancel", json={"ids": [1], "more": "x" * 1024 * 1024})
    assert outcome(answer) == (413, True)


async def test_a_database_in_trouble() -> None:
    with cases() as case:
        for error, status in (
            (errors.DatabaseUnavailable(), 503),
            (errors.QueryTimeout(), 503),
            (errors.PermissionDenied(), 503),
            (errors.SchemaMissing(), 503),
            (RuntimeError("secret"), 500),
        ):
            with case(repr(error)):
                app: Starlette = create_app(DeadDriver(error), no_auth=True)
                async with browser(app) as client:
                    paths = "jobs jobs/1 queues queues/x features autocomplete?facet=job_kind"
                    for path in paths.split():
                        answer = await client.get(f"/api/{path}")
                        assert outcome(answer) == (status, True), path
                        assert "secret" not in answer.text
                    if isinstance(error, errors.DatabaseError):
                        assert outcome(await client.get("/api/states")) == (status, True)


async def test_an_unreachable_database_is_reported_without_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = connect("postgresql://ada@127.0.0.1:59999/jobs")
    app: Starlette = create_app(driver, no_auth=True)
    async with browser(app) as client:
        paths = "/api/jobs /api/jobs/1 /api/states /api/features /jobs /about /queues"
        for path in paths.split():
            answer = await client.get(path)
            assert answer.status_code == 503, path
            assert "The database cannot be reached" in answer.text, path
            assert not re.search(r"127\.0\.0\.1|59999", answer.text), path
    assert "59999" in caplog.text
    await app.state.dashboard.close()
    await driver.close()


def words_of_river_ui() -> list[tuple[str, str, dict[str, Any] | None, int, str]]:
    """Return method, address, body, status and message, as River UI v0.22.0 gives them."""
    retry = (
        "Job can't be retried because another active job has the same unique properties. "
        "Wait for it to finish or delete it before retrying."
    )
    return [
        ("GET", "jobs/99999", None, 404, "Job not found: 99999."),
        ("POST", "jobs/cancel", {"ids": [99999]}, 404, "Job not found: 99999."),
        ("POST", "jobs/retry", {"ids": ["99999"]}, 404, "Job not found: 99999."),
        ("POST", "jobs/delete", {"ids": ["99999"]}, 404, "Job not found: 99999."),
        (
            "POST",
            "jobs/delete",
            {"ids": [1]},
            400,
            "Job 1 is running and can't be deleted until it finishes.",
        ),
        ("POST", "jobs/retry", {"ids": [2]}, 409, retry),
        ("GET", "queues/nowhere", None, 404, "Queue not found: nowhere."),
        ("PUT", "queues/nowhere/pause", None, 404, "Queue not found: nowhere."),
        ("PUT", "queues/nowhere/resume", None, 404, "Queue not found: nowhere."),
        ("PATCH", "queues/nowhere", {"concurrency": None}, 404, "Queue not found: nowhere."),
        (
            "GET",
            "autocomplete?facet=x",
            None,
            400,
            'Invalid facet "x". Valid facets are: job_kind, queue_name',
        ),
        (
            "GET",
            "pro/workflows",
            None,
            400,
            "Workflow queries require River Pro migrations version 6 or newer.",
        ),
    ]


async def test_errors_have_river_uis_words(api: httpx2.AsyncClient, connection: Connection) -> None:
    unique: dict[str, Any] = {"unique_key": b"same", "unique_states": "11110101"}
    await factory.job(connection, "running")
    await factory.job(connection, "discarded", **unique)
    await factory.job(connection, "available", **unique)
    with cases() as case:
        for method, path, body, status, words in words_of_river_ui():
            with case((method, path, body)):
                answer = await (
                    api.request(method, path)
                    if body is None
                    else api.request(method, path, json=body)
                )
                assert (answer.status_code, answer.json()) == (status, {"message": words})
                assert answer.headers["content-type"] == "application/json; charset=utf-8"
