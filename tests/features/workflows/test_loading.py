"""Existing workflows: loaded, added to, and awaited by the job that started them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import ClassVar

import psycopg
import pytest

from riverui.engine.client import Client, client_from_context
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import job_complete_tx, record_output
from riverui.engine.work.worker import Job
from riverui.errors import (
    DuplicateTaskError,
    InsertError,
    MissingDependencyError,
    NotFound,
    OutputMissing,
    SchemaMissing,
)
from riverui.features.workflows.domain.tasks import TaskState
from riverui.features.workflows.engine.workflow import Workflow, until_checked
from tests.engine.conftest import Playground, Task
from tests.features.conftest import Step, Workshop, chain, fails_for_good


@dataclass
class Parent:
    """The args of a job that starts a workflow."""

    kind: ClassVar[str] = "parent"


async def words(shop: Workshop) -> tuple[Client, Workflow]:
    """Return a client and one of its workflows, which has ended."""

    async def count(job: Job[Task]) -> None:
        record_output({"length": len(job.args.value)})

    shop.worker(count)
    client = await shop.start()
    new = client.workflows.new("Words")
    new.add("count", Task("river"))
    chain(new, "a", "b")
    new.add("all", Step(), deps=["count", "b"])
    await new.insert()
    await shop.ended()
    return client, new


async def test_tasks_are_loaded_with_jobs_dependencies_and_output(shop: Workshop) -> None:
    client, new = await words(shop)
    workflow = await client.workflows.load(new.id)
    assert (workflow.id, workflow.name) == (new.id, "Words")
    everything = await workflow.load_all()
    assert list(everything) == ["a", "all", "b", "count"]
    assert everything["all"].deps == ("b", "count")
    assert everything["all"].job is not None
    assert everything["all"].job.kind == "step"
    assert {task.state for task in everything.values()} == {TaskState.COMPLETED}
    assert list(await workflow.load_all(after="a", limit=2)) == ["all", "b"]
    assert list(await workflow.load_deps("all")) == ["b", "count"]
    assert list(await workflow.load_deps("all", recursive=True)) == ["a", "b", "count"]
    assert list(await workflow.load_deps("a", recursive=True)) == []
    assert await workflow.load_output("count") == {"length": 5}
    assert everything.output("count") == {"length": 5}
    assert (await workflow.load("b")).deps == ("a",)
    with pytest.raises(OutputMissing, match="'b' has recorded no output"):
        await workflow.load_output("b")
    for missing in (
        workflow.load("none"), workflow.load_deps("none"), workflow.load_output("no\0ne"),
        client.workflows.load("none"), client.workflows.load("no\0ne"),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await missing
    with pytest.raises(NotFound):
        everything.output("none")
    await client.job_delete(everything["count"].job_id)
    assert (await workflow.load("count")).job is None
    with pytest.raises(OutputMissing):
        await workflow.load_output("count")


async def test_loading_in_a_transaction_sees_what_it_has_written(shop: Workshop) -> None:
    client = shop.make(queues={})
    new = chain(client.workflows.new(), "a", "b")
    async with await psycopg.AsyncConnection.connect(shop.database_url) as tx:
        await new.insert_tx(tx)
        workflow = await client.workflows.load_tx(tx, new.id)
        assert list(await workflow.load_all_tx(tx)) == ["a", "b"]
        assert list(await workflow.load_deps_tx(tx, "b")) == ["a"]
        assert (await workflow.load_tx(tx, "b")).state is TaskState.WAITING
        with pytest.raises(OutputMissing):
            await workflow.load_output_tx(tx, "b")
        with pytest.raises(NotFound):
            await client.workflows.load(new.id)
        await tx.rollback()


async def test_the_synchronous_client_loads_them_too(shop: Workshop) -> None:
    client, new = await words(shop)
    with SyncClient(shop.database_url) as river:
        workflow = river.workflows.load(new.id)
        everything = workflow.load_all()
        assert everything["all"].job is not None
        assert dict(everything) == dict(await (await client.workflows.load(new.id)).load_all())
        assert list(workflow.load_all(after="a", limit=2)) == ["all", "b"]
        assert list(workflow.load_deps("all", recursive=True)) == ["a", "b", "count"]
        assert workflow.load("b").deps == ("a",)
        assert workflow.load_output("count") == {"length": 5}
        with pytest.raises(OutputMissing):
            workflow.load_output("b")
        for missing in ("none", "no\0ne"):
            with pytest.raises(NotFound):
                workflow.load(missing)
        with psycopg.connect(shop.database_url) as tx:
            workflow.add("new", Step(), deps=["all"])
            workflow.insert_tx(tx)
            assert list(workflow.load_all_tx(tx)) == ["a", "all", "b", "count", "new"]
            assert list(workflow.load_deps_tx(tx, "all")) == ["b", "count"]
            found = workflow.load_tx(tx, "new").job
            assert found is not None
            assert found.state.value == "available"
            assert workflow.load_output_tx(tx, "count") == {"length": 5}
            tx.rollback()
        assert "new" not in workflow.load_all()
    with SyncClient() as closed, pytest.raises(InsertError, match="parent"):
        closed.workflows.new().run()


async def test_a_synchronous_job_waits_for_the_workflow_that_it_begins(shop: Workshop) -> None:
    results: list[dict[str, str]] = []
    river = SyncClient(shop.database_url)

    def parent(job: Job[Parent]) -> None:
        child = river.workflows.new("pages", parent=job)
        child.map("page", [Step() for _ in range(3)], then=Step())
        tasks = child.run()
        results.append({task.name: task.state.value for task in tasks.values()})

    shop.workers.work(Parent)(parent)
    client = await shop.start()
    result = await client.insert(Parent())
    await shop.in_state(result.job.id, "completed")
    river.close()
    assert results == [dict.fromkeys(["after page", "page 1", "page 2", "page 3"], "completed")]


async def test_tasks_are_added_by_id_and_checked_against_those_that_are_there(
    shop: Workshop,
) -> None:
    client = await shop.start()
    new = client.workflows.new()
    new.add("bad", *fails_for_good())
    chain(new, "a")
    await new.insert()
    await shop.ended()
    workflow = await client.workflows.load(new.id, ignore_discarded_deps=True)
    workflow.add("b", Step(), deps=["a", "bad"])
    workflow.add("c", Step(), deps=["b"])
    await workflow.insert()
    assert (await shop.ended())["c"] == "completed"
    workflow.add("d", Step(), deps=["nobody"])
    with pytest.raises(MissingDependencyError, match="'nobody'"):
        await workflow.insert()
    again = await client.workflows.load(new.id)
    again.add("a", Step())
    with pytest.raises(DuplicateTaskError, match="'a'"):
        await again.insert()
    with SyncClient(shop.database_url) as river:
        synchronous = river.workflows.load(new.id)
        synchronous.add("e", Step(), deps=["c"])
        (result,) = synchronous.insert()
        assert result.job.state.value == "available"
        with pytest.raises(NotFound):
            river.workflows.load("none")
    assert (await shop.ended())["e"] == "completed"
    with pytest.raises(TypeError):
        await client.workflows.load(new.id, ignore_everything=True)  # type: ignore[call-arg]
    with pytest.raises(InsertError, match="is not a task of a workflow"):
        await client.workflows.load((await client.insert(Step())).job)


async def test_a_job_adds_tasks_and_completes_itself_in_one_transaction(shop: Workshop) -> None:
    fails = [True]

    async def split(job: Job[Task]) -> None:
        client = client_from_context()
        workflow = await client.workflows.load(job)
        for number in range(3):
            workflow.add(f"part {number}", Step(), deps=["split"])
        async with await psycopg.AsyncConnection.connect(shop.database_url) as tx:
            await workflow.insert_tx(tx)
            await job_complete_tx(tx, job)
            if fails:
                fails.clear()
                raise ArithmeticError("nothing of this is kept")

    shop.worker(split)
    client = await shop.start(retry_policy=lambda row: row.created_at)
    workflow = client.workflows.new()
    workflow.add("split", Task())
    await workflow.insert()
    tasks = await shop.ended()
    assert tasks == dict.fromkeys(["split", "part 0", "part 1", "part 2"], "completed")
    assert sorted(shop.worked) == ["part 0", "part 1", "part 2"]


@pytest.mark.parametrize("does", ["", "fail"])
async def test_a_job_waits_for_the_workflow_that_it_begins(shop: Workshop, does: str) -> None:
    results: list[dict[str, str]] = []

    async def parent(job: Job[Parent]) -> None:
        child = client_from_context().workflows.new("pages", parent=job)
        pages = child.map("page", [Step() for _ in range(3)], then=Step())
        assert pages.then is not None
        child.add("last", Step(does), InsertOpts(max_attempts=1), deps=[pages.then])
        tasks = await child.run()
        results.append({task.name: task.state.value for task in tasks.values()})

    shop.workers.work(Parent)(parent)
    client = await shop.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Parent())
    workflow.add("second", Step(), deps=[first])
    inserted = await workflow.insert()
    assert set((await shop.ended()).values()) == {"completed", "discarded" if does else "completed"}
    assert [result["last"] for result in results] == ["discarded" if does else "completed"]
    assert len(results[0]) == 5
    assert shop.worked[-1] == "second"
    row = await shop.row(inserted[0].job.id)
    # It was woken, long before it would have checked by itself.
    assert row["finalized_at"] - row["created_at"] < timedelta(seconds=8)
    assert row["metadata"]["snoozes"] >= 1
    assert len(await shop.rows("select from riverui_workflow")) == 2
    with pytest.raises(InsertError, match="parent"):
        await client.workflows.new().run()


async def test_a_job_looks_ever_less_often_whether_its_workflow_has_ended(shop: Workshop) -> None:
    async def parent(job: Job[Parent]) -> None:
        child = client_from_context().workflows.new("pages", parent=job)
        child.add("page", Step(), InsertOpts(queue="elsewhere"))
        await child.run()

    shop.workers.work(Parent)(parent)
    client = await shop.start()
    number = (await client.insert(Parent())).job.id

    async def asleep(snoozes: int) -> bool:
        row = await shop.row(number)
        return (row["state"], row["metadata"].get("snoozes")) == ("scheduled", snoozes)

    await shop.until(partial(asleep, 1))
    row = await shop.row(number)
    assert timedelta(seconds=9) < row["scheduled_at"] - row["attempted_at"] < timedelta(minutes=1)

    await shop.rows(
        "update riverui_workflow set created_at = created_at - interval '5 min' returning id"
    )
    await shop.rows(
        f"update river_job set state = 'available', scheduled_at = now() where id = {number}"
        " returning id"
    )
    await shop.until(partial(asleep, 2))
    row = await shop.row(number)
    assert timedelta(minutes=4) < row["scheduled_at"] - row["attempted_at"] < timedelta(minutes=9)


@pytest.mark.parametrize(("age", "sleep"), [(0, 10), (11, 11), (300, 300), (90_000, 600)])
def test_a_job_sleeps_as_long_as_its_workflow_has_taken(age: int, sleep: int) -> None:
    assert until_checked(timedelta(seconds=age)) == timedelta(seconds=sleep)


async def test_without_the_tables_loading_says_so(play: Playground) -> None:
    with pytest.raises(SchemaMissing, match="the tables of riverui"):
        await play.make(queues={}).workflows.load("any")
