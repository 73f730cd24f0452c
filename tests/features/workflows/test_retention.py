"""How long tasks and workflows are kept: open ones are kept together with their dependencies."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.lead.maintenance.job_cleaner import Cleaning, JobCleaner
from riverui.engine.lead.maintenance.service import BatchSize, ServiceContext, Timing
from riverui.engine.pilot import Pilot
from riverui.engine.retention import Retention
from riverui.engine.work.context import record_output
from riverui.engine.work.worker import Job
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.retention.engine import QueueRetention
from riverui.features.workflows.engine.feature import Workflows
from riverui.features.workflows.engine.retention import OpenWorkflowKeeper
from riverui.features.workflows.engine.services import StrayTaskFinder, WorkflowCleaner
from riverui.storage.interface import Driver
from tests.engine.conftest import Task
from tests.features.conftest import Step, Workshop, chain

LATER = timedelta(days=30)
"""A time at which all finished jobs are past their retention."""
ELSEWHERE = InsertOpts(queue="elsewhere")
"""A queue that no client works."""


class NoWait(Timing):
    """Services that do not hold still."""

    async def pause(self) -> None:
        return


class Keeping:
    """The leader's cleaners, a month later."""

    def __init__(self, shop: Workshop, driver: Driver) -> None:
        self.driver = driver
        self.shop = shop

    def context(self, pilot: Pilot | None = None) -> ServiceContext:
        """Return the context of a leader's services."""
        return ServiceContext(
            driver=self.driver,
            clock=lambda: datetime.now(UTC) + LATER,
            delete_before=None if pilot is None else pilot.delete_before,
            logger=logging.getLogger("test"),
            timing=NoWait(),
        )

    def jobs(self, client: Client, *, size: int = 10_000) -> JobCleaner:
        """Return the leader's cleaner of jobs."""
        return JobCleaner(self.context(client.pilot), size=BatchSize(full=size, reduced=size))

    def workflows(self, **given: Any) -> WorkflowCleaner:
        """Return the cleaner of workflows."""
        return WorkflowCleaner(self.context(), after=given.pop("after", None), **given)

    async def left(self) -> int:
        """Return how many jobs are left."""
        return len(await self.shop.rows("select from river_job"))


@pytest.fixture
def keeping(shop: Workshop, driver: Driver) -> Keeping:
    """Return the cleaners of a workshop."""
    return Keeping(shop, driver)


async def half_done(client: Client, shop: Workshop, finished: int = 2) -> str:
    """Return a workflow of which some tasks have finished, and the last waits for a queue."""
    workflow = client.workflows.new()
    for number in range(finished):
        workflow.add(f"first {number}", Step())
    workflow.add("last", Step(), ELSEWHERE, deps=[f"first {number}" for number in range(finished)])
    jobs = await workflow.insert()
    await shop.in_state(jobs[-1].job.id, "available")
    return workflow.id


async def test_finished_tasks_stay_while_a_later_one_may_ask_for_them(
    shop: Workshop, keeping: Keeping
) -> None:
    seen: list[Any] = []

    async def work(job: Job[Task]) -> None:
        if job.args.value == "first":
            record_output({"n": 1})
            return
        tasks = await (await shop.client.workflows.load(job)).load_deps("last")
        seen.append(tasks.output("first"))

    shop.worker(work)
    client = await shop.start()
    workflow = client.workflows.new()
    workflow.add("first", Task("first"))
    workflow.add("last", Task("last"), ELSEWHERE, deps=["first"])
    first, last = await workflow.insert()
    other = await client.insert(Step("other"))
    await shop.in_state(last.job.id, "available")
    await shop.in_state(other.job.id, "completed")
    assert await keeping.jobs(client).run_once() == 1
    assert (await shop.row(first.job.id))["state"] == "completed"
    assert await keeping.workflows().run_once() == 0
    await client.queues.add("elsewhere", QueueConfig(max_workers=5))
    await shop.ended()
    assert seen == [{"n": 1}]
    assert await keeping.jobs(client).run_once() == 2
    # It is deleted when its last job is.
    assert await keeping.workflows().run_once() == 1
    for table in ("riverui_workflow", "riverui_workflow_task", "riverui_workflow_edge"):
        assert await shop.rows(f"select from {table}") == []


