"""Workflows through several attempts: retried in each mode, cancelled, added to, and waiting for
signals and timers. After each of these they are as a small model says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui import SignalTerm, TimerTerm, Wait
from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.engine.client import Client
from riverui.engine.feature_list import plain_pilot
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.work.worker import Job, JobCancel
from riverui.features.workflows.domain.workflows import RETRY_MODES
from riverui.features.workflows.engine.services import StrayTaskFinder
from riverui.features.workflows.engine.workflow import Workflow
from riverui.storage.interface import Driver
from tests.features.conftest import Workshop, service_context
from tests.features.histories import SEEDS

ENDS = ("completed", "completed", "completed", "discarded", "cancelled")
"""How a task may end; most end well."""
WAITS = ("", "", "", "signal", "timer", "either")
"""What a task may wait for besides other tasks."""
WORKFLOWS = 12
"""Tasks of a history: few enough to complete within seconds."""


@dataclass
class Act:
    """The args of a task: how each attempt ends, and all later ones succeed."""

    kind: ClassVar[str] = "act"
    ends: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Planned:
    """A task of a made-up workflow."""

    deps: tuple[str, ...]
    ends: list[str]
    ignores: frozenset[str]
    waits: str


class Model:
    """The expected state of a workflow."""

    def __init__(self, workflow: Workflow) -> None:
        self.cancelled = False
        """Whether its newest attempt was cancelled: no tasks can be added then."""
        self.id = workflow.id
        self.plan: dict[str, Planned] = {}
        self.runs: Counter[str] = Counter()
        """How often each task was worked."""
        self.states: dict[str, str] = {}

    def invent(self, random: Random, count: int) -> Sequence[str]:
        """Add so many tasks, which wait for some of those before them; return their names."""
        first = len(self.plan)
        for number in range(first, first + count):
            before = list(self.plan)
            self.plan[f"t{number}"] = Planned(
                deps=tuple(random.sample(before, random.randint(0, min(3, len(before))))),
                ends=random.choices(ENDS, k=random.randint(1, 4)),
                ignores=frozenset(s for s in ("cancelled", "discarded") if random.random() < 0.25),
                waits=random.choice(WAITS),
            )
        return list(self.plan)[first:]

    def run(self, names: Collection[str]) -> None:
        """Work these tasks; each fails with one that it waits for, unless it ignores that."""
        for name, task in self.plan.items():
            if name not in names:
                continue
            self.states[name] = "cancelled"
            if all(self.states[dep] in {"completed", *task.ignores} for dep in task.deps):
                at = self.runs[name]
                self.states[name] = task.ends[at] if at < len(task.ends) else "completed"
                self.runs[name] += 1

    def chosen(self, mode: str) -> Collection[str]:
        """Return the tasks that a retry runs again."""
        if mode == "all":
            return set(self.plan)
        chosen = {name for name, state in self.states.items() if state != "completed"}
        if mode == "failed_and_downstream":
            for name, task in self.plan.items():
                if not chosen.isdisjoint(task.deps):
                    chosen.add(name)
        return chosen


class Theatre:
    """Runs workflows, and checks that no task begins before its dependencies."""

    def __init__(self, shop: Workshop, seed: int) -> None:
        self.early: list[str] = []
        self.models: list[Model] = []
        self.random = Random(seed)
        self.runs: Counter[tuple[str, str]] = Counter()
        self.shop = shop
        shop.workers.work(Act)(self._act)

    async def _act(self, job: Job[Act]) -> None:
        workflow_id, name = job.metadata_dict["workflow_id"], job.metadata_dict["task"]
        if await self.shop.rows(
            "select d.name from riverui_workflow_edge e join riverui_workflow_task d"
            " on d.workflow_id = e.workflow_id and d.name = e.dependency"
            " where e.workflow_id = %s and e.task = %s"
            " and d.state in ('waiting', 'wait', 'staged')",
            workflow_id,
            name,
        ):
            self.early.append(name)
        at = self.runs[workflow_id, name]
        end = job.args.ends[at] if at < len(job.args.ends) else "completed"
        if end == "discarded" and job.attempt < job.row.max_attempts:
            # A retry gives one more attempt, also to tasks that had none.
            raise ArithmeticError("as planned")
        self.runs[workflow_id, name] += 1
        match end:
            case "cancelled":
                raise JobCancel("as planned")
            case "discarded":
                raise ArithmeticError("as planned")

    async def begin(self, client: Client) -> None:
        """Insert a workflow."""
        workflow = client.workflows.new()
        model = Model(workflow)
        self.models.append(model)
        self._add(workflow, model, model.invent(self.random, self.random.randint(1, 8)))
        await workflow.insert()
        model.run(model.plan)
        await self._signal(client, model)

    async def go_on(self, client: Client, model: Model) -> None:
        """Retry a workflow that has ended, or add tasks to it."""
        mode: Any = self.random.choice(RETRY_MODES if model.cancelled else (*RETRY_MODES, "add"))
        model.cancelled = False
        if mode == "add":
            workflow = await client.workflows.load(model.id)
            names = model.invent(self.random, self.random.randint(1, 3))
            self._add(workflow, model, names)
            await workflow.insert()
            model.run(names)
        else:
            chosen = model.chosen(mode)
            reset = self.random.random() < 0.5
            assert len(await client.workflows.retry(model.id, mode, reset_history=reset)) == len(
                chosen
            )
            model.run(chosen)
        await self._signal(client, model)

    async def break_off(self, client: Client, model: Model) -> None:
        """Cancel a workflow in the middle of an attempt, and take over how it ended."""
        await client.workflows.retry(model.id, "all")
        await asyncio.sleep(self.random.random() * 0.05)
        await client.workflows.cancel(model.id)
        model.cancelled = True
        await self.shop.ended()
        rows = await self.shop.rows(
            "select name, state from riverui_workflow_task where workflow_id = %s", model.id
        )
        model.states = {row["name"]: row["state"] for row in rows}
        model.runs = Counter({name: self.runs[model.id, name] for name in model.plan})

    async def compare(self) -> None:
        """Wait until everything has ended, and compare it with the models."""
        await self.shop.ended()
        rows = await self.shop.rows(
            "select t.workflow_id as id, t.name, t.state, j.state::text as job"
            " from riverui_workflow_task t join river_job j on j.id = t.job_id"
        )
        found = {(row["id"], row["name"]): row["state"] for row in rows}
        assert found == {
            (model.id, name): state for model in self.models for name, state in model.states.items()
        }
        assert all(row["state"] == row["job"] for row in rows)
        assert +self.runs == +Counter(
            {(model.id, name): n for model in self.models for name, n in model.runs.items()}
        )
        assert self.early == []
        await self.shop.consistent()

    def _add(self, workflow: Workflow, model: Model, names: Sequence[str]) -> None:
        for name in names:
            task = model.plan[name]
            terms: list[SignalTerm | TimerTerm] = []
            if task.waits in ("signal", "either"):
                terms.append(SignalTerm("sent", key=name))
            if task.waits in ("timer", "either"):
                terms.append(TimerTerm("late", after=timedelta(seconds=self.random.random() / 10)))
            workflow.add(
                name,
                Act(task.ends),
                InsertOpts(max_attempts=1, priority=self.random.randint(1, 4)),
                deps=task.deps,
                ignore_cancelled_deps="cancelled" in task.ignores,
                ignore_discarded_deps="discarded" in task.ignores,
                wait=Wait(" || ".join(term.name for term in terms), terms) if terms else None,
            )

    async def _signal(self, client: Client, model: Model) -> None:
        """Send each signal that a task of this attempt waits for."""
        for name, task in model.plan.items():
            if task.waits == "signal":
                await client.workflows.signal(model.id, name)


@pytest.mark.scaled
@pytest.mark.parametrize("seed", SEEDS)
async def test_attempts_come_out_as_the_model_says(shop: Workshop, seed: int) -> None:
    theatre = Theatre(shop, seed)
    at_once = {
        "retry_policy": lambda _: datetime.now(UTC),
        "workflow_timer_poller_interval": timedelta(milliseconds=50),
    }
    first = await shop.start(id="first", leader_election_disabled=False, **at_once)
    clients = [first, await shop.start(id="second", **at_once)]
    for _ in range(WORKFLOWS):
        await theatre.begin(theatre.random.choice(clients))
    await theatre.compare()
    for _ in range(3):
        for model in theatre.models:
            await theatre.go_on(theatre.random.choice(clients), model)
        await theatre.compare()
        await theatre.break_off(first, theatre.random.choice(theatre.models))


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_gets_stuck_whatever_people_do_meanwhile(
    shop: Workshop, driver: Driver, seed: int
) -> None:
    theatre = Theatre(shop, seed)
    settings = {"retry_policy": lambda _: datetime.now(UTC), "leader_election_disabled": False}
    clients = [await shop.start(id=name, **settings) for name in ("first", "second")]
    await asyncio.gather(
        *(theatre.begin(theatre.random.choice(clients)) for _ in range(30)),
        *(_meddle(shop, clients[0], driver, Random(seed * 10 + n)) for n in range(3)),
    )
    # Another client, without workflows, deletes some as well.
    await shop.connection.execute("delete from river_job where state <> 'running' and id % 7 = 0")
    finder = StrayTaskFinder(service_context(driver))

    async def over() -> bool:
        await finder.run_once()
        return not await shop.rows("select id from riverui_workflow where ended_at is null")

    await shop.until(over)
    assert await shop.rows("select id from river_job where finalized_at is null") == []
    assert await finder.run_once() == 0


async def _meddle(shop: Workshop, client: Client, driver: Driver, random: Random) -> None:
    """Cancel, delete and retry jobs, and cancel workflows, at random."""
    pilot = plain_pilot()
    async with await AsyncConnection.connect(shop.database_url, autocommit=True) as connection:
        for _ in range(25):
            if random.random() < 0.15:
                query = "select id from riverui_workflow where ended_at is null limit 1"
                for (workflow_id,) in await (await connection.execute(query)).fetchall():
                    await client.workflows.cancel(workflow_id)
                continue
            query = "select id from river_job order by random() limit 4"
            ids = [row[0] for row in await (await connection.execute(query)).fetchall()]
            verb = random.choice((CANCEL, DELETE, RETRY, RETRY))
            await jobs.apply(driver, verb, ids, pilot=pilot)
