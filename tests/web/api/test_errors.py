"""Whatever goes wrong under /api is told as JSON with a message."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import errors
from riverui.web.app import create_app
from tests import factory
from tests.web.stand_ins import DeadDriver, browser

Connection = AsyncConnection[dict[str, Any]]


def told(answer: httpx2.Response) -> tuple[int, bool]:
    """The status, and whether it is JSON with nothing but a message."""
    json = answer.headers["content-type"].startswith("application/json")
    return answer.status_code, json and list(answer.json()) == ["message"] and bool(answer.json()["message"])


@pytest.mark.parametrize("path", ["nothing", "jobs/1/2", "queue", "jobs/", "pro", "health-checks"])
async def test_unknown_addresses(api: httpx2.AsyncClient, path: str) -> None:
    for method in ("POST", "PUT"):
        assert told(await api.request(method, path)) == (404, True)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "jobs", "GET, HEAD"),
        ("DELETE", "jobs/7", "GET, HEAD"),
        ("POST", "queues/default", "GET, HEAD, PATCH"),
        ("POST", "queues/default/pause", "GET, HEAD, PATCH, PUT"),
        ("PUT", "jobs/cancel", "GET, HEAD, POST"),
        ("OPTIONS", "states", "GET, HEAD"),
    ],
)
async def test_wrong_methods(api: httpx2.AsyncClient, method: str, path: str, allowed: str) -> None:
    answer = await api.request(method, path)
    assert told(answer) == (405, True)
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", ""]
)
async def test_what_browsers_may_send_across_origins_is_no_body(
    api: httpx2.AsyncClient, connection: Connection, kind: str
) -> None:
    job_id = await factory.job(connection)
    await factory.queue(connection)
    for method, path in (
        ("POST", "jobs/delete"),
        ("PUT", "queues/default/pause"),
        ("PATCH", "queues/default"),
    ):
        body = f'{{"ids": [{job_id}]}}'.encode()
        answer = await api.request(method, path, content=body, headers={"Content-Type": kind})
        assert told(answer) == (415, True)
    found = await connection.execute(
        "select (select count(*) from river_job) as jobs, (select paused_at from river_queue) as paused_at"
    )
    assert await found.fetchone() == {"jobs": 1, "paused_at": None}


async def test_json_may_name_its_charset(api: httpx2.AsyncClient, connection: Connection) -> None:
    job_id = await factory.job(connection)
    answer = await api.post(
        "jobs/cancel",
        content=f'{{"ids":[{job_id}]}}',
        headers={"Content-Type": "Application/JSON; charset=utf-8"},
    )
    assert answer.status_code == 200


async def test_a_body_has_its_bounds(api: httpx2.AsyncClient) -> None:
    answer = await api.post("jobs/cancel", json={"ids": [1], "more": "x" * 1024 * 1024})
    assert told(answer) == (413, True)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.DatabaseUnavailable(), 503),
        (errors.QueryTimeout(), 503),
        (errors.PermissionDenied(), 503),
        (errors.SchemaMissing(), 503),
        (RuntimeError("secret"), 500),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_database_in_trouble(error: Exception, status: int) -> None:
    app: Starlette = create_app(DeadDriver(error), no_auth=True)
    async with browser(app) as client:
        for path in ("jobs", "jobs/1", "queues", "queues/x", "features", "autocomplete?facet=job_kind"):
            answer = await client.get(f"/api/{path}")
            assert told(answer) == (status, True), path
            assert "secret" not in answer.text
        if isinstance(error, errors.DatabaseError):
            assert told(await client.get("/api/states")) == (status, True)
