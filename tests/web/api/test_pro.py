"""River Pro's paths, with its tables as far as they are known from outside, and without them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from tests.cases import cases
from tests.factory import Make
from tests.pro_tables import PRO_TABLES
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate

Connection = AsyncConnection[dict[str, Any]]
NOW = datetime.now(UTC)

PATHS = [
    ("GET", "periodic-jobs"),
    ("GET", "producers?queue_name=default"),
    ("GET", "workflows"),
    ("GET", "workflows/w"),
    ("POST", "workflows/w/cancel"),
    ("POST", "workflows/w/retry"),
    ("GET", "workflows/w/task-signals?task_name=a"),
    ("GET", "workflows/w/task-wait-diagnostics?task_name=a"),
]


@pytest.fixture
async def pro(make: Make) -> Make:
    """Make River Pro's tables; return what writes rows to them."""
    await make.execute(PRO_TABLES)
    return make


async def task(
    make: Make,
    name: str,
    state: str = "available",
    *deps: str,
    workflow: str = "w",
    **more: Any,
) -> int:
    """Return one task of a workflow."""
    metadata = {
        "workflow_id": workflow,
        "task": name,
        "deps": list(deps),
        **more.pop("metadata", {}),
    }
    return await make.job(state, metadata=metadata, **more)


async def test_without_its_tables_each_path_says_so(api: AsyncClient, make: Make) -> None:
    with cases() as case:
        for method, path in PATHS:
            with case((method, path)):
                answer = await api.request(method, f"pro/{path}")
                assert answer.status_code == 400
                assert re.search("River Pro('s)? migrations", answer.json()["message"])


async def test_periodic_jobs_that_are_kept_up(get: Get, pro: Make) -> None:
    await pro.execute(
        "insert into river_periodic_job values ('b', %(now)s, %(now)s, %(now)s),"
        " ('a', %(now)s, %(now)s, %(now)s), ('stale', %(old)s, %(old)s, %(old)s)",
        {"now": NOW, "old": NOW - timedelta(days=2)},
    )
    found = await get("pro/periodic-jobs")
    validate("PeriodicJobs", found)
    assert [row["id"] for row in found["data"]] == ["a", "b"]
    assert len((await get("pro/periodic-jobs", limit=1))["data"]) == 1
    await get("pro/periodic-jobs", 400, limit="x")


async def test_producers_of_a_queue(get: Get, pro: Make) -> None:
    await pro.execute(
        "insert into river_producer (client_id, queue_name, max_workers, metadata) values ('one',"
        " 'default', 10, %s), ('two', 'default', 20, '{}'), ('other', 'mail', 1, '{}')",
        ['{"concurrency": {"global_limit": 5, "running": {"a": 2, "b": {"count": 3}}}}'],
    )
    found = await get("pro/producers", queue_name="default")
    validate("Producers", found)
    one, two = found["data"]
    assert (one["client_id"], one["max_workers"], one["running"]) == ("one", 10, 5)
    assert one["concurrency"]["global_limit"] == 5
    assert two["concurrency"] == {
        "global_limit": 0,
        "local_limit": 0,
        "partition": {"by_args": None, "by_kind": False},
    }
    await get("pro/producers", 400)


async def test_workflows_with_their_tasks_counted(get: Get, pro: Make) -> None:
    await pro.execute(
        "insert into river_workflow values ('w1', 'first', 1), ('w2', null, 1), ('w3', 'empty', 1)"
    )
    await task(pro, "a", "completed", workflow="w1", created_at=NOW)
    await task(pro, "b", "pending", "a", workflow="w1")
    await task(
        pro,
        "a",
        "cancelled",
        workflow="w2",
        metadata={"workflow_deps_failed_at": "2026-11-21T09:00:00Z"},
    )
    found = await get("pro/workflows")
    validate("Workflows", found)
    assert [row["id"] for row in found["data"]] == ["w3", "w2", "w1"]
    last = found["data"][2]
    assert (last["name"], last["count_completed"], last["count_pending"]) == ("first", 1, 1)
    assert (found["data"][1]["count_failed_deps"], found["data"][1]["name"]) == (1, None)

    async def listed(**params: Any) -> list[str]:
        return [row["id"] for row in (await get("pro/workflows", **params))["data"]]

    assert await listed(state="active") == ["w1"]
    assert await listed(state="inactive") == ["w3", "w2"]
    assert await listed(after="w2") == ["w1"]
    assert await listed(limit=1) == ["w3"]
    await get("pro/workflows", 400, state="running")


