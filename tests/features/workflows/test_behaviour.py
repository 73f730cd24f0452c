"""Workflows at their edges: ids, states at insert, transactions, and ends that are written twice or
late. See docs/reference/pro.md.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from random import Random

import psycopg
import pytest

from riverui.domain.jobs import JobState
from riverui.domain.ulid import ulid
from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.pilot import JobEnd
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job
from riverui.errors import DuplicateTaskError, InsertError, NotFound, WorkflowActive
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobFetchParams, JobSetStateParams
from tests.engine.conftest import Task
from tests.features.conftest import Step, Workshop, chain, fails_for_good

ELSEWHERE = InsertOpts(queue="elsewhere")
"""A queue that no client works."""


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
    workflow.add("other", Step())
    workflow.add("slow", Step(), ELSEWHERE)
    workflow.add("last", Step(), deps=["first", "other", "slow"])
    await workflow.insert()
    ids = await shop.ids()

    async def completed() -> bool:
        own = await shop.own()
        return own["first"] == own["other"] == "completed"

    await shop.until(completed)
    await client.job_delete(ids["first"])
    # As a cleaner without workflows does:
    await shop.connection.execute("delete from river_job where id = %s", [ids["other"]])
    # The same applies to tasks that are added later.
    added = await client.workflows.load(workflow.id)
    added.add("added", Step(), deps=["first"])
    (result,) = await added.insert()
    assert result.job.state.value == "available"
    await client.queues.add("elsewhere", QueueConfig(max_workers=5))
    await shop.ended()
    assert set((await shop.own()).values()) == {"completed"}
    tasks = await (await client.workflows.load(workflow.id)).load_deps("last")
    assert tasks["other"].job is None


class TestFaults:
    """A client that dies, and outcomes that are written twice."""

    async def fetched(self, shop: Workshop, driver: Driver) -> tuple[Client, JobEnd]:
        """Begin to work the first of three tasks; return how it ends."""
        client = shop.make(queues={})
        await chain(client.workflows.new(), "first", "second", "third").insert()
        async with driver.transaction() as transaction:
            (row,) = await client.pilot.get_available(
                transaction, JobFetchParams(client_id="x", queue="default", limit=9)
            )
        change = JobSetStateParams(
            id=row.id,
            state=JobState.COMPLETED,
            finalized_at=datetime.now(UTC),
            of_attempt=row.attempt,
        )
        return client, JobEnd(row, change)

    async def test_an_outcome_that_is_written_twice_counts_once(
        self, shop: Workshop, driver: Driver
    ) -> None:
        client, end = await self.fetched(shop, driver)
        for _ in range(2):
            async with driver.transaction() as transaction:
                (row,) = await client.pilot.set_state_if_running_many(transaction, [end])
            assert row.state is JobState.COMPLETED
        assert await shop.own() == {"first": "completed", "second": "staged", "third": "waiting"}
        await shop.consistent()

    async def test_an_outcome_that_is_lost_on_its_way_moves_nothing(
        self, shop: Workshop, driver: Driver
    ) -> None:
        client, end = await self.fetched(shop, driver)

        async def dies() -> None:
            async with driver.transaction() as transaction:
                await client.pilot.set_state_if_running_many(transaction, [end])
                raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await dies()
        assert await shop.own() == {"first": "staged", "second": "waiting", "third": "waiting"}
        assert (await shop.row(end.job.id))["state"] == "running"

    async def test_a_client_that_dies_leaves_its_tasks_to_others(
        self, shop: Workshop, driver: Driver
    ) -> None:
        _, end = await self.fetched(shop, driver)
        # As rescuers do.
        await shop.connection.execute(
            "update river_job set state = 'available' where id = %s", [end.job.id]
        )
        client = await shop.start()
        await shop.ended()
        # Its outcome arrives late, for an attempt that was lost.
        async with driver.transaction() as transaction:
            late = end._replace(change=end.change._replace(state=JobState.DISCARDED))
            await client.pilot.set_state_if_running_many(transaction, [late])
        assert set((await shop.tasks()).values()) == {"completed"}

    async def test_two_batches_that_end_tasks_of_the_same_workflows_wait_for_one_another(
        self, shop: Workshop, driver: Driver
    ) -> None:
        client = shop.make(queues={}, workers=None)
        for _ in range(10):
            workflow = client.workflows.new()
            workflow.map("part", [Step() for _ in range(4)], then=Step())
            await workflow.insert()
        async with driver.transaction() as transaction:
            rows = await client.pilot.get_available(
                transaction, JobFetchParams(client_id="x", queue="default", limit=99)
            )
        ends = [
            JobEnd(
                row,
                JobSetStateParams(
                    id=row.id, state=JobState.COMPLETED, finalized_at=datetime.now(UTC),
                    of_attempt=row.attempt,
                ),
            )
            for row in rows
        ]  # fmt: skip
        Random(1).shuffle(ends)

        async def write(some: list[JobEnd]) -> None:
            async with driver.transaction() as transaction:
                await client.pilot.set_state_if_running_many(transaction, some)

        await asyncio.gather(*(write(ends[start::8]) for start in range(8)))
        states = await shop.rows(
            "select state, waits_for from riverui_workflow_task where name = 'after part'"
        )
        assert [(row["state"], row["waits_for"]) for row in states] == [("staged", 0)] * 10
