"""Random workflows come out as a small model of them says, whoever works them and whatever happens
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import ClassVar

import psycopg
import pytest

from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.pilot import JobEnd
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job, JobCancel
from riverui.features.workflows.engine.services import StrayTaskFinder
from riverui.features.workflows.engine.workflow import SyncWorkflow, Workflow
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobFetchParams, JobSetStateParams
from tests.features.conftest import Workshop, chain

OUTCOMES = ("completed", "completed", "completed", "discarded", "cancelled")


@dataclass(frozen=True)
class Planned:
    """A task of a made-up workflow."""

    deps: tuple[str, ...]
    outcome: str
    """How it ends, should it be worked."""
    ignores: frozenset[str]


Plan = Mapping[str, Planned]


@dataclass
class Act:
    """The args of a task: how it is to end."""

    kind: ClassVar[str] = "act"
    outcome: str = "completed"


def made_up(random: Random) -> Plan:
    """Return a workflow of some tasks that wait for some of those before them."""
    plan: dict[str, Planned] = {}
    for number in range(random.randint(1, 12)):
        names = list(plan)
        plan[f"t{number}"] = Planned(
            deps=tuple(random.sample(names, random.randint(0, min(3, len(names))))),
            outcome=random.choice(OUTCOMES),
            ignores=frozenset(s for s in ("cancelled", "discarded") if random.random() < 0.25),
        )
    return plan


def expected(plan: Plan) -> dict[str, str]:
    """Return how each task ends: it fails with one that it waits for, unless it ignores that."""
    states: dict[str, str] = {}
    for name, task in plan.items():
        met = all(states[dep] in {"completed", *task.ignores} for dep in task.deps)
        states[name] = task.outcome if met else "cancelled"
    return states


def add(workflow: Workflow | SyncWorkflow, plan: Plan, random: Random) -> None:
    """Add the tasks of a plan in any order."""
    tasks = list(plan.items())
    random.shuffle(tasks)
    for name, task in tasks:
        workflow.add(
            name,
            Act(task.outcome),
            InsertOpts(max_attempts=1, priority=random.randint(1, 4)),
            deps=task.deps,
            ignore_cancelled_deps="cancelled" in task.ignores,
            ignore_discarded_deps="discarded" in task.ignores,
        )


class Stage:
    """Who works the tasks, and sees that none begins before those that it waits for have ended."""

    def __init__(self, shop: Workshop) -> None:
        self.early: list[str] = []
        self.plans: dict[str, Plan] = {}
        self.ended: set[tuple[str, str]] = set()
        self.begun: list[tuple[str, str]] = []
        shop.workers.work(Act)(self.act)

    async def act(self, job: Job[Act]) -> None:
        """Do what the plan says."""
        metadata = job.metadata_dict
        workflow_id, name = metadata["workflow_id"], metadata["task"]
        plan = self.plans[workflow_id]
        self.begun.append((workflow_id, name))
        states = expected(plan)
        for dep in plan[name].deps:
            worked = states[dep] == plan[dep].outcome and all(
                states[before] in {"completed", *plan[dep].ignores} for before in plan[dep].deps
            )
            if worked and (workflow_id, dep) not in self.ended:
                self.early.append(name)
        await asyncio.sleep(0)
        self.ended.add((workflow_id, name))
        if job.args.outcome == "cancelled":
            raise JobCancel("as planned")
        if job.args.outcome == "discarded":
            raise ArithmeticError("as planned")


@pytest.mark.parametrize("seed", range(3))
async def test_workflows_end_as_the_model_says(shop: Workshop, seed: int) -> None:
    random = Random(seed)
    stage = Stage(shop)
    first, second = await shop.start(id="first"), await shop.start(id="second")
    with SyncClient(shop.database_url) as river:
        for number in range(40):
            plan = made_up(random)
            client = (first, second, river)[number % 3]
            workflow = client.workflows.new()
            stage.plans[workflow.id] = plan
            add(workflow, plan, random)
            if isinstance(workflow, SyncWorkflow):
                await asyncio.to_thread(workflow.insert)
            else:
                await workflow.insert()
    await shop.ended()
    rows = await shop.rows(
        "select metadata ->> 'workflow_id' as id, metadata ->> 'task' as name, state::text"
        " from river_job"
    )
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["id"], {})[row["name"]] = row["state"]
    assert found == {key: expected(plan) for key, plan in stage.plans.items()}
    own = await shop.rows("select workflow_id as id, name, state from riverui_workflow_task")
    assert {(row["id"], row["name"]): row["state"] for row in own} == {
        (row["id"], row["name"]): row["state"] for row in rows
    }
    assert stage.early == []
    assert len(set(stage.begun)) == len(stage.begun)


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_gets_stuck_whatever_people_do_meanwhile(
    shop: Workshop, driver: Driver, seed: int
) -> None:
    random = Random(seed)
    stage = Stage(shop)
    clients = [await shop.start(id="first"), await shop.start(id="second")]
    workflows: list[Workflow] = []
    for _ in range(30):
        plan = made_up(random)
        workflow = random.choice(clients).workflows.new()
        stage.plans[workflow.id] = plan
        add(workflow, plan, random)
        workflows.append(workflow)
    await asyncio.gather(
        *(workflow.insert() for workflow in workflows),
        *(_meddle(shop, clients[0], driver, workflows, Random(seed * 10 + n)) for n in range(3)),
    )
    # Another client, which knows nothing of workflows, deletes some as well.
    await shop.connection.execute("delete from river_job where state <> 'running' and id % 7 = 0")
    context = ServiceContext(
        driver=driver, clock=lambda: datetime.now(UTC), logger=clients[0].logger
    )
    finder = StrayTaskFinder(context)

    async def over() -> bool:
        await finder.run_once()
        return not await shop.rows("select id from riverui_workflow where ended_at is null")

    await shop.until(over)
    assert await shop.rows("select id from river_job where finalized_at is null") == []
    assert await finder.run_once() == 0


async def _meddle(
    shop: Workshop, client: Client, driver: Driver, workflows: list[Workflow], random: Random
) -> None:
    """Cancel, delete and retry jobs and workflows at random."""
    pilot = plain_pilot()
    for _ in range(25):
        async with await psycopg.AsyncConnection.connect(shop.database_url) as connection:
            cursor = await connection.execute("select id from river_job order by random() limit 4")
            ids = [row[0] for row in await cursor.fetchall()]
        if random.random() < 0.15:
            workflow = random.choice(workflows)
            async with await psycopg.AsyncConnection.connect(shop.database_url) as connection:
                cursor = await connection.execute(
                    "select ended_at is null from riverui_workflow where id = %s", [workflow.id]
                )
                row = await cursor.fetchone()
            if row is not None and row[0]:
                await client.workflows.cancel(workflow.id)
            continue
        verb = random.choice((CANCEL, DELETE, RETRY, RETRY))
        await jobs.apply(driver, verb, ids, pilot=pilot)


class TestFaults:
    """A client that dies, and outcomes that come twice."""

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
        # As rescuers do it.
        await shop.connection.execute(
            "update river_job set state = 'available' where id = %s", [end.job.id]
        )
        client = await shop.start()
        await shop.ended()
        # Its outcome comes late, of an attempt that was lost.
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
            workflow.map("part", [Act() for _ in range(4)], then=Act())
            await workflow.insert()
        async with driver.transaction() as transaction:
            rows = await client.pilot.get_available(
                transaction, JobFetchParams(client_id="x", queue="default", limit=99)
            )
        random = Random(1)
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
        random.shuffle(ends)

        async def write(some: list[JobEnd]) -> None:
            async with driver.transaction() as transaction:
                await client.pilot.set_state_if_running_many(transaction, some)

        await asyncio.gather(*(write(ends[start::8]) for start in range(8)))
        states = await shop.rows(
            "select state, waits_for from riverui_workflow_task where name = 'after part'"
        )
        assert [(row["state"], row["waits_for"]) for row in states] == [("staged", 0)] * 10
