"""Waits: tasks that wait for signals, timers and conditions, and their stored state."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import set_executable
from multiprocessing.spawn import get_executable
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg.rows import tuple_row

from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import record_output
from riverui.engine.work.worker import Job
from riverui.errors import (
    NotFound,
    SchemaMissing,
    SignalAttemptMismatch,
    SignalConflict,
    SignalRefused,
    SignalUndeclared,
    WaitInvalid,
)
from riverui.features.workflows.engine.workflow import Workflow
from riverui.features.workflows.waits.domain import (
    AnyTerm,
    SignalTerm,
    Term,
    TimerTerm,
    Wait,
    task_finalized_at,
)
from riverui.features.workflows.waits.engine.service import WaitEvaluator
from riverui.features.workflows.waits.store import WaitStore
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from tests.drivers import connect
from tests.engine.conftest import Playground
from tests.features.conftest import service_context

APPROVED = SignalTerm("approved", "approval", "payload.amount > 2", "Approved")
UNTIL_APPROVED = Wait("approved", [APPROVED])


@dataclass
class Step:
    """The args of a task: its output."""

    kind: ClassVar[str] = "step"
    output: Any = None


@dataclass
class Fails:
    """The args of a task that fails."""

    kind: ClassVar[str] = "fails"


class Lobby(Playground):
    """A playground with the tables of workflows, in which a test evaluates the waits."""

    def __init__(self, driver: Driver, *given: Any) -> None:
        super().__init__(*given)
        self.driver = driver
        context = service_context(driver)
        self.evaluator = WaitEvaluator(context, interval=timedelta(seconds=1))
        self.workers.work(Step)(self.step)
        self.workers.work(Fails)(self.fail)

    async def step(self, job: Job[Step]) -> None:
        """Record the output given by the args."""
        if job.args.output is not None:
            record_output(job.args.output)

    async def fail(self, job: Job[Fails]) -> None:
        """Fail."""
        raise ArithmeticError("no")

    async def waiting(self, wait: Wait, *, name: str = "") -> Workflow:
        """Return a workflow of one task that waits."""
        workflow = ((self._clients and self.client) or self.make(queues={})).workflows.new(name)
        workflow.add("ship", Step(), wait=wait)
        await workflow.insert()
        return workflow

    async def look(self) -> int:
        """Evaluate due waits; return how many tasks were staged."""
        return await self.evaluator.run_once()

    async def task(self, workflow: Workflow, name: str = "ship") -> Any:
        """Return the row of a task, with its job's state and metadata."""
        (row,) = await self.rows(
            "select t.*, j.state::text as job_state, j.metadata from riverui_workflow_task t"
            " join river_job j on j.id = t.job_id where t.workflow_id = %s and t.name = %s",
            workflow.id,
            name,
        )
        return row

    async def until_waiting(self, workflow: Workflow) -> None:
        """Wait until the dependencies of the task `ship` have ended."""

        async def waits() -> bool:
            return bool((await self.task(workflow))["state"] == "wait")

        await self.until(waits)

    async def close(self) -> None:
        self.evaluator.close()
        await super().close()


@pytest.fixture
async def lobby(
    connection: psycopg.AsyncConnection[Any], database_url: str, driver: Driver, own_tables: None
) -> AsyncIterator[Lobby]:
    """Yield a playground with the tables of workflows and signals."""
    lobby = Lobby(driver, connection, database_url)
    yield lobby
    await lobby.close()


@pytest.fixture
def client(lobby: Lobby) -> Client:
    """Return a client that only inserts."""
    return lobby.make(queues={})


