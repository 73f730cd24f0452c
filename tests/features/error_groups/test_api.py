"""The API of failed jobs by error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection

from riverui.storage.interface import Driver
from tests.demo_errors import PYTHON_TRACE
from tests.factory import attempt_error, job
from tests.features.error_groups.test_section import REFUSED, dashboard_limits, failed
from tests.features.operations.test_api import ended, states
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate

__all__ = ["dashboard_limits"]

Connection = AsyncConnection[dict[str, Any]]


@pytest.fixture
async def kept(driver: Driver, own_tables: None) -> Driver:
    return driver


async def test_the_list(get: Get, connection: Connection) -> None:
    assert await get("errors") == {
        "data": [], "groups": 0, "looked_at": 0, "more": False, "complete": True,
        "remembered": False,
    }  # fmt: skip
    ids = [await failed(connection, minutes=n, kind=f"kind_{n}") for n in (1, 70, 2_000)]
    await failed(connection, "NoStock: 7", trace=PYTHON_TRACE, minutes=3, queue="other")
    assert [row["jobs"] for row in (await get("errors"))["data"]] == [1, 3]
    found = await get("errors", order="last")
    validate("ErrorGroups", found)
    refused, stock = found["data"]
    assert refused["fingerprint"] == REFUSED
    assert (refused["type"], refused["message"]) == (
        "",
        "dial tcp <ip>: connect: connection refused",
    )
    assert (refused["jobs"], refused["last_hour"], refused["last_day"]) == (3, 1, 2)
    assert refused["job_ids"] == ids
    assert refused["kinds"] == {"kind_1": 1, "kind_70": 1, "kind_2000": 1}
    assert (refused["seen"], refused["decision"]) == (None, None)
    assert (stock["type"], stock["frames"]) == (
        "NoStock",
        ["orders.py in work", "stock.py in take"],
    )
    assert [row["message"] for row in (await get("errors", queue="other"))["data"]] == ["<number>"]
    assert len((await get("errors", limit=1))["data"]) == 1
    assert (await get("errors", limit=1))["groups"] == 2
    one = await get(f"errors/{REFUSED}")
    validate("ErrorGroupAnswer", one)
    assert one["error"] == refused


async def test_what_makes_no_sense(
    api: httpx2.AsyncClient, get: Get, kept: Driver, connection: Connection
) -> None:
    await failed(connection)
    for given in ({"order": "best"}, {"state": "dead"}, {"limit": "x"}, {"colour": "red"}):
        assert (await get("errors", 400, **given))["message"]
    for odd in ("fp1:0000000000000000", "nonsense"):
        assert (await get(f"errors/{odd}", 404))["message"].startswith("Error not found.")
    wrong = [
        ("ignore", {"until": "soon"}, "`until`"),
        ("ignore", {"until": 5}, "`until`"),
        ("ignore", {"until": "1h"}, "`until`"),
        ("ignore", {"rate": 0}, "`rate`"),
        ("ignore", {"total": 2**41}, "`total`"),
        ("resolve", {"release": "x" * 101}, "`release`"),
        ("resolve", {"release": "a\0b"}, "release"),
        ("unresolve", {"reason": ["x"]}, "`reason`"),
    ]
    for verb, body, message in wrong:
        answer = await api.post(f"errors/{REFUSED}/{verb}", json=body)
        assert answer.status_code == 400, body
        assert message in answer.json()["message"]
    answer = await api.post("errors/fp1:0000000000000000/resolve", json={})
    assert answer.status_code == 404


async def test_decisions(
    api: httpx2.AsyncClient, get: Get, kept: Driver, connection: Connection
) -> None:
    await failed(connection, metadata={"riverui:release": "v1"})

    async def post(verb: str, **body: Any) -> Any:
        answer = await api.post(f"errors/{REFUSED}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        validate("ErrorGroupAnswer", answer.json())
        return answer.json()["error"]

    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    ignored = await post("ignore", until=until, rate=50, total=None, reason="vendor")
    assert (ignored["state"], ignored["seen"]) == ("ignored", 1)
    decision = ignored["decision"]
    assert (decision["state"], decision["rate"], decision["total"]) == ("ignored", 50, None)
    assert (decision["reason"], decision["until"][:16]) == ("vendor", until[:16])
    assert (await get("errors"))["data"] == []
    assert len((await get("errors", state="ignored"))["data"]) == 1
    resolved = await post("resolve", release="v2")
    assert (resolved["state"], resolved["decision"]["release"]) == ("resolved", "v2")
    await failed(connection, minutes=-0.1)
    (back,) = (await get("errors"))["data"]
    assert back["state"] == "unresolved"
    assert back["regressed_at"]
    again = await post("unresolve")
    assert (again["state"], again["regressed_at"]) == ("unresolved", None)


async def test_a_group_is_retried(
    api: httpx2.AsyncClient, get: Get, connection: Connection, reader: httpx2.AsyncClient
) -> None:
    ids = [await failed(connection, state=state) for state in ("discarded", "retryable")]
    other = await failed(connection, "another")
    path = f"errors/{REFUSED}/retry"
    assert (await reader.post(f"/api/{path}", json={})).status_code == 403
    for body in ({"canary": 0}, {"per_minute": "fast"}, {"stop_failing": 101}):
        assert (await api.post(path, json=body)).status_code == 400
    answer = await api.post(path, json={"per_minute": 100_000})
    assert answer.status_code == 202
    validate("OperationAnswer", answer.json())
    begun = answer.json()["operation"]
    assert (begun["verb"], begun["total"], begun["pace"]) == ("retry", 2, {"per_minute": 100_000})
    found = await ended(api, begun["id"])
    assert (found["status"], found["changed"]) == ("done", 2)
    assert await states(connection) == dict.fromkeys(ids, "available") | {other: "discarded"}
    assert (await api.post(path, json={})).status_code == 404


async def test_without_the_table(
    api: httpx2.AsyncClient, connection: Connection, reader: httpx2.AsyncClient
) -> None:
    await job(connection, "retryable", errors=[attempt_error(error="any")])
    (found,) = (await api.get("errors")).json()["data"]
    answer = await api.post(f"errors/{found['fingerprint']}/resolve", json={})
    assert answer.status_code == 400
    assert "the tables of riverui" in answer.json()["message"]
    answer = await reader.post(f"/api/errors/{found['fingerprint']}/resolve", json={})
    assert answer.status_code == 403
