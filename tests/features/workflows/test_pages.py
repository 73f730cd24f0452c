"""Workflows of riverui's own tables as pages read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection

from riverui.features.workflows.domain.pages import TaskNeighbour, WorkflowPageParams
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.storage.interface import Driver
from tests.workflows import DIAMOND, fan, workflow

Connection = AsyncConnection[dict[str, Any]]


async def listed(driver: Driver, **params: Any) -> list[str]:
    async with driver.reading() as executor:
        found = await WorkflowPageStore(executor).workflow_page_list(WorkflowPageParams(**params))
    return [row.id for row in found.rows]


async def test_workflows_are_listed_newest_first_with_their_tasks_counted(
    driver: Driver, own: Connection
) -> None:
    await workflow(own, DIAMOND, id="w1", name="Order 1")
    await workflow(own, {"a": ("completed", ()), "b": ("discarded", ("a",))}, id="w2")
    await workflow(own, {}, id="w3", name="empty")
    async with driver.reading() as executor:
        pages = WorkflowPageStore(executor)
        found = await pages.workflow_page_list(WorkflowPageParams())
        one = await pages.workflow_page_get("w1")
        assert await pages.workflow_page_get("w") is None
        assert await pages.workflow_page_get("w\0") is None
    assert [row.id for row in found.rows] == ["w3", "w2", "w1"]
    assert (found.after, found.looked_at) == ("", None)
    assert found.rows[2] == one
    assert one.counts == {"completed": 2, "running": 1, "pending": 1}
    assert [(row.status, row.tasks, row.counted) for row in found.rows] == [
        ("empty", 0, True),
        ("failed", 2, True),
        ("active", 4, True),
    ]


async def test_they_are_found_by_how_they_ended(driver: Driver, own: Connection) -> None:
    await workflow(own, {"a": ("completed", ())}, id="w1")
    await workflow(own, {"a": ("completed", ()), "b": ("discarded", ())}, id="w2", name="Order")
    await workflow(own, {"a": ("running", ()), "b": ("discarded", ())}, id="w3", name="Order")
    gone = {"cancelled_at": datetime.now(UTC)}
    await workflow(own, {"a": ("cancelled", ())}, id="w4", columns=gone)
    await workflow(own, {"a": ("cancelled", ())}, id="w5")
    found = {name: await listed(driver, outcome=name) for name in ("completed", "failed")}
    assert found == {"completed": ["w1"], "failed": ["w5", "w2"]}
    assert await listed(driver, outcome="cancelled") == ["w4"]
    assert await listed(driver, outcome="failed", match="order") == ["w2"]
    assert await listed(driver, outcome="failed", kind="step") == ["w5", "w2"]
    # The search stops there; the next page searches further.
    await own.execute(
        "insert into riverui_workflow (id, ended_at) select 'x' || n, now()"
        " from generate_series(1, 310) n"
    )
    async with driver.reading() as executor:
        pages = WorkflowPageStore(executor)
        first = await pages.workflow_page_list(WorkflowPageParams(outcome="failed"))
        assert (first.rows, first.looked_at) == ([], 300)
        further = WorkflowPageParams(outcome="failed", after=first.after)
        second = await pages.workflow_page_list(further)
    assert ([row.id for row in second.rows], second.looked_at) == (["w5", "w2"], None)


async def test_they_are_found_by_name_by_id_and_by_kind(driver: Driver, own: Connection) -> None:
    await workflow(own, DIAMOND, id="01AB", name="Order 42", jobs={"pack": {"kind": "parcel"}})
    await workflow(own, DIAMOND, id="01CD", name="100% ORDER_43")
    assert await listed(driver, match="order") == ["01CD", "01AB"]
    assert await listed(driver, match="order_4") == ["01CD"]
    assert await listed(driver, match="%") == ["01CD"]
    assert await listed(driver, match="01a") == ["01AB"]
    assert await listed(driver, match="1AB") == []
    assert await listed(driver, kind="parcel") == ["01AB"]
    assert await listed(driver, kind="pack") == []
    assert await listed(driver, match="\0") == []


async def test_a_graph_tells_of_each_task_and_edge(driver: Driver, own: Connection) -> None:
    made = await workflow(own, DIAMOND, id="w")
    await own.execute("delete from river_job where id = any(%s)", [[made["read"], made["pack"]]])
    async with driver.reading() as executor:
        pages = WorkflowPageStore(executor)
        graph = await pages.workflow_graph_get("w")
        few = await pages.workflow_graph_get("w", tasks=2, edges=3)
        nothing = await pages.workflow_graph_get("nowhere")
    assert [(task.name, task.job_id, task.state) for task in graph.tasks] == [
        ("charge", made["charge"], "completed"),
        ("pack", made["pack"], "deleted"),
        ("read", made["read"], "completed"),
        ("ship", made["ship"], "pending"),
    ]
    assert graph.tasks[0].kind == "step"
    assert graph.tasks[1].kind == ""
    assert graph.tasks[3].waits_for == 1
    assert sorted(graph.edges) == [
        ("charge", "ship"),
        ("pack", "ship"),
        ("read", "charge"),
        ("read", "pack"),
    ]
    assert graph.complete
    assert (len(few.tasks), len(few.edges), few.complete) == (2, 3, False)
    assert (nothing.tasks, nothing.edges) == ([], [])


async def place(driver: Driver, **asked: Any) -> Any:
    async with driver.reading() as executor:
        pages: WorkflowPageStore = WorkflowPageStore(executor)
        return await pages.workflow_place_get(**asked)


async def test_the_place_of_a_job_in_its_workflow(driver: Driver, own: Connection) -> None:
    made = await workflow(own, DIAMOND, id="w", name="Order 42")
    found = await place(driver, job_id=made["ship"])
    assert found == await place(driver, id="w", name="ship")
    assert (found.workflow_id, found.workflow_name, found.name) == ("w", "Order 42", "ship")
    assert (found.state, found.waits_for, found.deps_count) == ("waiting", 1, 2)
    assert found.deps == [
        TaskNeighbour("pack", made["pack"], "running", "step"),
        TaskNeighbour("charge", made["charge"], "completed", "step"),
    ]
    assert [each.name for each in found.unfinished] == ["pack"]
    assert (found.dependents, found.dependents_count) == ([], 0)
    first = await place(driver, job_id=made["read"])
    assert [each.name for each in first.dependents] == ["pack", "charge"]
    assert await place(driver, job_id=10**6) is None
    assert await place(driver, id="w", name="nothing") is None
    assert await place(driver, id="w", name="\0") is None


async def test_neighbours_are_counted_and_few_are_told(driver: Driver, own: Connection) -> None:
    await fan(own, 60, id="w")
    found = await place(driver, id="w", name="join", most=5)
    assert (len(found.deps), found.deps_count) == (5, 60)
    assert all(each.state != "completed" for each in found.deps)
    assert len((await place(driver, id="w", name="split")).dependents) == 20