@pytest.mark.long
@pytest.mark.parametrize("most_looks", [1, 2, 10])
async def test_what_is_held_does_not_stand_before_the_rest(
    shop: Workshop, keeping: Keeping, most_looks: int
) -> None:
    client = await shop.start()
    await client.insert_many([InsertManyParams(Step())] * 4)
    for _ in range(4):
        await half_done(client, shop, finished=5)
        await client.insert_many([InsertManyParams(Step())] * 4)

    async def done() -> bool:
        rows = await shop.rows("select from river_job where state = 'completed'")
        return len(rows) == 40

    await shop.until(done)
    feature = Workflows()
    feature._keeper = OpenWorkflowKeeper(most_looks=most_looks)  # noqa: SLF001
    cleaner = JobCleaner(keeping.context(Pilot([feature])), size=BatchSize(full=3, reduced=3))
    rounds = [await cleaner.run_once() for _ in range(40)]
    assert sum(rounds) == 20
    assert await keeping.left() == 24
    # Kept jobs are deleted as soon as their workflows have ended.
    await shop.connection.execute(
        "update riverui_workflow set open = 0, ended_at = now() where id in ("
        " select id from riverui_workflow order by id limit 2)"
    )
    rounds = [await cleaner.run_once() for _ in range(40)]
    assert sum(rounds) == 10
    await shop.connection.execute(
        "update riverui_workflow w set ended_at = null, open = ("
        " select count(*) from riverui_workflow_task t"
        " where t.workflow_id = w.id and t.state in ('waiting', 'wait', 'staged'))"
    )


async def test_many_that_finished_at_one_moment_do_not_stand_before_the_rest(
    shop: Workshop, keeping: Keeping
) -> None:
    client = await shop.start()
    await half_done(client, shop, finished=20)
    await client.insert_many([InsertManyParams(Step())] * 9)

    async def done() -> bool:
        rows = await shop.rows("select from river_job where state = 'completed'")
        return len(rows) == 29

    await shop.until(done)
    await shop.connection.execute(
        "update river_job set finalized_at = '2026-01-01' where metadata ? 'workflow_id'"
        " and state = 'completed'"
    )
    cleaner = keeping.jobs(client, size=4)
    assert sum([await cleaner.run_once() for _ in range(10)]) == 9
    assert await keeping.left() == 21


async def test_queues_with_periods_of_their_own_and_dead_letters_hold_them_too(
    shop: Workshop, keeping: Keeping
) -> None:
    retention = QueueRetention({"own": Retention(discarded=timedelta(hours=1))})
    client = shop.make(dead_letter=DeadLetterConfig(enabled=True), features=[retention], queues={})
    workflow = client.workflows.new()
    for name, queue in (("a", "own"), ("b", "default")):
        workflow.add(name, Step(), InsertOpts(queue=queue))
    workflow.add("last", Step(), deps=["a"], ignore_discarded_deps=True)
    await workflow.insert()
    await client.insert_many([InsertManyParams(Step(), InsertOpts(queue=q)) for q in ("own", "x")])
    await shop.connection.execute(
        "update river_job set state = 'discarded', finalized_at = now(), errors = '{}'"
        " where state = 'available'"
    )
    own = retention.services(keeping.context(client.pilot))[0]
    cleaner = JobCleaner(keeping.context(client.pilot), Cleaning(queues_excluded=["own"]))
    assert (await own.run_once(), await cleaner.run_once()) == (1, 1)
    assert set(await shop.tasks()) == {"a", "b", "last"}
    await StrayTaskFinder(keeping.context()).run_once()
    await client.workflows.cancel(workflow.id)
    assert (await own.run_once(), await cleaner.run_once()) == (1, 2)
    dead = await shop.rows("select state from riverui_dead_job")
    assert [row["state"] for row in dead] == ["discarded"] * 4


async def test_a_workflow_stays_while_its_parent_waits_for_it(
    shop: Workshop, keeping: Keeping
) -> None:
    client = await shop.start()
    above = await client.insert(Step(), ELSEWHERE)
    child = client.workflows.new("child", parent=above.job)
    await chain(child, "a", "b").insert()
    await shop.ended()
    assert await keeping.jobs(client).run_once() == 0
    assert await keeping.workflows(after=timedelta(hours=1)).run_once() == 0
    assert len(await child.load_all()) == 2
    await client.job_cancel(above.job.id)
    assert await keeping.jobs(client).run_once() == 3
    assert await keeping.workflows().run_once() == 1


