"""Thousands of tasks of workflows while everything around their workers fails.

Every task ends once, as the workflow's plan says; none begins before those that it waits for. What
is worked more often than it should was rescued from somebody who died, or whose database did.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow, dict_row

from riverui import Client, InsertManyParams, InsertOpts
from riverui.errors import RiveruiError
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.faults.server import Server
from tests.faults.workflow_worker import Act
from tests.interop.look import eventually
from tests.scale import FULL, scaled

pytestmark = pytest.mark.timeout(scaled(120, 1800))

_TASKS = scaled(700, 100_000)
_LATE = 10
"""One workflow of so many is inserted while things go wrong."""
_AT_ONCE = scaled(10, 50)
"""Workflows in one insert."""
_SLOTS = scaled(20, 100)
_OUTCOMES = ("completed",) * 17 + ("flaky", "flaky", "discarded")
_DATABASE = "workflows"


@dataclass(frozen=True)
class Planned:
    """A task of a made-up workflow."""

    deps: tuple[str, ...]
    outcome: str
    ignores: bool
    """Whether it is worked though one that it waits for failed."""


Plan = dict[str, Planned]


def made_up(random: Random) -> Plan:
    """Return a chain, a diamond, a join over many, or some tasks that wait for any before them."""
    shape = random.randrange(4)
    size = random.choice((4, 4, 8, 30)) if shape == 2 else random.randint(2, 8)
    deps: list[tuple[str, ...]] = []
    for number in range(size):
        before = [f"t{other}" for other in range(number)]
        if shape == 0:
            deps.append(tuple(before[-1:]))
        elif shape == 1:
            deps.append(() if not number else tuple(before[1:] if number == size - 1 else ["t0"]))
        elif shape == 2:
            deps.append(tuple(before) if number == size - 1 else ())
        else:
            deps.append(tuple(random.sample(before, random.randint(0, min(3, number)))))
    return {
        f"t{number}": Planned(waits, random.choice(_OUTCOMES), random.random() < 0.3)
        for number, waits in enumerate(deps)
    }


def expected(plan: Plan) -> dict[str, str]:
    """Return how each task ends."""
    states: dict[str, str] = {}
    for name, task in plan.items():
        met = task.ignores or all(states[dep] == "completed" for dep in task.deps)
        worked = "completed" if task.outcome == "flaky" else task.outcome
        states[name] = worked if met else "cancelled"
    return states


@dataclass
class Worker:
    """A client in a process of its own."""

    id: str
    process: Process


@dataclass
class Fleet:
    """The workers, and what is done to them."""

    server: Server
    url: str
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    begun: int = 0
    told: list[str] = field(default_factory=list)

    async def start(self) -> None:
        """Start one more worker."""
        self.begun += 1
        name = f"worker-{self.begun}"
        journal = str(self.folder / name)
        told = {"url": self.url, "id": name, "journal": journal, "queues": {"default": _SLOTS}}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.workflow_worker", json.dumps(told)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=None if FULL else asyncio.subprocess.DEVNULL,
        )
        self.workers.append(Worker(name, process))
        assert process.stdout is not None
        assert await process.stdout.readline() == b"started\n"

    async def kill(self, worker: Worker) -> None:
        """Kill a worker and start another one in its place."""
        self.workers.remove(worker)
        worker.process.kill()
        await worker.process.wait()
        await self.start()

    async def stop(self) -> None:
        """Let all workers end what they do."""
        for worker in self.workers:
            assert worker.process.stdin is not None
            worker.process.stdin.close()
        for worker in self.workers:
            assert await worker.process.wait() == 0

    async def leader(self) -> Worker | None:
        """Return who leads."""
        rows = await self.ask("select leader_id from river_leader")
        found = {worker.id: worker for worker in self.workers}
        return found.get(rows[0]["leader_id"]) if rows else None

    async def who_leads(self) -> Worker:
        """Wait until a worker leads, and return it."""
        leader = await eventually(self.leader, fits=lambda found: found is not None, within=60)
        assert leader is not None
        return leader

    # Each of these is a fault.

    async def kill_a_worker(self) -> None:
        await self.kill(self.workers[0])

    async def kill_the_leader(self) -> None:
        await self.kill(await self.who_leads())
        await self.end_term()

    async def two_leaders_for_a_moment(self) -> None:
        """Freeze the leader until another one leads, and let it go on as if it still did."""
        leader = await self.who_leads()
        leader.process.send_signal(signal.SIGSTOP)
        try:

            async def another_leads() -> bool:
                await self.end_term()
                return (await self.leader()) not in (None, leader)

            await eventually(another_leads, fits=bool, within=60, every=0.2)
        finally:
            leader.process.send_signal(signal.SIGCONT)

    async def cut_connections(self) -> None:
        await self.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and datname = current_database()"
        )

    async def restart_postgres(self) -> None:
        await asyncio.to_thread(self.server.stop)
        await asyncio.to_thread(self.server.start)

    async def crash_postgres(self) -> None:
        await asyncio.to_thread(self.server.crash)
        await asyncio.to_thread(self.server.start)

    async def end_term(self) -> None:
        """End the leader's term of 15 s now, as it would end if it said no more."""
        await self.ask("update river_leader set expires_at = now() - interval '1 s'")

    async def ask(self, statement: str) -> list[DictRow]:
        """Return what the database answers, as soon as there is one."""
        while True:
            with suppress(psycopg.OperationalError):
                async with await AsyncConnection.connect(
                    self.url, autocommit=True, row_factory=dict_row
                ) as connection:
                    cursor = await connection.execute(statement.encode())
                    return await cursor.fetchall() if cursor.description else []
            await asyncio.sleep(0.05)

    async def count(self, what: str) -> int:
        """Return the number of rows that a query has."""
        (row,) = await self.ask(f"select count(*) as count from {what}")
        return int(row["count"])


