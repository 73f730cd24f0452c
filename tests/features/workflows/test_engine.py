"""Workflows: tasks wait for one another, and advance when others end."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import psycopg2
import pytest

from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import job_complete_tx
from riverui.engine.work.worker import Job
from riverui.errors import (
    ConfigError,
    DependencyCycleError,
    DuplicateTaskError,
    InsertError,
    MissingDependencyError,
    SchemaMissing,
)
from riverui.features.workflows.store import WorkflowStore
from riverui.features.workflows.waits.domain import SignalTerm, Wait
from riverui.storage.interface import Driver
from tests.engine.conftest import Playground, Task
from tests.features.conftest import Step, Workshop, fails_for_good
from tests.pro_tables import PRO_TABLES


async def test_tasks_are_worked_in_the_order_of_their_dependencies(shop: Workshop) -> None:
    client = await shop.start()
    workflow = client.workflows.new(name="Order 42")
    charge = workflow.add("charge", Step())
    pack = workflow.add("pack", Step())
    ship = workflow.add("ship", Step(), deps=[charge, pack])
    workflow.add("mail", Step(), deps=[ship, "charge"])
    inserted = await workflow.insert()
    assert [result.job.state.value for result in inserted] == [
        "available", "available", "pending", "pending",
    ]  # fmt: skip
    assert await shop.ended() == dict.fromkeys(("charge", "pack", "ship", "mail"), "completed")
    assert sorted(shop.worked[:2]) == ["charge", "pack"]
    assert shop.worked[2:] == ["ship", "mail"]
    assert set((await shop.own()).values()) == {"completed"}
    (row,) = await shop.rows("select * from riverui_workflow")
    assert (row["id"], row["name"], row["open"]) == (workflow.id, "Order 42", 0)
    ship_row = await shop.row(inserted[2].job.id)
    metadata = ship_row["metadata"]
    assert metadata["workflow_id"] == workflow.id
    assert metadata["workflow_name"] == "Order 42"
    assert metadata["task"] == "ship"
    assert metadata["deps"] == ["charge", "pack"]
    assert datetime.fromisoformat(metadata["workflow_staged_at"]).tzinfo is not None
    assert ship_row["scheduled_at"] > inserted[2].job.scheduled_at


async def test_both_clients_insert_and_one_works(shop: Workshop, database_url: str) -> None:
    await shop.start()
    with SyncClient(database_url) as river, psycopg.connect(database_url) as connection:
        workflow = river.workflows.new("from Django")
        first = workflow.add("first", Step())
        workflow.add("second", Step(), deps=[first])
        workflow.insert_tx(connection)
        connection.rollback()
        assert await shop.tasks() == {}
        again = river.workflows.new("from Django")
        first = again.add("first", Step())
        again.add("second", Step(), deps=[first])
        again.insert()
    assert await shop.ended() == {"first": "completed", "second": "completed"}


async def test_prepared_tasks_go_with_other_jobs_in_ones_own_transaction(shop: Workshop) -> None:
    client = shop.make(queues={})
    workflow = client.workflows.new()
    first = workflow.add("first", Step())
    workflow.add("second", Step(), deps=[first])
    async with await psycopg.AsyncConnection.connect(shop.database_url) as tx:
        await client.insert_many_tx(tx, [*workflow.prepare(), InsertManyParams(Step())])
        assert await shop.own() == {}
        await tx.commit()
    assert await shop.own() == {"first": "staged", "second": "waiting"}
    assert len(await shop.rows("select id from river_job")) == 3


@pytest.mark.parametrize(("does", "state"), [("cancel", "cancelled"), ("fail", "discarded")])
async def test_a_failure_cancels_all_that_follow(shop: Workshop, does: str, state: str) -> None:
    client = await shop.start()
    workflow = client.workflows.new()
    bad = workflow.add("bad", *fails_for_good(does))
    good = workflow.add("good", Step())
    after = workflow.add("after", Step(), deps=[bad, good])
    later = workflow.add("later", Step(), deps=[after])
    workflow.add("last", Step(), deps=[later, good])
    workflow.add("apart", Step(), deps=[good])
    jobs = {result.job.metadata_dict["task"]: result.job.id for result in await workflow.insert()}
    assert await shop.ended() == {
        "bad": state, "good": "completed", "apart": "completed",
        "after": "cancelled", "later": "cancelled", "last": "cancelled",
    }  # fmt: skip
    last = await shop.row(jobs["last"])
    assert last["finalized_at"] is not None
    assert "workflow_deps_failed_at" in last["metadata"]
    assert "workflow_deps_failed_at" not in (await shop.row(jobs["bad"]))["metadata"]
    assert set(shop.worked) == {"bad", "good", "apart"}


async def test_failures_that_are_ignored_count_as_success(shop: Workshop) -> None:
    client = await shop.start()
    workflow = client.workflows.new(ignore_discarded_deps=True)
    bad = workflow.add("bad", *fails_for_good())
    gone = workflow.add("gone", Step("cancel"))
    workflow.add("by the workflow", Step(), deps=[bad])
    workflow.add("not", Step(), deps=[bad], ignore_discarded_deps=False)
    fallen = workflow.add("fallen", Step(), deps=[gone])
    workflow.add("by the task", Step(), deps=[gone, fallen], ignore_cancelled_deps=True)
    await workflow.insert()
    assert await shop.ended() == {
        "bad": "discarded", "gone": "cancelled", "by the workflow": "completed",
        "not": "cancelled", "fallen": "cancelled", "by the task": "completed",
    }  # fmt: skip


async def test_a_task_with_a_time_ahead_is_scheduled_when_its_dependencies_have_ended(
    shop: Workshop,
) -> None:
    client = await shop.start()
    at = datetime.now(UTC) + timedelta(hours=1)
    workflow = client.workflows.new()
    first = workflow.add("first", Step())
    workflow.add("later", Step(), InsertOpts(scheduled_at=at), deps=[first])
    _, later = await workflow.insert()
    row = await shop.in_state(later.job.id, "scheduled")
    assert row["scheduled_at"] == at
    assert await shop.own() == {"first": "completed", "later": "staged"}


async def test_a_task_completed_in_a_transaction_moves_others_on_when_that_commits(
    shop: Workshop,
) -> None:
    seen: list[dict[str, str]] = []

    async def work(job: Job[Task]) -> None:
        async with await psycopg.AsyncConnection.connect(shop.database_url) as tx:
            await job_complete_tx(tx, job)
            seen.append(await shop.own())
        seen.append(await shop.own())

    shop.worker(work)
    client = await shop.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Task())
    second = workflow.add("second", Step(), InsertOpts(queue="elsewhere"), deps=[first])
    await workflow.insert()
    await shop.until(lambda: len(seen) == 2)
    assert [now[second.name] for now in seen] == ["waiting", "staged"]


def connected(library: str, url: str) -> Any:
    """Return a transaction of a synchronous library."""
    return psycopg.connect(url) if library == "psycopg" else psycopg2.connect(url)


@pytest.mark.parametrize("library", ["psycopg", "psycopg2"])
async def test_a_synchronous_job_completes_its_task_in_its_own_transaction(
    shop: Workshop, library: str
) -> None:
    seen: list[tuple[str, dict[str, str]]] = []
    reader = await psycopg.AsyncConnection.connect(shop.database_url, autocommit=True)
    river = SyncClient()

    async def states() -> dict[str, str]:
        cursor = await reader.execute("select name, state from riverui_workflow_task")
        return dict(await cursor.fetchall())

    loop = asyncio.get_running_loop()

    def look(when: str) -> None:
        found = asyncio.run_coroutine_threadsafe(states(), loop).result()
        seen.append((when, found))

    def work(job: Job[Task]) -> None:
        with closing(connected(library, shop.database_url)) as tx:
            river.job_complete_tx(tx, job)
            tx.rollback()
            river.job_complete_tx(tx, job)
            look("before")
            tx.commit()
            look("after")
        raise ValueError("after it was completed")

    shop.worker(work)
    client = await shop.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Task())
    second = workflow.add("second", Step(), InsertOpts(queue="elsewhere"), deps=[first])
    workflow.add("third", Step(), deps=[second])
    jobs = await workflow.insert()
    await shop.until(lambda: len(seen) == 2)
    await reader.close()
    assert seen == [
        ("before", {"first": "staged", "second": "waiting", "third": "waiting"}),
        ("after", {"first": "completed", "second": "staged", "third": "waiting"}),
    ]
    assert (await shop.row(jobs[1].job.id))["state"] == "available"
    assert (await shop.in_state(jobs[0].job.id, "completed"))["errors"] is None


async def test_tasks_are_added_to_those_that_have_ended(shop: Workshop) -> None:
    client = await shop.start()
    workflow = client.workflows.new()
    workflow.add("good", Step())
    workflow.add("bad", Step("cancel"))
    await workflow.insert()
    await shop.ended()
    more = await client.workflows.load(workflow.id)
    more.add("new", Step(), deps=["good"])
    more.add("cut", Step(), deps=["good", "bad"])
    more.add("off", Step(), deps=["cut"])
    results = await more.insert()
    assert [each.job.state.value for each in results] == ["available", "cancelled", "cancelled"]
    assert await shop.ended() == {
        "good": "completed", "bad": "cancelled", "new": "completed", "cut": "cancelled",
        "off": "cancelled",
    }  # fmt: skip
    # Another builder of the same workflow, which has not loaded the existing tasks:
    blind = client.workflows.new(id=workflow.id)
    blind.add("good", Step())
    with pytest.raises(DuplicateTaskError, match="already has a task 'good'"):
        await blind.insert()


async def test_like_tasks_and_one_that_waits_for_all(shop: Workshop) -> None:
    client = await shop.start()
    workflow = client.workflows.new()
    split = workflow.add("split", Step())
    pages = workflow.map("page", [Step() for _ in range(50)], deps=[split], then=Step())
    assert pages.then is not None
    workflow.add("done", Step(), deps=[pages.then])
    await workflow.insert()
    assert set((await shop.ended()).values()) == {"completed"}
    assert shop.worked[0] == "split"
    assert shop.worked[-2:] == ["after page", "done"]
    assert len(shop.worked) == 53


@pytest.mark.parametrize("name", ["Prüfung №1 🎉", "a\"b'c\\d{},NULL", "a\nb\tc", "🎉" * 200])
async def test_odd_names(shop: Workshop, name: str) -> None:
    client = await shop.start()
    workflow = client.workflows.new(name, id=name[:128])
    first = workflow.add(name, Step())
    workflow.add(name[1:], Step(), deps=[first])
    await workflow.insert()
    assert await shop.ended() == {name: "completed", name[1:]: "completed"}


async def test_a_task_may_have_something_of_its_own_to_wait_for(
    shop: Workshop, driver: Driver
) -> None:
    """The wait itself is evaluated elsewhere: this only holds the task back."""
    client = await shop.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Step())
    workflow.add("second", Step(), deps=[first])
    workflow.add("third", Step())
    jobs = workflow.prepare()
    wait = json.loads(Wait("approved", [SignalTerm("approved", "approval")]).to_json())
    for job in jobs[1:]:
        assert job.insert_opts is not None
        assert job.insert_opts.metadata is not None
        job.insert_opts.metadata["river:workflow_wait"] = wait
    results = {each.job.metadata_dict["task"]: each.job for each in await client.insert_many(jobs)}
    assert [row.state.value for row in results.values()] == ["available", "pending", "pending"]
    await shop.in_state(results["first"].id, "completed")
    assert await shop.own() == {"first": "completed", "second": "wait", "third": "wait"}
    async with driver.transaction() as transaction:
        part = WorkflowStore(transaction)
        ids = [results["second"].id, results["third"].id, results["first"].id]
        assert await part.workflow_lock_by_job(ids) == [workflow.id]
        moves = await part.workflow_stage(ids)
        assert sorted(job_id for job_id, _ in moves.staged) == sorted(ids[:2])
    assert set((await shop.ended()).values()) == {"completed"}
    rows = await shop.rows("select wait from riverui_workflow_task where name = 'second'")
    assert rows[0]["wait"] == wait


async def test_a_workflow_that_is_none(shop: Workshop) -> None:
    client = shop.make(queues={})
    workflow = client.workflows.new()
    workflow.add("a", Step(), deps=["b"])
    with pytest.raises(MissingDependencyError):
        workflow.prepare()
    workflow.add("b", Step(), deps=["a"])
    with pytest.raises(DependencyCycleError):
        await workflow.insert()
    with pytest.raises(DuplicateTaskError):
        workflow.add("a", Step())
    pending = client.workflows.new()
    pending.add("a", Step(), InsertOpts(pending=True))
    with pytest.raises(InsertError, match="pending"):
        pending.prepare()
    sequence = client.workflows.new()
    sequence.add("a", Step(), InsertOpts(metadata={"seq_key": "x"}))
    with pytest.raises(InsertError, match="sequence"):
        await sequence.insert()
    unique = client.workflows.new()
    opts = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    unique.add("a", Step(), opts)
    unique.add("b", Step(), opts)
    with pytest.raises(InsertError, match="is unique, and job"):
        await unique.insert()
    assert await shop.own() == {}
    assert await shop.rows("select from river_job") == []


async def test_without_the_tables_who_asks_is_told(play: Playground) -> None:
    client = play.make(queues={}, workers=None)
    workflow = client.workflows.new()
    workflow.add("a", Task())
    message = r"the tables of riverui: run `riverui migrate-up --line riverui`"
    with pytest.raises(SchemaMissing, match=message):
        await workflow.insert()
    with SyncClient(play.database_url) as river:
        lone = river.workflows.new()
        lone.add("a", Task())
        with pytest.raises(SchemaMissing, match=message):
            lone.insert()
    assert await play.rows("select from river_job") == []


async def test_beside_river_pro_one_has_to_say_so(shop: Workshop) -> None:
    await shop.connection.execute(PRO_TABLES.encode())
    client = shop.make(queues={})
    workflow = client.workflows.new()
    workflow.add("a", Step())
    with pytest.raises(ConfigError, match="workflows_beside_pro=True"):
        await workflow.insert()
    client = shop.make(queues={}, workflows_beside_pro=True)
    await client.insert_many(workflow.prepare())
    assert await shop.own() == {"a": "staged"}


async def test_metadata_that_only_look_like_a_task_are_ones_own(play: Playground) -> None:
    client = play.make(queues={}, workers=None)
    opts = InsertOpts(metadata={"workflow_id": "mine", "task": "x", "note": '"riverui:workflow"'})
    result = await client.insert(Task(), opts)
    assert result.job.state.value == "available"
