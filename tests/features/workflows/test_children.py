"""Workflows that a job has started and waits for: they are cancelled and retried with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import pytest

from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.engine.client import Client, client_from_context
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.queue_config import QueueConfig
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job
from riverui.errors import WorkflowCancelled
from riverui.features.workflows.engine.services import ForsakenWorkflowFinder
from riverui.features.workflows.verbs import workflows
from riverui.features.workflows.verbs.jobs import MAX_BELOW
from riverui.storage.interface import Driver
from tests.features.conftest import Step, Workshop, chain, service_context

ELSEWHERE = InsertOpts(queue="elsewhere")
"""A queue that no client works."""


@dataclass
class Parent:
    """The args of a job that waits for a workflow of its own, of so many levels."""

    kind: ClassVar[str] = "parent"
    levels: int = 1
    steps: int = 2


class Family:
    """Jobs that wait for workflows, while no client works the innermost one."""

    def __init__(self, shop: Workshop, driver: Driver) -> None:
        self.driver = driver
        self.shop = shop
        self.steps = ELSEWHERE
        shop.workers.work(Parent)(self.parent)

    async def parent(self, job: Job[Parent]) -> None:
        """Wait for a workflow that contains the next level."""
        child = client_from_context().workflows.new("child", parent=job)
        for number in range(job.args.steps):
            child.add(f"step {number}", Step(), self.steps)
        child.add("after", Step(), deps=["step 0"])
        if job.args.levels > 1:
            child.add("parent", Parent(job.args.levels - 1))
        await child.run()

    async def begun(self, client: Client, levels: int = 1) -> int:
        """Insert a job that waits; return its id once everything below it exists."""
        before = len(await self.waiting())
        result = await client.insert(Parent(levels))

        async def there() -> bool:
            return len(await self.waiting()) == before + levels

        await self.shop.until(there)
        return result.job.id

    async def waiting(self) -> list[str]:
        """Return the ids of workflows that jobs wait for, the first started first."""
        rows = await self.shop.rows(
            "select w.id from riverui_workflow w join river_job j on j.id = w.parent_job_id"
            " where j.state = 'scheduled' order by j.id"
        )
        return [row["id"] for row in rows]

    async def ids(self, name: str) -> list[int]:
        """Return the jobs of tasks of a name."""
        rows = await self.shop.rows(
            "select job_id from riverui_workflow_task where name = %s order by job_id", name
        )
        return [row["job_id"] for row in rows]

    async def states(self) -> set[str]:
        """Return the states of all tasks below."""
        await self.shop.consistent()
        return set((await self.shop.tasks()).values())

    async def do(self, verb: JobVerb, *ids: int) -> None:
        """Run a verb as a dashboard without a client does."""
        await jobs.apply(self.driver, verb, ids, pilot=plain_pilot())

    def finder(self, client: Client, *, most: int = 100) -> ForsakenWorkflowFinder:
        """Return the leader's service."""
        context = service_context(self.driver)
        return ForsakenWorkflowFinder(context, most=most)


@pytest.fixture
def family(shop: Workshop, driver: Driver) -> Family:
    """Return a family in the workshop."""
    return Family(shop, driver)


@pytest.mark.parametrize("by", ["dashboard", "client", "deleting"])
async def test_whoever_cancels_a_job_cancels_what_it_waits_for(
    shop: Workshop, family: Family, by: str
) -> None:
    client = await shop.start()
    job_id = await family.begun(client, levels=3)
    if by == "client":
        await client.job_cancel(job_id)
    else:
        await family.do(CANCEL if by == "dashboard" else DELETE, job_id)
    assert await family.states() == {"cancelled"}
    rows = await shop.rows("select id from riverui_workflow where cancelled_at is null")
    assert rows == []


async def test_a_workflow_is_cancelled_with_those_that_its_tasks_wait_for(
    shop: Workshop, family: Family
) -> None:
    client = await shop.start()
    workflow = client.workflows.new("above")
    first = workflow.add("first", Parent())
    workflow.add("second", Step(), deps=[first])
    await workflow.insert()
    beside = chain(client.workflows.new("beside"), "a", "b")
    beside.add("c", Step(), ELSEWHERE, deps=["b"])
    await beside.insert()

    async def waits() -> bool:
        return (await shop.own()).get("step 0") == "staged"

    await shop.until(waits)
    await shop.in_state((await shop.ids())["first"], "scheduled")
    touched = await workflows.cancel(family.driver, workflow.id)
    assert len(touched) == 2
    tasks = await shop.tasks()
    assert {tasks[name] for name in ("first", "second", "step 0", "step 1", "after")} == {
        "cancelled"
    }
    assert tasks["c"] != "cancelled"


async def test_a_running_job_that_is_asked_to_stop_has_its_workflow_cancelled(
    shop: Workshop, family: Family
) -> None:
    client = await shop.start()
    job_id = await family.begun(client)
    await client.stop()
    await shop.connection.execute("update river_job set state = 'running' where id = %s", [job_id])
    await family.do(CANCEL, job_id)
    assert await family.states() == {"cancelled"}
    assert (await shop.row(job_id))["state"] == "running"