_FAULTS: list[Callable[[Fleet], Coroutine[Any, Any, None]]] = [
    Fleet.cut_connections,
    Fleet.kill_a_worker,
    Fleet.crash_postgres,
    Fleet.two_leaders_for_a_moment,
    Fleet.cut_connections,
    Fleet.kill_the_leader,
    Fleet.restart_postgres,
] * scaled(1, 5)


@pytest.fixture
async def fleet(server: Server, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Yield a fleet without workers on a database with riverui's own tables."""
    name = sql.Identifier(_DATABASE)
    url = server.url.replace("/faults", f"/{_DATABASE}")
    with psycopg.connect(server.admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(name))
        # What was committed must outlive a crash of the server.
        connection.execute(sql.SQL("alter database {} set synchronous_commit = on").format(name))
    driver = connect(url)
    await migrate(driver, "up")
    await migrate(driver, "up", line="riverui")
    await driver.close()
    fleet = Fleet(server, url, tmp_path)
    yield fleet
    for worker in fleet.workers:
        if worker.process.returncode is None:
            worker.process.kill()
            await worker.process.wait()
    with psycopg.connect(server.admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(name))


async def test_every_task_ends_once_and_none_begins_before_its_dependencies(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(12)
    plans: list[Plan] = []
    while sum(map(len, plans)) < _TASKS:
        plans.append(made_up(random))
    total = sum(map(len, plans))
    ids: dict[str, Plan] = {}
    client = Client(fleet.url)
    early = len(plans) * (_LATE - 1) // _LATE
    await _insert(fleet, client, plans[:early], ids)
    began = time.monotonic()
    await asyncio.gather(*(fleet.start() for _ in range(2)))
    late = asyncio.create_task(_insert(fleet, client, plans[early:], ids, pause=0.05))
    for number, fault in enumerate(_FAULTS, 1):
        goal = total * number // (len(_FAULTS) + 2)

        async def ended(goal: int = goal) -> bool:
            return await fleet.count("river_job where finalized_at is not null") >= goal

        await eventually(ended, fits=bool, within=300, every=0.1)
        await fault(fleet)
        fleet.told.append(fault.__name__)
    await late
    await _settle(fleet)
    seconds = time.monotonic() - began
    await fleet.stop()
    tally = await _judge(fleet, ids)
    with capsys.disabled():
        faults = ", ".join(
            f"{count} × {name.replace('_', ' ')}" for name, count in Counter(fleet.told).items()
        )
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(tally.items()))
        print(f"\n{total:,} tasks in {seconds:.0f} s through {faults}: {counts}")


async def _settle(fleet: Fleet) -> None:
    """Wait until all has ended. A new leader looks for stuck jobs at once, instead of every 30 s:
    those whose fetch was answered on a connection that was cut.
    """
    deadline = time.monotonic() + scaled(60, 300)
    while await fleet.count("river_job where finalized_at is null"):
        assert time.monotonic() < deadline, await fleet.ask(
            "select id, state::text, attempt, attempted_by, metadata from river_job"
            " where finalized_at is null limit 5"
        )
        with suppress(AssertionError):
            await eventually(
                lambda: fleet.count("river_job where finalized_at is null"),
                fits=lambda count: count == 0,
                within=3,
                every=0.1,
            )
        await fleet.ask(
            "select pg_notify(current_schema() || '.river_leadership',"
            ' \'{"action": "request_resign", "leader_id": ""}\')'
        )
    # The last tasks of one may have ended at the same time: the leader sees that a moment later.
    await eventually(
        lambda: fleet.count("riverui_workflow where ended_at is null"),
        fits=lambda count: count == 0,
        within=60,
        every=0.1,
    )


async def _insert(
    fleet: Fleet, client: Client, plans: Sequence[Plan], ids: dict[str, Plan], pause: float = 0
) -> None:
    """Insert workflows, each batch until it is there: an error may come after the commit."""
    for start in range(0, len(plans), _AT_ONCE):
        jobs: list[InsertManyParams] = []
        for plan in plans[start : start + _AT_ONCE]:
            workflow = client.workflows.new()
            for name, task in plan.items():
                workflow.add(
                    name,
                    Act(task.outcome),
                    InsertOpts(max_attempts=1 if task.outcome == "discarded" else 25),
                    deps=task.deps,
                    ignore_cancelled_deps=task.ignores,
                    ignore_discarded_deps=task.ignores,
                )
            jobs += workflow.prepare()
            ids[workflow.id] = plan
        while not await fleet.count(f"riverui_workflow where id = '{workflow.id}'"):
            with suppress(RiveruiError):
                await client.insert_many(jobs)
        await asyncio.sleep(pause)


@dataclass
class Work:
    """What was noted of one task."""

    starts: int = 0
    stops: int = 0
    """How often its client interrupted it, since it might have been thought dead."""
    ends: int = 0
    first_start: int = 0
    first_end: int = 0


def _journal(folder: Path) -> dict[int, Work]:
    """Return what all workers have noted, by job."""
    found: dict[int, Work] = {}
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            what, job_id, _, at = line.split()
            work = found.setdefault(int(job_id), Work())
            if what == "start":
                work.starts += 1
                work.first_start = min(work.first_start or int(at), int(at))
            elif what == "stop":
                work.stops += 1
            else:
                work.ends += 1
                work.first_end = min(work.first_end or int(at), int(at))
    return found


async def _judge(fleet: Fleet, ids: dict[str, Plan]) -> Counter[str]:
    """Fail for what was lost, doubled without need, or begun too early; count the rest."""
    rows = await fleet.ask(
        "select j.id, j.state::text, t.workflow_id as workflow, t.name as task, t.state as own,"
        " coalesce((j.metadata ->> 'river:rescue_count')::int, 0) as rescued"
        " from river_job j join riverui_workflow_task t on t.job_id = j.id"
    )
    assert await fleet.count("river_job") == len(rows) == sum(map(len, ids.values()))
    journal = await asyncio.to_thread(_journal, fleet.folder)
    works = {(row["workflow"], row["task"]): journal.get(row["id"], Work()) for row in rows}
    assert len(works) == len(rows)
    tally: Counter[str] = Counter()
    states = {key: expected(plan) for key, plan in ids.items()}
    for row in rows:
        plan, name = ids[row["workflow"]], row["task"]
        state, work = states[row["workflow"]][name], works[row["workflow"], name]
        told = f"{row}\n{plan}\n{work}"
        assert row["state"] == row["own"] == state, told
        normal = 0 if state == "cancelled" else 2 if plan[name].outcome == "flaky" else 1
        assert work.starts <= normal + row["rescued"] + work.stops, told
        assert work.ends <= (state == "completed") + row["rescued"], told
        assert work.starts >= normal or row["rescued"], told
        assert work.ends >= (state == "completed"), told
        for dep in plan[name].deps if work.starts else ():
            before = works[row["workflow"], dep]
            if states[row["workflow"]][dep] == "completed":
                assert work.first_start >= before.first_end > 0, f"{told}\nbefore {before}"
            assert work.first_start >= before.first_start, f"{told}\nbefore {before}"
        tally[state] += 1
        tally["rescued"] += row["rescued"] > 0
        tally["run to the end twice"] += work.ends > 1
        tally["starts"] += work.starts
    return tally