WAIT = {
    "expr": "approved || late",
    "terms": [
        {
            "name": "approved",
            "kind": "signal",
            "label": "Approved",
            "signal_key": "approval",
            "expr": "true",
        },
        {
            "name": "late",
            "kind": "timer",
            "label": "Too late",
            "timer": {
                "name": "late",
                "after_us": 1_800_000_000,
                "anchor": {"kind": "workflow_created_at"},
            },
        },
    ],
}
WAITING = {
    "started_at": "2026-11-21T09:00:00Z",
    "timers": {"late": {"fire_at": "2026-11-21T09:30:00Z"}},
}


async def test_a_workflow_with_what_its_tasks_wait_for(get: Get, pro: Make) -> None:
    await pro.execute("insert into river_workflow values ('w', 'import', 1)")
    first = await task(pro, "first", "completed", args='{"n": 1970670598291982290}')
    waits = {"river:workflow_wait": WAIT, "river:workflow_wait_state": WAITING}
    await task(pro, "second", "pending", "first", metadata=waits)
    await task(pro, "third", "pending", "second")
    found = await get("pro/workflows/w")
    validate("Workflow", found)
    assert (found["id"], found["name"], len(found["tasks"])) == ("w", "import", 3)
    one, two, three = found["tasks"]
    assert (one["id"], one["name"], one["wait_reason"], one["deps"]) == (first, "first", "none", [])
    assert "1970670598291982290" in one["args"]
    assert "wait" not in one
    assert (two["wait_reason"], three["wait_reason"]) == ("wait", "dependencies")
    assert (two["wait"]["phase"], two["wait"]["expr_cel"]) == ("waiting", "approved || late")
    assert [term["name"] for term in two["wait"]["terms"]] == ["approved", "late"]
    assert two["wait"]["inputs"]["signals"] == [{"key": "approval"}]
    (timer,) = two["wait"]["inputs"]["timers"]
    assert (timer["after_seconds"], timer["fire_at"]) == (1800, "2026-11-21T09:30:00Z")
    await get("pro/workflows/nowhere", 404)


async def test_cancelling_a_workflow(api: AsyncClient, pro: Make) -> None:
    done, waiting = await task(pro, "a", "completed"), await task(pro, "b", "pending", "a")
    running, other = await task(pro, "c", "running"), await task(pro, "a", workflow="other")
    answer = await api.post("pro/workflows/w/cancel")
    validate("Cancelled", answer.json())
    assert [row["id"] for row in answer.json()["cancelled_jobs"]] == [waiting, running]
    assert await pro.states() == {
        done: "completed",
        waiting: "cancelled",
        running: "running",
        other: "available",
    }
    assert (await api.post("pro/workflows/w/cancel")).json()["cancelled_jobs"][0]["id"] == running
    assert (await api.post("pro/workflows/nowhere/cancel")).json() == {"cancelled_jobs": []}


async def test_retrying_a_workflow(api: AsyncClient, pro: Make) -> None:
    with cases() as case:
        for mode, after in (
            (None, ["available", "pending", "pending", "running"]),
            ("all", ["available", "pending", "pending", "running"]),
            ("failed_only", ["completed", "available", "completed", "running"]),
            ("failed_and_downstream", ["completed", "available", "pending", "running"]),
        ):
            with case(mode):
                await pro.execute("delete from river_job")
                made = [
                    await task(pro, "a", "completed"),
                    await task(pro, "b", "discarded", "a"),
                    await task(pro, "c", "completed", "b"),
                    await task(pro, "d", "running"),
                ]
                before = await pro.states()
                answer = await api.post(
                    "pro/workflows/w/retry", json={} if mode is None else {"mode": mode}
                )
                assert answer.status_code == 200, answer.text
                validate("Retried", answer.json())
                found = await pro.states()
                assert [found[job_id] for job_id in made] == after
                changed = [job_id for job_id in made if found[job_id] != before[job_id]]
                assert [row["id"] for row in answer.json()["retried_jobs"]] == changed


