"""What River's documentation says of workflows and no other test here tells: see
docs/reference/pro.md.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import psycopg2
import pytest

from riverui.domain.ulid import ulid
from riverui.engine.config import QueueConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job
from riverui.errors import DuplicateTaskError, InsertError, NotFound, WorkflowActive
from riverui.features.workflows.waits.domain import SignalTerm, Wait
from tests.engine.conftest import Task
from tests.features.conftest import Step, Workshop, chain, fails_for_good

ELSEWHERE = InsertOpts(queue="elsewhere")
"""A queue that nobody works."""


async def test_ids_are_ulids_unless_given_and_names_may_be_left_out(shop: Workshop) -> None:
    client = shop.make(queues={})
    with SyncClient(shop.database_url) as river:
        made = [client.workflows.new(), river.workflows.new(), client.workflows.new("Order 42")]
    assert all(re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", workflow.id) for workflow in made)
    assert len({workflow.id for workflow in made}) == 3
    assert [workflow.name for workflow in made] == ["", "", "Order 42"]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    earlier, later = ulid(at), ulid(at + timedelta(milliseconds=1))
    assert earlier < later
    own = client.workflows.new(id="2026-11-22/42")
    own.add("a", Step())
    (result,) = await own.insert()
    metadata = result.job.metadata_dict
    assert metadata["workflow_id"] == "2026-11-22/42"
    for bad in ("x" * 129, "a\0b"):
        with pytest.raises(InsertError, match="id"):
            client.workflows.new(id=bad)


async def test_workflows_are_apart_however_alike_they_are(shop: Workshop) -> None:
    client = await shop.start()
    first, second = client.workflows.new("alike"), client.workflows.new("alike")
    for workflow, does in ((first, "cancel"), (second, "")):
        workflow.add("a", Step(does))
        workflow.add("b", Step(), deps=["a"])
        await workflow.insert()
    await shop.ended()
    found = {}
    for workflow in (first, second):
        tasks = await (await client.workflows.load(workflow.id)).load_all()
        found[workflow.id] = {name: task.state.value for name, task in tasks.items()}
    assert found == {
        first.id: {"a": "cancelled", "b": "cancelled"},
        second.id: {"a": "completed", "b": "completed"},
    }


async def test_states_at_insert(shop: Workshop) -> None:
    client = shop.make(queues={})
    later = InsertOpts(scheduled_at=datetime.now(UTC) + timedelta(hours=1))
    workflow = client.workflows.new()
    workflow.add("now", Step())
    workflow.add("later", Step(), later)
    workflow.add("waits", Step(), deps=["now"])
    workflow.add("waits for later", Step(), later, deps=["later"])
    states = {
        result.job.metadata_dict["task"]: result.job.state.value
        for result in await workflow.insert()
    }
    assert states == {
        "now": "available", "later": "scheduled", "waits": "pending", "waits for later": "pending",
    }  # fmt: skip


async def test_an_insert_by_copy_writes_workflows_too(shop: Workshop) -> None:
    client = await shop.start()
    workflow = chain(client.workflows.new(), "a", "b")
    assert await client.insert_many_fast([*workflow.prepare(), InsertManyParams(Step())]) == 3
    assert set((await shop.ended()).values()) == {"completed"}


async def test_running_tasks_of_a_cancelled_workflow_are_asked_to_stop(shop: Workshop) -> None:
    began = asyncio.Event()

    async def long(job: Job[Task]) -> None:
        began.set()
        await asyncio.sleep(3600)

    shop.worker(long)
    client = await shop.start()
    workflow = client.workflows.new()
    workflow.add("done", Step())
    running = workflow.add("running", Task())
    workflow.add("ready", Step(), ELSEWHERE)
    workflow.add("waits", Step(), deps=[running])
    workflow.add("later", Step(), InsertOpts(scheduled_at=datetime.now(UTC) + timedelta(hours=1)))
    await workflow.insert()
    ids = await shop.ids()
    await began.wait()
    await shop.in_state(ids["done"], "completed")
    touched = await client.workflows.cancel(workflow.id)
    assert touched == sorted(ids[name] for name in ("running", "ready", "waits", "later"))
    assert await shop.ended() == {
        "done": "completed", "running": "cancelled", "ready": "cancelled", "waits": "cancelled",
        "later": "cancelled",
    }  # fmt: skip


async def test_cancel_and_retry_in_ones_own_transaction(shop: Workshop) -> None:
    client = shop.make(queues={})
    workflow = chain(client.workflows.new(), "a", "b")
    async with await psycopg.AsyncConnection.connect(shop.database_url) as tx:
        with pytest.raises(NotFound):
            await client.workflows.cancel_tx(tx, workflow.id)
        await workflow.insert_tx(tx)
        with pytest.raises(WorkflowActive):
            await client.workflows.retry_tx(tx, workflow.id)
        assert len(await client.workflows.cancel_tx(tx, workflow.id)) == 2
        assert len(await client.workflows.retry_tx(tx, workflow.id, reset_history=True)) == 2
        assert len(await client.workflows.cancel_tx(tx, workflow.id)) == 2
        assert await shop.own() == {}
        await tx.commit()
        assert set((await shop.own()).values()) == {"cancelled"}
        await client.workflows.retry_tx(tx, workflow.id)
        await tx.rollback()
    assert set((await shop.own()).values()) == {"cancelled"}
    (row,) = await shop.rows("select attempt from riverui_workflow")
    assert row["attempt"] == 2


@pytest.mark.parametrize("library", ["psycopg", "psycopg2"])
async def test_the_synchronous_client_cancels_and_retries_too(shop: Workshop, library: str) -> None:
    client = shop.make(queues={})
    above = chain(client.workflows.new(), "a", "b")
    above.add("waits", Step(), wait=Wait("approved", [SignalTerm("approved", "approval")]))
    (first, *_) = await above.insert()
    child = client.workflows.new("child", parent=first.job)
    await chain(child, "c", "d").insert()
    connect = psycopg.connect if library == "psycopg" else psycopg2.connect
    with SyncClient(shop.database_url) as river:
        with closing(connect(shop.database_url)) as tx:
            assert len(river.workflows.cancel_tx(tx, above.id)) == 3
            tx.rollback()
            assert set((await shop.own()).values()) == {"staged", "waiting", "wait"}
            assert len(river.workflows.cancel_tx(tx, above.id)) == 3
            tx.commit()
            assert set((await shop.own()).values()) == {"cancelled"}
            assert len(river.workflows.retry_tx(tx, above.id, "failed_only")) == 3
            with pytest.raises(WorkflowActive):
                river.workflows.retry_tx(tx, above.id)
            tx.commit()
        assert await shop.own() == {
            "a": "staged", "b": "waiting", "waits": "wait", "c": "staged", "d": "waiting",
        }  # fmt: skip
        assert len(river.workflows.cancel(above.id)) == 3
        assert len(river.workflows.retry(above.id, reset_history=True)) == 3
        for missing in (river.workflows.cancel, river.workflows.retry):
            with pytest.raises(NotFound):
                missing("none")
    await client.workflows.signal(above.id, "approval")
    assert set((await shop.tasks()).values()) == {"available", "pending"}


async def test_a_retry_of_what_failed_changes_nothing_where_nothing_has(shop: Workshop) -> None:
    client = await shop.start()
    workflow = chain(client.workflows.new(), "a", "b")
    await workflow.insert()
    await shop.ended()
    for mode in ("failed_only", "failed_and_downstream"):
        assert await client.workflows.retry(workflow.id, mode) == []
    (row,) = await shop.rows("select attempt, ended_at is not null as ended from riverui_workflow")
    assert (row["attempt"], row["ended"]) == (1, True)


async def test_what_is_added_to_a_workflow_that_has_ended_opens_it_again(shop: Workshop) -> None:
    client = await shop.start()
    workflow = chain(client.workflows.new(), "a", "b")
    await workflow.insert()
    await shop.ended()
    row = (await (await client.workflows.load(workflow.id)).load("b")).job
    assert row is not None
    by_job = await client.workflows.load(row)
    chain(by_job, "c", "d")
    by_job.add("e", Step(), deps=["b", "d"])
    await by_job.insert()
    assert await shop.ended() == dict.fromkeys("abcde", "completed")
    with pytest.raises(DuplicateTaskError, match="'c'"):
        by_job.add("c", Step())


async def test_each_task_is_tried_as_often_as_it_says(shop: Workshop) -> None:
    client = await shop.start(retry_policy=lambda row: datetime.now(UTC))
    workflow = client.workflows.new()
    workflow.add("once", *fails_for_good())
    workflow.add("thrice", Step("fail"), InsertOpts(max_attempts=3))
    workflow.add("after once", Step(), deps=["once"])
    workflow.add("after thrice", Step(), deps=["thrice"], ignore_discarded_deps=True)
    await workflow.insert()
    assert await shop.ended() == {
        "once": "discarded", "thrice": "discarded", "after once": "cancelled",
        "after thrice": "completed",
    }  # fmt: skip
    assert (shop.worked.count("once"), shop.worked.count("thrice")) == (1, 3)


async def test_a_dependency_deleted_after_it_was_completed_counts_as_completed(
    shop: Workshop,
) -> None:
    client = await shop.start()
    workflow = client.workflows.new()
    workflow.add("first", Step())
    workflow.add("slow", Step(), ELSEWHERE)
    workflow.add("last", Step(), deps=["first", "slow"])
    await workflow.insert()
    first = (await shop.ids())["first"]

    async def completed() -> bool:
        return (await shop.own())["first"] == "completed"

    await shop.until(completed)
    await client.job_delete(first)
    # So it does for tasks that are added later.
    added = await client.workflows.load(workflow.id)
    added.add("added", Step(), deps=["first"])
    (result,) = await added.insert()
    assert result.job.state.value == "available"
    await client.queues.add("elsewhere", QueueConfig(max_workers=5))
    await shop.ended()
    assert set((await shop.own()).values()) == {"completed"}