async def test_workflows_go_when_their_last_job_is_gone_page_by_page(
    shop: Workshop, keeping: Keeping
) -> None:
    client = shop.make(queues={})
    ids = []
    for _ in range(7):
        workflow = chain(client.workflows.new(), "a", "b")
        await workflow.insert()
        ids.append(workflow.id)
        await client.workflows.signal(workflow.id, "key", 1)
    for workflow_id in ids[:6]:
        await client.workflows.cancel(workflow_id)
    # Some have no jobs left, one has a single job; the last one is open.
    gone = [ids[0], ids[2], ids[3], ids[5], ids[6]]
    await shop.connection.execute(
        "delete from river_job where metadata ->> 'workflow_id' = any(%s)", [gone]
    )
    await shop.connection.execute(
        "delete from river_job where metadata ->> 'workflow_id' = %s and metadata ->> 'task' = 'a'",
        [ids[1]],
    )
    cleaner = keeping.workflows(most=2)
    assert await cleaner.run_once() == 4
    left = await shop.rows("select id from riverui_workflow")
    assert {row["id"] for row in left} == {ids[1], ids[4], ids[6]}
    signals = await shop.rows("select workflow_id from riverui_workflow_signal")
    assert {row["workflow_id"] for row in signals} == {ids[1], ids[4], ids[6]}
    assert await cleaner.run_once() == 0
    await client.job_delete((await shop.rows("select id from river_job order by id"))[0]["id"])
    assert await cleaner.run_once() == 1


class TestAnotherCleaner:
    """Go's cleaner, which does not know workflows, beside a leader that does."""

    async def clean(self, shop: Workshop) -> None:
        """Delete all finished jobs, as Go's cleaner does."""
        await shop.connection.execute("delete from river_job where finalized_at is not null")

    async def test_a_dependency_that_has_ended_and_is_deleted_holds_nobody_up(
        self, shop: Workshop
    ) -> None:
        client = await shop.start()
        workflow = client.workflows.new()
        workflow.add("first", Step())
        workflow.add("slow", Step(), ELSEWHERE)
        workflow.add("last", Step(), deps=["first", "slow"])
        jobs = await workflow.insert()
        await shop.in_state(jobs[0].job.id, "completed")

        async def noted() -> bool:
            return (await shop.own())["first"] == "completed"

        await shop.until(noted)
        await self.clean(shop)
        await client.queues.add("elsewhere", QueueConfig(max_workers=5))
        await shop.ended()
        assert set((await shop.own()).values()) == {"completed"}
        tasks = await (await client.workflows.load(workflow.id)).load_deps("last")
        assert tasks["first"].job is None

    @pytest.mark.parametrize("ignored", [True, False])
    async def test_one_that_it_worked_and_deleted_unseen_counts_as_deleted(
        self, shop: Workshop, keeping: Keeping, ignored: bool
    ) -> None:
        client = shop.make(queues={})
        workflow = client.workflows.new()
        workflow.add("first", Step())
        workflow.add("second", Step(), deps=["first"], ignore_deleted_deps=ignored)
        workflow.add("third", Step(), deps=["second"])
        await workflow.insert()
        await shop.connection.execute(
            "update river_job set state = 'completed', finalized_at = now()"
            " where metadata ->> 'task' = 'first'"
        )
        await self.clean(shop)
        assert await StrayTaskFinder(keeping.context()).run_once() == 1
        await shop.start()
        await shop.ended()
        after = "completed" if ignored else "cancelled"
        assert await shop.own() == {"first": "deleted", "second": after, "third": after}

    async def test_in_the_middle_of_everything(self, shop: Workshop, keeping: Keeping) -> None:
        client = await shop.start()
        finder = StrayTaskFinder(keeping.context())
        for _ in range(20):
            workflow = client.workflows.new()
            pages = workflow.map("page", [Step() for _ in range(5)], then=Step())
            assert pages.then is not None
            workflow.add("done", Step(), deps=[pages.then])
            await workflow.insert()
            await self.clean(shop)

        async def over() -> bool:
            await self.clean(shop)
            await finder.run_once()
            return not await shop.rows("select from riverui_workflow where ended_at is null")

        await shop.until(over)
        assert await shop.rows("select from river_job where finalized_at is null") == []
        await self.clean(shop)
        assert await keeping.workflows().run_once() == 20