async def test_a_retry_may_forget_what_was(api: AsyncClient, pro: Make) -> None:
    await task(pro, "a", "discarded", attempt=2, max_attempts=5)
    (kept,) = (await api.post("pro/workflows/w/retry", json={})).json()["retried_jobs"]
    assert (kept["attempt"], kept["max_attempts"]) == (2, 6)
    await task(pro, "a", "discarded", workflow="v", attempt=2, max_attempts=5)
    (reset,) = (await api.post("pro/workflows/v/retry", json={"reset_history": True})).json()[
        "retried_jobs"
    ]
    assert (reset["attempt"], reset["max_attempts"]) == (0, 5)
    for body in ({"mode": "some"}, {"mode": 7}, {"reset_history": "yes"}):
        assert (await api.post("pro/workflows/v/retry", json=body)).status_code == 400


async def test_the_signals_of_a_task(get: Get, pro: Make) -> None:
    await pro.execute("insert into river_workflow values ('w', 'import', 2)")
    await pro.execute(
        "insert into river_workflow_signal (workflow_id, attempt, key, payload) values"
        " ('w', 1, 'approval', '1'), ('w', 2, 'approval', '2'), ('w', 2, 'other', '3'),"
        " ('w', 2, 'approval', '4')"
    )
    resolved = {
        "started_at": "2026-11-21T09:00:00Z",
        "resolved_at": "2026-11-21T09:10:00Z",
        "result": {
            "as_of": "2026-11-21T09:10:00Z",
            "attempt": 2,
            "signals": {"approval": {"included_count": 1, "last_included_id": 2}},
        },
    }
    await task(
        pro,
        "a/b",
        "completed",
        metadata={"river:workflow_wait": WAIT, "river:workflow_wait_state": resolved},
    )
    await task(pro, "open", "pending", metadata={"river:workflow_wait": WAIT})
    await task(pro, "plain", "pending")
    path = "pro/workflows/w/task-signals"

    async def payloads(**params: Any) -> list[int]:
        found = await get(path, **{"task_name": "a/b", **params})
        validate("Signals", found)
        return [row["payload"] for row in found["signals"]]

    assert await payloads() == [4, 2]
    assert await payloads(desc="false") == [2, 4]
    assert await payloads(key="approval", workflow_attempt=1) == [1]
    assert await payloads(term_name="approved") == [4, 2]
    assert await payloads(scope="evidence") == [2]
    page = await get(path, task_name="a/b", limit=1)
    assert (page["has_more"], page["next_cursor_id"]) == (True, 4)
    assert await payloads(cursor_id=4) == [2]
    for status, params in (
        (400, {}),
        (404, {"task_name": "unknown"}),
        (400, {"task_name": "a/b", "key": "undeclared"}),
        (400, {"task_name": "a/b", "term_name": "late"}),
        (400, {"task_name": "a/b", "key": "approval", "term_name": "approved"}),
        (400, {"task_name": "a/b", "scope": "everything"}),
        (400, {"task_name": "a/b", "limit": "0"}),
        (400, {"task_name": "a/b", "desc": "maybe"}),
        (400, {"task_name": "a/b", "cursor_id": "x"}),
        (400, {"task_name": "open", "scope": "evidence"}),
        (400, {"task_name": "plain"}),
    ):
        await get(path, status, **params)


async def test_what_a_task_waits_for(get: Get, pro: Make) -> None:
    await pro.execute("insert into river_workflow values ('w', 'import', 1)")
    await pro.execute(
        "insert into river_workflow_signal (workflow_id, attempt, key) values ('w', 1, 'approval')"
    )
    await task(pro, "first", "completed")
    waits = {"river:workflow_wait": WAIT, "river:workflow_wait_state": WAITING}
    await task(pro, "second", "pending", "first", "gone", metadata=waits)
    found = await get("pro/workflows/w/task-wait-diagnostics", task_name="second")
    validate("Diagnostics", found)
    first, gone = found["inputs"]["deps"]
    assert (first["available"], first["state"]) == (True, "completed")
    assert gone == {"available": False, "task_name": "gone"}
    assert found["inputs"]["signals"] == [{"included_count": 1, "key": "approval", "last_id": 1}]
    assert found["inputs"]["timers"] == [
        {"fire_at": "2026-11-21T09:30:00Z", "fired": True, "name": "late"}
    ]
    assert (found["phase"], found["truncated"]) == ("waiting", False)
    await get("pro/workflows/w/task-wait-diagnostics", 404, task_name="unknown")
    await get("pro/workflows/nowhere/task-wait-diagnostics", 404, task_name="second")