async def test_a_task_waits_for_a_signal_that_fits(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    row = await lobby.task(workflow)
    assert (row["state"], row["job_state"]) == ("wait", "pending")
    assert row["metadata"]["river:workflow_wait"]["expr"] == "approved"
    assert await lobby.look() == 0
    state = (await lobby.task(workflow))["metadata"]["river:workflow_wait_state"]
    assert list(state) == ["started_at"]
    await client.workflows.signal(workflow.id, "approval", {"amount": 1})
    await client.workflows.signal(workflow.id, "other", {"amount": 9})
    assert await lobby.look() == 0
    fitting = await client.workflows.signal(
        workflow.id, "approval", {"amount": 3}, source={"by": "ada"}
    )
    assert await lobby.look() == 1
    row = await lobby.task(workflow)
    assert (row["state"], row["job_state"]) == ("staged", "available")
    assert "workflow_staged_at" in row["metadata"]
    kept = row["metadata"]["river:workflow_wait_state"]
    assert datetime.fromisoformat(kept["resolved_at"]) >= datetime.fromisoformat(kept["started_at"])
    result = kept["result"]
    assert (result["attempt"], result["summary"]) == (1, "Approved")
    assert result["signals"] == {"approval": {"included_count": 2, "last_included_id": fitting.id}}
    assert result["terms"] == [
        {"kind": "signal", "label": "Approved", "last_matched_id": fitting.id, "matched_count": 1,
         "name": "approved", "required_count": 1, "satisfied": True, "signal_key": "approval"}
    ]  # fmt: skip


async def test_later_signals_change_nothing_of_what_is_kept(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    assert await lobby.look() == 1
    before = await lobby.task(workflow)
    await client.workflows.signal(workflow.id, "approval", {"amount": 4})
    assert await lobby.look() == 0
    assert await lobby.task(workflow) == before
    latest = await client.workflows.signal_latest(workflow.id, "ship", "approval")
    assert latest is not None
    assert latest.payload == {"amount": 4}


async def test_dependencies_come_first_and_signals_may_come_before_them(lobby: Lobby) -> None:
    client = await lobby.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Step())
    workflow.add("ship", Step(), deps=[first], wait=UNTIL_APPROVED)
    async with await psycopg.AsyncConnection.connect(lobby.database_url) as tx:
        _, ship = await workflow.insert_tx(tx)
        await client.workflows.signal_tx(tx, workflow.id, "approval", {"amount": 3})
        assert await lobby.look() == 0
        await tx.commit()

    await lobby.until_waiting(workflow)
    assert await lobby.look() == 1
    await lobby.in_state(ship.job.id, "completed")
    row = await lobby.task(workflow)
    first_row = await lobby.task(workflow, "first")
    started = row["metadata"]["river:workflow_wait_state"]["started_at"]
    assert datetime.fromisoformat(started) == first_row["ended_at"]


async def test_the_leader_looks_by_itself(lobby: Lobby) -> None:
    client = await lobby.start(
        leader_election_disabled=False,
        workflow_timer_poller_interval=timedelta(milliseconds=20),
    )
    soon = TimerTerm("soon", after=timedelta(milliseconds=50))
    workflow = await lobby.waiting(Wait("approved && soon", [APPROVED, soon]))
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    await lobby.in_state((await lobby.task(workflow))["job_id"], "completed")


async def test_timers_fire_at_their_time_and_are_not_looked_at_before(lobby: Lobby) -> None:
    now = datetime.now(UTC)
    at = now + timedelta(hours=2)
    wait = Wait(
        "late || at_ten",
        [TimerTerm("late", after=timedelta(minutes=30)), TimerTerm("at_ten", at)],
    )
    workflow = await lobby.waiting(wait)
    assert await lobby.look() == 0
    row = await lobby.task(workflow)
    late = row["created_at"] + timedelta(minutes=30)
    assert row["wait_due_at"] == late
    timers = row["metadata"]["river:workflow_wait_state"]["timers"]
    assert datetime.fromisoformat(timers["late"]["fire_at"]) == late
    assert datetime.fromisoformat(timers["at_ten"]["fire_at"]) == at
    # Half an hour passes.
    await lobby.rows(
        "with t as (update riverui_workflow_task set created_at = created_at - interval '30 min',"
        " wait_due_at = wait_due_at - interval '30 min' returning 1) select 1 from t"
    )
    assert await lobby.look() == 1
    terms = (await lobby.task(workflow))["metadata"]["river:workflow_wait_state"]["result"]["terms"]
    assert [(term["name"], term["satisfied"]) for term in terms] == [
        ("late", True),
        ("at_ten", False),
    ]
    assert terms[1] == {
        "kind": "timer", "label": "", "matched_count": 0, "name": "at_ten", "required_count": 1,
        "satisfied": False,
    }  # fmt: skip


async def test_conditions_know_outputs_signals_timers_and_the_workflow(lobby: Lobby) -> None:
    client = await lobby.start()
    workflow = client.workflows.new("Order 42")
    first = workflow.add("ä b", Step({"items": [1, 2], "big": 1970670598291982290}))
    terms: list[AnyTerm] = [
        Term("paid", "deps['ä b'].output.items.exists(i, i == 2) && deps['ä b'].state != ''"),
        Term("exact", "deps['ä b'].output.big == 1970670598291982290"),
        Term("listed", "signals['a'].size() == 2 && signals['a'][1].payload == 'second'"),
        Term("timed", "timers['soon'].fired && timers['soon'].fire_at > workflow.created_at"),
        Term("named", "workflow.name == 'Order 42' && workflow.attempt == 1"),
        SignalTerm("any_a", "a", required_count=2),
        TimerTerm("soon", after=timedelta(0), since=task_finalized_at("ä b")),
        TimerTerm("of_workflow", after=timedelta(0), since="workflow_created_at"),
    ]
    expr = " && ".join(term.name for term in terms)
    workflow.add("ship", Step(), deps=[first], wait=Wait(expr, terms))
    await workflow.insert()
    await client.workflows.signal(workflow.id, "a", "first")
    await client.workflows.signal(workflow.id, "a", "second")

    await lobby.until_waiting(workflow)
    found = await client.workflows.diagnose_wait(workflow.id, "ship")
    assert (found.eval_error, found.over, found.phase) == ("", True, "waiting")
    assert await lobby.look() == 1


async def test_what_is_wrong_with_an_expression_is_told_and_others_go_on(
    lobby: Lobby, client: Client
) -> None:
    bad = await lobby.waiting(Wait("a", [SignalTerm("a", "k", "payload.missing.deeper == 1")]))
    good = await lobby.waiting(Wait("a", [SignalTerm("a", "k")]))
    for workflow in (bad, good):
        await client.workflows.signal(workflow.id, "k", {"x": 1})
    assert await lobby.look() == 1
    assert (await lobby.task(good))["state"] == "staged"
    assert "there is no 'missing'" in (await lobby.task(bad))["wait_progress"]["error"]
    found = await client.workflows.diagnose_wait(bad.id, "ship")
    assert (found.over, found.phase) == (False, "waiting")


async def test_a_slow_expression_is_stopped_and_told(lobby: Lobby, client: Client) -> None:
    slow = "payload.all(x, payload.all(y, payload.all(z, x + y + z >= 0)))"
    workflow = await lobby.waiting(Wait("a", [SignalTerm("a", "k", slow)]))
    await client.workflows.signal(workflow.id, "k", list(range(2000)))
    await client.workflows.signal(workflow.id, "k", [1])
    assert await lobby.look() == 1
    row = await lobby.task(workflow)
    assert "was stopped" in row["wait_progress"]["error"]
    assert row["metadata"]["river:workflow_wait_state"]["result"]["signals"]["k"] == {
        "included_count": 2,
        "last_included_id": 2,
    }


@pytest.mark.long
async def test_many_slow_looks_hold_nobody_up_for_long(lobby: Lobby, client: Client) -> None:
    slow = "payload.all(x, payload.all(y, payload.all(z, x + y + z >= 0)))"
    terms = [SignalTerm("a", "k", slow), SignalTerm("b", "other")]
    workflow = await lobby.waiting(Wait("a && b", terms))
    for _ in range(30):
        await client.workflows.signal(workflow.id, "k", list(range(2000)))
    await client.workflows.signal(workflow.id, "other")
    good = await lobby.waiting(Wait("a", [SignalTerm("a", "k")]))
    await client.workflows.signal(good.id, "k")
    assert await lobby.look() == 1
    assert (await lobby.task(good))["state"] == "staged"
    progress = (await lobby.task(workflow))["wait_progress"]
    # The next evaluation is due at once, and continues after the stopped ones.
    assert progress["signals"] == {"k": [3, 3], "other": [1, 31]}
    assert "was stopped" in progress["error"]
    assert (await lobby.task(workflow))["wait_due_at"] < datetime.now(UTC)


async def test_signals_are_checked_in_words(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    with pytest.raises(SignalRefused, match=r"may take 1,000,000 bytes of JSON; this one takes 10"):
        await client.workflows.signal(workflow.id, "approval", "x" * 10_000_000)
    with pytest.raises(SignalRefused, match="1 to 200 characters"):
        await client.workflows.signal(workflow.id, "", 1)
    with pytest.raises(SignalRefused, match="1 to 200 characters"):
        await client.workflows.signal(workflow.id, "k" * 201, 1)
    for odd in ("\0", "\ud800"):
        with pytest.raises(SignalRefused, match="Postgres cannot store"):
            await client.workflows.signal(workflow.id, odd, 1)
        with pytest.raises(SignalRefused, match="cannot be stored"):
            await client.workflows.signal(workflow.id, "approval", odd)
    with pytest.raises(SignalRefused, match="cannot be stored"):
        await client.workflows.signal(workflow.id, "approval", object())
    with pytest.raises(NotFound, match="Workflow not found: nowhere"):
        await client.workflows.signal("nowhere", "approval")
    with pytest.raises(SignalAttemptMismatch, match="is in attempt 1, not in attempt 2"):
        await client.workflows.signal(workflow.id, "approval", attempt=2)
    with pytest.raises(SignalRefused, match="whole number"):
        await client.workflows.signal(workflow.id, "approval", attempt=0)
    with pytest.raises(SignalUndeclared, match="'other'"):
        await client.workflows.signal_list(workflow.id, "ship", key="other")
    with pytest.raises(NotFound, match="no task 'pack'"):
        await client.workflows.signal_list(workflow.id, "pack")
    assert await lobby.rows("select * from riverui_workflow_signal") == []
    odd_key = "'; drop table river_job; --  𝄞 ä\n"
    await client.workflows.signal(workflow.id, odd_key, None, attempt=1)
    (row,) = await lobby.rows("select key, payload from riverui_workflow_signal")
    assert (row["key"], row["payload"]) == (odd_key, None)


async def test_a_signal_that_is_sent_again_is_one(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    first = await client.workflows.signal(
        workflow.id, "approval", {"amount": 3, "x": [1.0]}, idempotency_key="hook-7"
    )
    again = await client.workflows.signal(
        workflow.id, "approval", {"x": [1], "amount": 3}, idempotency_key="hook-7"
    )
    assert again == first
    with pytest.raises(SignalConflict, match="'hook-7'"):
        await client.workflows.signal(
            workflow.id, "approval", {"amount": 4}, idempotency_key="hook-7"
        )
    with pytest.raises(SignalConflict):
        await client.workflows.signal(
            workflow.id, "other", {"amount": 3, "x": [1]}, idempotency_key="hook-7"
        )
    sent = [
        client.workflows.signal(workflow.id, "approval", 1, idempotency_key="hook-8")
        for _ in range(5)
    ]
    assert len({signal.id for signal in await asyncio.gather(*sent)}) == 1


async def test_the_client_without_asyncio_signals_too(lobby: Lobby, database_url: str) -> None:
    with SyncClient(database_url) as river, psycopg.connect(database_url) as connection:
        workflow = river.workflows.new()
        workflow.add("ship", Step(), wait=UNTIL_APPROVED)
        workflow.insert()
        river.workflows.signal_tx(connection, workflow.id, "approval", {"amount": 5})
        connection.rollback()
        assert await lobby.look() == 0
        signal = river.workflows.signal(workflow.id, "approval", {"amount": 5}, source="hook")
        assert (signal.id, signal.payload, signal.source) == (signal.id, {"amount": 5}, "hook")
        with pytest.raises(NotFound):
            river.workflows.signal("nowhere", "approval")
    assert await lobby.look() == 1


async def test_signals_page_by_page(lobby: Lobby, client: Client) -> None:
    terms = [SignalTerm("a", "a"), SignalTerm("b", "b", required_count=9)]
    workflow = await lobby.waiting(Wait("a && b", terms))
    for number in range(5):
        await client.workflows.signal(workflow.id, "ab"[number % 2], number)
    await client.workflows.signal(workflow.id, "c", "undeclared")

    async def payloads(**asked: Any) -> list[Any]:
        found = await client.workflows.signal_list(workflow.id, "ship", **asked)
        return [signal.payload for signal in found.signals]

    assert await payloads() == [0, 1, 2, 3, 4]
    assert await payloads(descending=True, limit=2) == [4, 3]
    assert await payloads(key="b") == [1, 3]
    page = await client.workflows.signal_list(workflow.id, "ship", limit=2)
    assert page.next_cursor_id is not None
    assert await payloads(after=page.next_cursor_id) == [2, 3, 4]
    assert await payloads(attempt=2) == []
    assert await client.workflows.signal_latest(workflow.id, "ship", "b", attempt=2) is None


@pytest.mark.long
async def test_a_hundred_thousand_signals_are_counted_once_each(
    lobby: Lobby, client: Client
) -> None:
    workflow = await lobby.waiting(
        Wait("a && approved", [SignalTerm("a", "k", "payload.n >= 99990", "", 10), APPROVED])
    )
    await lobby.rows(
        "with s as (insert into riverui_workflow_signal (workflow_id, attempt, key, payload, bytes)"
        " select %s, 1, 'k', jsonb_build_object('n', n), 20 from generate_series(1, 100000) n"
        " returning 1) select count(*) from s",
        workflow.id,
    )
    for _ in range(11):
        assert await lobby.look() == 0
    progress = (await lobby.task(workflow))["wait_progress"]
    assert progress["signals"]["k"][0] == 100_000
    assert progress["terms"]["a"][0] == 11
    found = await client.workflows.diagnose_wait(workflow.id, "ship")
    assert (found.scanned, found.truncated) == (0, False)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    assert await lobby.look() == 1


async def test_diagnosing_changes_nothing(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    before = await lobby.task(workflow)
    found = await client.workflows.diagnose_wait(workflow.id, "ship")
    assert found.over
    assert found.results["approved"].matched_count == 1
    assert (found.scanned, found.truncated, found.eval_error) == (1, False, "")
    assert await lobby.task(workflow) == before
    with pytest.raises(NotFound):
        await client.workflows.diagnose_wait(workflow.id, "pack")


@pytest.mark.long
async def test_a_diagnosis_looks_at_ten_thousand_signals_and_says_that_there_are_more(
    lobby: Lobby, client: Client
) -> None:
    workflow = await lobby.waiting(Wait("a", [SignalTerm("a", "k", "payload.n > 1", "", 10_000)]))
    await lobby.rows(
        "with s as (insert into riverui_workflow_signal (workflow_id, attempt, key, payload, bytes)"
        " select %s, 1, 'k', jsonb_build_object('n', n), 20 from generate_series(1, 10001) n"
        " returning 1) select count(*) from s",
        workflow.id,
    )
    found = await client.workflows.diagnose_wait(workflow.id, "ship")
    assert (found.scanned, found.truncated, found.over) == (10_000, True, False)
    assert found.results["a"].matched_count == 9_999


async def test_a_wait_has_not_started_then_goes_on_then_is_resolved(lobby: Lobby) -> None:
    client = await lobby.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Step(), InsertOpts(queue="elsewhere"))
    workflow.add("ship", Step(), InsertOpts(queue="elsewhere"), deps=[first], wait=UNTIL_APPROVED)
    await workflow.insert()

    async def phase() -> str:
        return (await client.workflows.diagnose_wait(workflow.id, "ship")).phase

    assert await phase() == "not_started"
    await client.queues.add("elsewhere", QueueConfig(max_workers=1))

    await lobby.until_waiting(workflow)
    assert await phase() == "waiting"
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    assert await lobby.look() == 1
    assert await phase() == "resolved"
    await lobby.rows(
        'with t as (update riverui_workflow_task set wait = \'{"of": "another form"}\''
        " where name = 'ship' returning 1) select 1 from t"
    )
    found = await client.workflows.diagnose_wait(workflow.id, "ship")
    assert (found.phase, found.over) == ("unknown", False)
    assert found.eval_error


async def test_a_signal_under_way_is_not_missed(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    assert await lobby.look() == 0
    async with await psycopg.AsyncConnection.connect(lobby.database_url) as tx:
        await client.workflows.signal_tx(tx, workflow.id, "approval", {"amount": 3})
        # Due by another signal's key, and the uncommitted one is not visible yet.
        assert await lobby.look() == 0
        await tx.commit()
    assert await lobby.look() == 1


async def test_signals_and_the_beginning_of_waits_in_any_order(
    lobby: Lobby, client: Client
) -> None:
    """Many tasks begin to wait while signals arrive and waits are evaluated: none is stuck."""
    wait = Wait("a", [SignalTerm("a", "k", required_count=2)])

    async def one() -> None:
        workflow = client.workflows.new()
        workflow.add("ship", Step(), wait=wait)
        async with await psycopg.AsyncConnection.connect(lobby.database_url) as tx:
            await workflow.insert_tx(tx)
            await client.workflows.signal_tx(tx, workflow.id, "k", 1)
            await tx.commit()
        await client.workflows.signal(workflow.id, "k", 2)

    going = asyncio.gather(*(one() for _ in range(30)))
    staged = 0
    while not going.done():
        staged += await lobby.look()
    await going
    staged += await lobby.look()
    assert staged == 30
    states = await lobby.rows("select distinct state from riverui_workflow_task")
    assert [row["state"] for row in states] == ["staged"]


async def test_two_who_look_at_once_count_each_signal_once(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(Wait("a", [SignalTerm("a", "k", required_count=10_000)]))
    other = WaitEvaluator(lobby.evaluator._context, interval=timedelta(seconds=1))  # noqa: SLF001
    try:
        for number in range(20):
            await client.workflows.signal(workflow.id, "k", number)
            await asyncio.gather(lobby.look(), other.run_once())
        await lobby.look()
    finally:
        other.close()
    assert (await lobby.task(workflow))["wait_progress"]["signals"]["k"][0] == 20


async def test_a_look_that_was_never_finished_is_made_again(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    async with lobby.driver.autocommit() as executor:
        claimed = await WaitStore(executor).workflow_wait_claim(
            lease=timedelta(seconds=0.01), limit=10
        )
    assert len(claimed) == 1
    staged = 0

    async def found() -> bool:
        nonlocal staged
        staged += await lobby.look()
        return staged == 1

    await lobby.until(found)


async def test_a_cancelled_workflow_waits_no_more(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    await client.workflows.cancel(workflow.id)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    assert await lobby.look() == 0
    row = await lobby.task(workflow)
    assert (row["state"], row["job_state"]) == ("cancelled", "cancelled")


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ("update river_job set state = 'cancelled', finalized_at = now()", "cancelled"),
        ("delete from river_job", "deleted"),
    ],
)
async def test_a_job_that_another_client_has_ended_holds_no_workflow_open(
    lobby: Lobby, client: Client, change: str, state: str
) -> None:
    await lobby.waiting(UNTIL_APPROVED)
    assert await lobby.look() == 0
    await lobby.connection.execute(change.encode())
    await lobby.connection.execute("update riverui_workflow_task set wait_due_at = now()")
    await lobby.look()
    (row,) = await lobby.rows(
        "select t.state, w.ended_at from riverui_workflow_task t"
        " join riverui_workflow w on w.id = t.workflow_id"
    )
    assert row["state"] == state
    assert row["ended_at"] is not None


async def test_a_new_attempt_waits_anew_and_keeps_earlier_signals(lobby: Lobby) -> None:
    client = await lobby.start()
    workflow = client.workflows.new()
    fine = workflow.add("fine", Step(), wait=UNTIL_APPROVED)
    workflow.add("ship", Fails(), InsertOpts(max_attempts=1), deps=[fine], wait=UNTIL_APPROVED)
    jobs = await workflow.insert()
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    assert await lobby.look() == 1
    await lobby.in_state(jobs[0].job.id, "completed")

    await lobby.until_waiting(workflow)
    assert await lobby.look() == 1
    await lobby.in_state(jobs[1].job.id, "discarded")
    before = await lobby.task(workflow, "fine")
    await client.workflows.retry(workflow.id, "failed_only")
    assert (await lobby.task(workflow, "fine"))["metadata"] == before["metadata"]
    assert "river:workflow_wait_state" not in (await lobby.task(workflow))["metadata"]
    await lobby.until_waiting(workflow)
    assert await lobby.look() == 0
    assert (await lobby.task(workflow))["state"] == "wait"
    assert await client.workflows.signal_latest(workflow.id, "ship", "approval") is None
    earlier = await client.workflows.signal_latest(workflow.id, "ship", "approval", attempt=1)
    assert earlier is not None
    with pytest.raises(SignalAttemptMismatch):
        await client.workflows.signal(workflow.id, "approval", {"amount": 4}, attempt=1)
    await client.workflows.signal(workflow.id, "approval", {"amount": 4}, attempt=2)
    assert await lobby.look() == 1
    kept = (await lobby.task(workflow))["metadata"]["river:workflow_wait_state"]["result"]
    assert (kept["attempt"], kept["signals"]["approval"]["included_count"]) == (2, 1)


async def test_a_wait_is_checked_when_its_task_is_added(client: Client) -> None:
    workflow = client.workflows.new()
    with pytest.raises(WaitInvalid, match="the unknown name 'b'"):
        workflow.add("ship", Step(), wait=Wait("b", [APPROVED]))
    since = TimerTerm("late", after=timedelta(1), since=task_finalized_at("pack"))
    with pytest.raises(WaitInvalid, match="not one of the task's dependencies"):
        workflow.add("ship", Step(), wait=Wait("late", [since]))
    workflow.add("pack", Step())
    workflow.add("ship", Step(), deps=["pack"], wait=Wait("late", [since]))


async def test_without_the_migration_it_is_said(
    connection: psycopg.AsyncConnection[Any], driver: Driver, database_url: str
) -> None:
    await migrate(driver, "up", line="riverui", target_version=8)
    client = Client(driver)
    workflow = client.workflows.new()
    workflow.add("ship", Step(), wait=UNTIL_APPROVED)
    words = "need the tables of riverui: run `riverui migrate-up --line riverui`"
    with pytest.raises(SchemaMissing, match=words):
        await workflow.insert()
    with pytest.raises(SchemaMissing, match=words):
        await client.workflows.signal(workflow.id, "approval")
    with SyncClient(database_url) as river, pytest.raises(SchemaMissing, match=words):
        river.workflows.signal(workflow.id, "approval")
    context = service_context(driver)
    evaluator = WaitEvaluator(context, interval=timedelta(seconds=1))
    assert await evaluator.run_once() == 0


async def test_only_what_is_due_is_read(lobby: Lobby, client: Client) -> None:
    """However many tasks wait, due ones are found by one index search."""
    workflow = await lobby.waiting(UNTIL_APPROVED)
    await lobby.look()
    await lobby.connection.execute(
        "insert into riverui_workflow_task (workflow_id, name, job_id, state, wait, wait_due_at)"
        " select 'w' || n, 't', -n, 'wait', '{}', now() + interval '1 hour'"
        " from generate_series(1, 20000) n"
    )
    await lobby.connection.execute("analyze riverui_workflow_task")
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    seen: list[tuple[str, str, Any]] = []
    watching = connect(lobby.database_url, watch=lambda *call: seen.append(call))
    try:
        async with watching.autocommit() as executor:
            waits = WaitStore(executor)
            assert len(await waits.workflow_wait_claim(lease=timedelta(hours=1), limit=100)) == 1
    finally:
        await watching.close()
    text, values = next(call[1:] for call in seen if call[0] == "workflow_wait_claim")
    raw = psycopg.AsyncRawCursor(lobby.connection, row_factory=tuple_row)
    explained = await raw.execute(f"explain (analyze, format json) {text}".encode(), values)
    found = json.dumps(await explained.fetchall())
    assert "riverui_workflow_task_wait" in found
    assert "Seq Scan" not in found
    assert set(re.findall(r'"Rows Removed by Filter": (\d+)', found)) <= {"0"}


async def test_where_cel_cannot_run_it_is_told_on_the_task(lobby: Lobby, client: Client) -> None:
    workflow = await lobby.waiting(UNTIL_APPROVED)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    before = get_executable()
    set_executable("/bin/false")
    try:
        assert await lobby.look() == 0
        found = await client.workflows.diagnose_wait(workflow.id, "ship")
    finally:
        set_executable(before)
    row = await lobby.task(workflow)
    assert "install `riverui[workflows]`" in row["wait_progress"]["error"]
    assert "install `riverui[workflows]`" in found.eval_error
    assert row["wait_due_at"] > datetime.now(UTC)
    await client.workflows.signal(workflow.id, "approval", {"amount": 3})
    assert await lobby.look() == 1