@pytest.mark.parametrize("state", ["completed", "cancelled"])
async def test_a_job_that_has_ended_before_takes_nothing_with_it(
    shop: Workshop, family: Family, state: str
) -> None:
    """A completed job does not affect its workflow; an ended job cannot be cancelled."""
    client = await shop.start()
    job_id = await family.begun(client)
    await client.stop()
    await shop.connection.execute(
        "update river_job set state = %s, finalized_at = now() where id = %s", [state, job_id]
    )
    await family.do(DELETE if state == "completed" else CANCEL, job_id)
    assert "cancelled" not in await family.states()


async def test_the_leader_cancels_what_nobody_waits_for_any_more(
    shop: Workshop, family: Family
) -> None:
    client = await shop.start()
    job_id = await family.begun(client, levels=2)
    await family.begun(client)
    *_, other = await family.waiting()
    await client.stop()
    finder = family.finder(client, most=2)
    assert await finder.run_once() == 0
    # By Go's client, which does not know workflows.
    await shop.connection.execute(
        "update river_job set state = 'cancelled', finalized_at = now() where id = %s", [job_id]
    )
    # Each round reads two workflows, and starts over after the last one.
    rounds = [await finder.run_once() for _ in range(6)]
    assert sum(rounds) == 1
    open_ids = await shop.rows("select id from riverui_workflow where ended_at is null")
    assert [row["id"] for row in open_ids] == [other]
    await shop.consistent()


@pytest.mark.parametrize("by", ["job", "workflow"])
async def test_what_was_cancelled_with_a_job_is_retried_with_it(
    shop: Workshop, family: Family, by: str
) -> None:
    client = await shop.start()
    workflow = client.workflows.new("above")
    workflow.add("first", Parent(2))
    await workflow.insert()

    async def there() -> bool:
        return len(await family.waiting()) == 2

    await shop.until(there)
    # Tasks that ended before do not change.
    await family.do(DELETE, (await family.ids("step 1"))[0])
    first = (await shop.ids())["first"]
    if by == "job":
        await family.do(CANCEL, first)
        await family.do(RETRY, first)
    else:
        await client.workflows.cancel(workflow.id)
        await client.workflows.retry(workflow.id)
    tasks = await shop.tasks()
    assert "cancelled" not in tasks.values()
    assert tasks["after"] == "pending"
    await shop.consistent()
    await client.queues.add("elsewhere", QueueConfig(max_workers=5))
    await shop.ended()
    assert (await shop.row(first))["state"] == "completed"
    rows = await shop.rows("select state, count(*) from riverui_workflow_task group by 1")
    assert {row["state"]: row["count"] for row in rows} == {"completed": 7, "deleted": 1}


async def test_a_workflow_retried_by_itself_runs_without_its_parent(
    shop: Workshop, family: Family
) -> None:
    client = await shop.start()
    job_id = await family.begun(client)
    (child,) = await family.waiting()
    await client.job_cancel(job_id)
    finder = family.finder(client)
    await client.workflows.retry(child)
    assert await finder.run_once() == 0
    await client.queues.add("elsewhere", QueueConfig(max_workers=5))
    await shop.ended()
    assert await family.states() == {"completed"}


async def test_more_below_than_one_transaction_takes_are_left_to_the_leader(
    shop: Workshop, family: Family
) -> None:
    client = shop.make(queues={})
    above = await client.insert(Step())
    for number in range(MAX_BELOW + 5):
        child = client.workflows.new(str(number), parent=above.job)
        child.add("a", Step())
        await child.insert()
    await client.job_cancel(above.job.id)
    open_ids = await shop.rows("select id from riverui_workflow where ended_at is null")
    assert len(open_ids) == 5
    assert await family.finder(client).run_once() + await family.finder(client).run_once() == 5


async def test_nothing_is_added_to_what_was_cancelled_with_its_parent(
    shop: Workshop, family: Family
) -> None:
    client = shop.make(queues={})
    above = await client.insert(Step())
    child = client.workflows.new("child", parent=above.job)
    await chain(child, "a").insert()
    await client.job_cancel(above.job.id)
    child.add("b", Step())
    with pytest.raises(WorkflowCancelled):
        await child.insert()


async def test_a_synchronous_client_begins_workflows_of_a_job_too(
    shop: Workshop, family: Family
) -> None:
    client = shop.make(queues={})
    above = await client.insert(Step())
    with SyncClient(shop.database_url) as river:
        child = river.workflows.new("child", parent=above.job)
        child.add("a", Step())
        child.insert()
        assert child.id == client.workflows.new("child", parent=above.job).id
    await client.job_cancel(above.job.id)
    assert await family.states() == {"cancelled"}


async def test_the_end_of_a_workflow_and_the_cancelling_of_its_parent_wait_for_one_another(
    shop: Workshop, family: Family
) -> None:
    """Whichever comes first, neither blocks the other and nothing is stuck."""
    family.steps = InsertOpts()
    client = await shop.start()
    ids = [(await client.insert(Parent(2, 1))).job.id for _ in range(20)]
    await asyncio.gather(*(client.job_cancel(job_id) for job_id in ids))

    async def over() -> bool:
        await family.finder(client).run_once()
        return not await shop.rows("select from river_job where finalized_at is null")

    await shop.until(over)
    assert await shop.rows("select id from riverui_workflow where ended_at is null") == []
