"""River Pro's addresses of workflows on riverui's own tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from psycopg import AsyncConnection

from tests.pro_tables import PRO_TABLES
from tests.web.api.test_openapi import validate
from tests.workflows import DIAMOND, fan, workflow

Connection = AsyncConnection[dict[str, Any]]
Get = Callable[..., Awaitable[Any]]


async def test_features_tell_of_them(get: Get, own: Connection) -> None:
    assert (await get("features"))["extensions"]["workflow_queries"] is True


async def test_workflows_are_listed_in_river_uis_shape(get: Get, own: Connection) -> None:
    await workflow(own, DIAMOND, id="w1", name="Order 42")
    await workflow(own, {"a": ("discarded", ()), "b": ("cancelled", ("a",))}, id="w2")
    await workflow(own, {"a": ("cancelled", ())}, id="w3")
    found = await get("pro/workflows")
    validate("Workflows", found)
    assert [row["id"] for row in found["data"]] == ["w3", "w2", "w1"]
    third, second, first = found["data"]
    assert (first["name"], second["name"]) == ("Order 42", None)
    counts = {key: value for key, value in first.items() if key.startswith("count") and value}
    assert counts == {"count_completed": 2, "count_pending": 1, "count_running": 1}
    assert (second["count_failed_deps"], second["count_cancelled"]) == (1, 1)
    assert (third["count_failed_deps"], third["count_cancelled"]) == (0, 1)

    async def listed(**params: Any) -> list[str]:
        return [row["id"] for row in (await get("pro/workflows", **params))["data"]]

    assert await listed(state="active") == ["w1"]
    assert await listed(state="inactive") == ["w3", "w2"]
    assert await listed(after="w3", limit=1) == ["w2"]
    assert await listed(limit=0) == []
    await get("pro/workflows", 400, state="running")


async def test_a_workflow_with_its_tasks(get: Get, own: Connection) -> None:
    made = await workflow(
        own,
        DIAMOND,
        id="a/b c",
        name="Order 42",
        jobs={"ship": {"metadata": {"riverui:workflow": {"ignored": "cx"}, "task": "ship"}}},
    )
    found = await get("pro/workflows/a/b%20c")
    validate("Workflow", found)
    assert (found["id"], found["name"]) == ("a/b c", "Order 42")
    tasks = {task["name"]: task for task in found["tasks"]}
    assert {name: task["id"] for name, task in tasks.items()} == made
    ship = tasks["ship"]
    assert (ship["deps"], ship["wait_reason"]) == (["charge", "pack"], "dependencies")
    assert [ship[f"ignore_{state}_deps"] for state in ("cancelled", "discarded", "deleted")] == [
        True,
        False,
        True,
    ]
    assert tasks["read"]["wait_reason"] == "none"
    await get("pro/workflows/nowhere", 404)


async def test_metadata_that_are_too_long_lose_no_task(get: Get, own: Connection) -> None:
    long = {"deps": ["read"], "task": "charge", "workflow_id": "w", "note": "n" * 300_000}
    await workflow(own, DIAMOND, id="w", jobs={"charge": {"metadata": long}})
    found = await get("pro/workflows/w")
    assert {task["name"]: task["deps"] for task in found["tasks"]}["charge"] == ["read"]


async def test_a_large_one_comes_whole(get: Get, own: Connection) -> None:
    await fan(own, 1_000, id="w")
    found = await get("pro/workflows/w")
    assert len(found["tasks"]) == 1_002
    assert len(next(task for task in found["tasks"] if task["name"] == "join")["deps"]) == 1_000


async def test_those_of_river_pro_and_ours_are_one_list(get: Get, own: Connection) -> None:
    for name in ("ours", "both", "B-7", "a_1", "zz"):
        await workflow(own, DIAMOND, id=name)
    await own.execute(PRO_TABLES)
    await own.execute(
        "insert into river_workflow values ('theirs', 'import', 1), ('both', 'first', 1),"
        " ('a-2', 'low', 1), ('b_8', 'low', 1)"
    )
    rows = await own.execute(
        "select id from (select id from riverui_workflow union select id from river_workflow) both"
        "_ order by id desc"
    )
    order = [row["id"] for row in await rows.fetchall()]
    found = (await get("pro/workflows"))["data"]
    assert [row["id"] for row in found] == order
    assert [row["name"] for row in found if row["id"] == "both"] == ["first"]
    # Across pages, each once.
    seen: list[str] = []
    while page := (await get("pro/workflows", after=seen[-1] if seen else "", limit=2))["data"]:
        seen.extend(row["id"] for row in page)
    assert seen == order
    assert (await get("pro/workflows/theirs"))["name"] == "import"
    assert len((await get("pro/workflows/ours"))["tasks"]) == 4


async def test_cancelling_one(api: httpx2.AsyncClient, own: Connection) -> None:
    made = await workflow(own, DIAMOND, id="w")
    answer = await api.post("pro/workflows/w/cancel")
    validate("Cancelled", answer.json())
    assert [row["id"] for row in answer.json()["cancelled_jobs"]] == [made["pack"], made["ship"]]
