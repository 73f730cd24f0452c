"""Jobs as River UI's API gives and changes them: names, types, order, limits, all or none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection

from riverui import create_app
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests import factory
from tests.cases import cases
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate
from tests.web.stand_ins import browser

Connection = AsyncConnection[dict[str, Any]]
AT = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)
MINIMAL = [
    *(
        "id",
        "args",
        "attempt",
        "attempted_at",
        "attempted_by",
        "created_at",
        "finalized_at",
        "kind",
    ),
    *("max_attempts", "priority", "queue", "scheduled_at", "state", "tags"),
]


async def ids(get: Get, **params: Any) -> list[int]:
    return [row["id"] for row in (await get("jobs", **params))["data"]]


async def states(connection: Connection) -> dict[int, str]:
    rows = await (await connection.execute("select id, state::text from river_job")).fetchall()
    return {row["id"]: row["state"] for row in rows}


async def test_a_listed_job_has_river_uis_fields_and_types(
    get: Get, connection: Connection
) -> None:
    args = '{"id": 1970670598291982290, "max": 9223372036854775807, "amount": 1.10}'
    job_id = await factory.job(
        connection,
        "running",
        args=args,
        attempted_at=AT + timedelta(microseconds=120_000),
        attempted_by=["first", "second"],
        created_at=AT,
        scheduled_at=AT + timedelta(microseconds=1),
        tags=["a", "b"],
        metadata={"unseen": True},
    )
    (found,) = (await get("jobs"))["data"]
    assert list(found) == MINIMAL
    assert json.loads(found.pop("args"))["amount"] == 1.1
    assert found == {
        "id": job_id,
        "attempt": 1,
        "attempted_at": "2026-11-21T09:00:00.12Z",
        "attempted_by": ["first", "second"],
        "created_at": "2026-11-21T09:00:00Z",
        "finalized_at": None,
        "kind": "test_kind",
        "max_attempts": 25,
        "priority": 1,
        "queue": "default",
        "scheduled_at": "2026-11-21T09:00:00.000001Z",
        "state": "running",
        "tags": ["a", "b"],
    }


async def test_args_are_text_in_which_every_digit_stands(get: Get, connection: Connection) -> None:
    await factory.job(connection, "running", args='{"n": 1970670598291982290, "amount": 1.10}')
    (found,) = (await get("jobs"))["data"]
    assert "1970670598291982290" in found["args"]
    assert "1.10" in found["args"]


async def test_one_job_has_errors_and_metadata_besides(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    errors = [
        factory.attempt_error(
            1, "first", at="2026-11-21T09:00:00.123456789+02:00", trace="main.go:7"
        ),
        {"attempt": 2, "error": "no time"},
        "not an error at all",
    ]
    job_id = await factory.job(
        connection, "retryable", errors=errors, metadata='{"n": 1.10, "deep": {"a": [1]}}'
    )
    answer = await api.get(f"jobs/{job_id}")
    found = answer.json()
    assert list(found) == [*MINIMAL, "errors", "metadata"]
    assert found["errors"] == [
        {
            "at": "2026-11-21T09:00:00.123456789+02:00",
            "attempt": 1,
            "error": "first",
            "trace": "main.go:7",
        },
        {"at": "0001-01-01T00:00:00Z", "attempt": 2, "error": "no time", "trace": ""},
        {"at": "0001-01-01T00:00:00Z", "attempt": 0, "error": '"not an error at all"', "trace": ""},
    ]
    assert found["metadata"] == {"n": 1.1, "deep": {"a": [1]}}
    assert '"n": 1.10' in answer.text
    fresh = await factory.job(connection, attempted_by=None)
    found = (await api.get(f"jobs/{fresh}")).json()
    assert (found["errors"], found["attempted_by"], found["attempted_at"]) == ([], [], None)


async def test_a_job_that_is_not_there(get: Get) -> None:
    with cases() as case:
        for job_id, status in (
            ("123", 404),
            ("-5", 404),
            ("0", 400),
            ("x", 400),
            ("9223372036854775808", 400),
            ("cancel", 400),
            ("1.5", 400),
        ):
            with case((job_id, status)):
                assert (await get(f"jobs/{job_id}", status))["message"]


async def test_the_list_is_of_running_jobs_unless_a_state_is_named(
    get: Get, connection: Connection
) -> None:
    late = await factory.job(connection, "running", attempted_at=AT)
    early = await factory.job(connection, "running", attempted_at=AT - timedelta(minutes=1))
    pending = await factory.job(connection, "pending")
    assert await ids(get) == [early, late]
    assert await ids(get, state="running") == [late, early]
    assert await ids(get, state="pending") == [pending]
    assert await ids(get, state="scheduled") == []


async def test_ended_jobs_come_latest_first(get: Get, connection: Connection) -> None:
    with cases() as case:
        for state in ("cancelled", "completed", "discarded"):
            with case(state):
                late = await factory.job(connection, state, finalized_at=AT)
                early = await factory.job(connection, state, finalized_at=AT - timedelta(minutes=1))
                latest = await factory.job(connection, state, finalized_at=AT)
                assert await ids(get, state=state) == [latest, late, early]


async def test_waiting_jobs_come_by_id(get: Get, connection: Connection) -> None:
    with cases() as case:
        for state in ("available", "pending", "retryable", "scheduled"):
            with case(state):
                made = [
                    await factory.job(
                        connection, state, scheduled_at=AT - timedelta(minutes=n), queue=f"q{n % 2}"
                    )
                    for n in range(3)
                ]
                assert await ids(get, state=state) == made


async def test_each_filter_takes_any_of_its_values(get: Get, connection: Connection) -> None:
    a = await factory.job(connection, kind="a", queue="x", priority=1, tags=["red", "Big"])
    b = await factory.job(connection, kind="b", queue="y", priority=2, tags=["blue"])
    c = await factory.job(connection, kind="c", queue="z", priority=3)

    async def found(**params: Any) -> list[int]:
        return await ids(get, state="available", **params)

    assert await found(kinds=["a", "b"]) == [a, b]
    assert await found(kinds="A") == []
    assert await found(queues=["z", "x"]) == [a, c]
    assert await found(priorities=["2", "3"]) == [b, c]
    assert await found(priorities="nonsense") == []
    assert await found(tags=["red", "blue"]) == [a, b]
    assert await found(tags="big") == []
    assert await found(ids=[str(c), str(a), "nonsense"]) == [a, c]
    assert await found(kinds="a,b") == []
    assert await found(ids=str(a), kinds="b") == []


async def test_limits(get: Get, connection: Connection) -> None:
    made = [await factory.job(connection) for _ in range(22)]
    assert await ids(get, state="available") == made[:20]
    assert await ids(get, state="available", limit=1) == made[:1]
    assert await ids(get, state="available", limit=1000) == made
    assert await ids(get, state="available", limit="") == made[:20]
    assert await ids(get, state="available", limit=0) == []
    for limit in ("1001", "-1", "x", "1.5", "99999999999999999999"):
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


async def test_a_state_that_is_none(get: Get) -> None:
    assert "available" in (await get("jobs", 400, state="Available"))["message"]
    await get("jobs", state="")


async def test_a_filter_that_no_index_serves_is_searched_to_the_end(
    driver: Driver, connection: Connection
) -> None:
    oldest = await factory.job(connection, "completed", tags=["rare"], finalized_at=AT)
    for _ in range(30):
        await factory.job(connection, "completed")
    newest = await factory.job(connection, "completed", tags=["rare"])
    config = DashboardConfig(search_window=5)
    async with browser(create_app(driver, no_auth=True, config=config)) as client:
        answer = await client.get("/api/jobs?state=completed&tags=rare")
    assert [row["id"] for row in answer.json()["data"]] == [newest, oldest]


async def test_a_verb_on_several_jobs(api: httpx2.AsyncClient, connection: Connection) -> None:
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
                await connection.execute("delete from river_job")
                made = [await factory.job(connection, before) for _ in range(2)]
                for body in ({"ids": [str(made[0]), made[1]]}, {"ids": made, "unknown": 1}):
                    answer = await api.post(f"jobs/{verb}", json=body)
                    if verb == "delete" and body["ids"] == made:
                        assert answer.status_code == 404
                    else:
                        assert (answer.status_code, answer.text) == (200, '{"status":"ok"}')
                assert await states(connection) == (
                    {} if after is None else dict.fromkeys(made, after)
                )


async def test_a_job_that_is_missing_keeps_the_others_as_they_were(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    with cases() as case:
        for verb in ("cancel", "delete", "retry"):
            with case(verb):
                await connection.execute("delete from river_job")
                made = await factory.job(
                    connection, "discarded" if verb == "retry" else "available"
                )
                before = await states(connection)
                answer = await api.post(f"jobs/{verb}", json={"ids": [made, made + 1]})
                assert answer.status_code == 404
                assert str(made + 1) in answer.json()["message"]
                assert await states(connection) == before


async def test_a_running_job_is_not_deleted_nor_are_the_others(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    idle, running = await factory.job(connection), await factory.job(connection, "running")
    answer = await api.post("jobs/delete", json={"ids": [idle, running]})
    assert answer.status_code == 400
    assert f"Job {running} is running" in answer.json()["message"]
    assert set(await states(connection)) == {idle, running}


async def test_in_part_what_can_be_done_is_done_and_each_job_is_told(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    idle, running = await factory.job(connection), await factory.job(connection, "running")
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
    assert set(await states(connection)) == {running}
    for body in ({"ids": [running], "partial": 1}, {"query": "", "partial": True}):
        answer = await api.post("jobs/cancel", json=body)
        assert answer.status_code == 400
        assert "`partial`" in answer.json()["message"]


async def test_a_retry_that_meets_its_unique_twin_is_a_conflict(
    api: httpx2.AsyncClient, connection: Connection
) -> None:
    unique: dict[str, Any] = {"unique_key": b"key", "unique_states": "11110101"}
    free = await factory.job(connection, "discarded")
    taken = await factory.job(connection, "discarded", **unique)
    await factory.job(connection, **unique)
    answer = await api.post("jobs/retry", json={"ids": [free, taken]})
    assert answer.status_code == 409
    assert "unique" in answer.json()["message"]
    assert (await states(connection))[free] == "discarded"


async def test_bodies_that_name_no_jobs(api: httpx2.AsyncClient) -> None:
    with cases() as case:
        for body in (
            "",
            "{}",
            "null",
            '{"ids": null}',
            '{"ids": []}',
            '{"ids": "1"}',
            '{"ids": [true]}',
            '{"ids": [1.5]}',
            '{"ids": ["x"]}',
            '{"ids": [" 1"]}',
            '{"ids": [9223372036854775808]}',
            '{"ids": [null]}',
            '{"ids": [[1]]}',
            "[1]",
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


async def test_a_thousand_jobs_at_once(api: httpx2.AsyncClient, connection: Connection) -> None:
    await connection.execute(
        "insert into river_job (args, kind, max_attempts, state)"
        " select '{}', 'k', 25, 'available' from generate_series(1, 1000)"
    )
    found = await states(connection)
    answer = await api.post("jobs/cancel", json={"ids": [str(job_id) for job_id in found]})
    assert answer.status_code == 200
    assert set((await states(connection)).values()) == {"cancelled"}
