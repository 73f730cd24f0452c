"""Jobs as River UI's API gives and changes them: names, types, order, limits, all or none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui import create_app
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.cases import cases
from tests.factory import Make
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate
from tests.web.stand_ins import browser

Connection = AsyncConnection[dict[str, Any]]
AT = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)


async def ids(get: Get, **params: Any) -> list[int]:
    return [row["id"] for row in (await get("jobs", **params))["data"]]


async def test_errors_that_no_client_writes_have_the_same_fields(get: Get, make: Make) -> None:
    """Of jobs as River's clients write them, the recorded answers tell: test_recorded.py."""
    errors = [{"attempt": 2, "error": "no time"}, "not an error at all"]
    job_id = await make.job("retryable", errors=errors)
    assert (await get(f"jobs/{job_id}"))["errors"] == [
        {"at": "0001-01-01T00:00:00Z", "attempt": 2, "error": "no time", "trace": ""},
        {"at": "0001-01-01T00:00:00Z", "attempt": 0, "error": '"not an error at all"', "trace": ""},
    ]
    fresh = await get(f"jobs/{await make.job(attempted_by=None)}")
    assert (fresh["errors"], fresh["attempted_by"], fresh["attempted_at"]) == ([], [], None)


async def test_limits(get: Get, make: Make) -> None:
    made = [await make.job() for _ in range(22)]
    assert await ids(get, state="available") == made[:20]
    assert await ids(get, state="available", limit=1000) == made
    assert await ids(get, state="available", limit=0) == []
    for limit in ("1.5", "99999999999999999999"):
        assert "limit" in (await get("jobs", 400, limit=limit))["message"]


async def test_filters_have_their_bounds(get: Get) -> None:
    with cases() as case:
        for name, most in (
            ("ids", 1000),
            ("kinds", 100),
            ("queues", 100),
            ("tags", 100),
            ("priorities", 10),
        ):
            with case(name):
                await get("jobs", **{name: ["1"] * most})
                assert name in (await get("jobs", 400, **{name: ["1"] * (most + 1)}))["message"]


async def test_unindexed_filters_search_to_the_end(driver: Driver, make: Make) -> None:
    oldest = await make.job("completed", tags=["rare"], finalized_at=AT)
    for _ in range(30):
        await make.job("completed")
    newest = await make.job("completed", tags=["rare"])
    config = DashboardConfig(search_window=5)
    async with browser(create_app(driver, no_auth=True, config=config)) as client:
        answer = await client.get("/api/jobs?state=completed&tags=rare")
    assert [row["id"] for row in answer.json()["data"]] == [newest, oldest]


async def test_a_verb_on_several_jobs(api: AsyncClient, make: Make) -> None:
    with cases() as case:
        for verb, before, after in (
            ("cancel", "available", "cancelled"),
            ("cancel", "running", "running"),
            ("cancel", "completed", "completed"),
            ("retry", "discarded", "available"),
            ("retry", "running", "running"),
            ("delete", "discarded", None),
        ):
            with case((verb, before, after)):
                await make.execute("delete from river_job")
                made = [await make.job(before) for _ in range(2)]
                for body in ({"ids": [str(made[0]), made[1]]}, {"ids": made, "unknown": 1}):
                    answer = await api.post(f"jobs/{verb}", json=body)
                    if verb == "delete" and body["ids"] == made:
                        assert answer.status_code == 404
                    else:
                        assert (answer.status_code, answer.text) == (200, '{"status":"ok"}')
                assert await make.states() == ({} if after is None else dict.fromkeys(made, after))


async def test_a_missing_job_keeps_the_others_unchanged(api: AsyncClient, make: Make) -> None:
    with cases() as case:
        for verb in ("cancel", "delete", "retry"):
            with case(verb):
                await make.execute("delete from river_job")
                made = await make.job("discarded" if verb == "retry" else "available")
                before = await make.states()
                answer = await api.post(f"jobs/{verb}", json={"ids": [made, made + 1]})
                assert answer.status_code == 404
                assert str(made + 1) in answer.json()["message"]
                assert await make.states() == before


async def test_a_running_job_is_not_deleted(api: AsyncClient, make: Make) -> None:
    idle, running = await make.job(), await make.job("running")
    answer = await api.post("jobs/delete", json={"ids": [idle, running]})
    assert answer.status_code == 400
    assert f"Job {running} is running" in answer.json()["message"]
    assert set(await make.states()) == {idle, running}


async def test_partial_changes_report_each_job(api: AsyncClient, make: Make) -> None:
    idle, running = await make.job(), await make.job("running")
    asked: dict[str, Any] = {"ids": [idle, running, 77], "partial": True}
    skipped = [{"id": 77, "reason": "not_found"}]
    answer = await api.post("jobs/cancel", json=asked)
    assert answer.status_code == 200
    validate("JobsDone", answer.json())
    assert answer.json() == {
        "status": "ok",
        "changed": [idle],
        "requested": [running],
        "skipped": skipped,
    }
    answer = await api.post("jobs/delete", json=asked)
    assert answer.json()["changed"] == [idle]
    assert answer.json()["skipped"] == [{"id": running, "reason": "running"}, *skipped]
    assert set(await make.states()) == {running}
    for body in ({"ids": [running], "partial": 1}, {"query": "", "partial": True}):
        answer = await api.post("jobs/cancel", json=body)
        assert answer.status_code == 400
        assert "`partial`" in answer.json()["message"]


async def test_a_retry_may_be_a_unique_conflict(api: AsyncClient, make: Make) -> None:
    unique: dict[str, Any] = {"unique_key": b"key", "unique_states": "11110101"}
    free = await make.job("discarded")
    taken = await make.job("discarded", **unique)
    await make.job(**unique)
    answer = await api.post("jobs/retry", json={"ids": [free, taken]})
    assert answer.status_code == 409
    assert "unique" in answer.json()["message"]
    assert (await make.states())[free] == "discarded"


async def test_bodies_that_name_no_jobs(api: AsyncClient) -> None:
    with cases() as case:
        for body in (
            "",
            "null",
            '{"ids": [9223372036854775808]}',
            '{"ids": [null]}',
            '{"ids": [[1]]}',
            "7",
            '{"ids": [NaN]}',
            '{"ids": [1]',
            "[" * 100_000,
            "\xff",
            json.dumps({"ids": list(range(1001))}),
        ):
            with case(body[:40]):
                for verb in ("cancel", "delete", "retry"):
                    answer = await api.post(
                        f"jobs/{verb}",
                        content=body.encode("latin-1"),
                        headers={"Content-Type": "application/json"},
                    )
                    assert answer.status_code == 400, body[:40]
                    assert answer.json()["message"]
