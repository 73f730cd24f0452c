"""docs/understand/states.md: each move in its table happens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import (
    Client,
    Job,
    JobCancel,
    JobSnooze,
    JobState,
    Retry,
    SequenceOpts,
    connect,
    migrate,
)
from tests.cases import cases
from tests.engine.conftest import Playground, Task

PAGE = Path(__file__).parents[2] / "docs/understand/states.md"
GONE = "gone"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
HOURS_AGO = timedelta(hours=5)
"""How long these jobs have been running: longer than the rescuer lets any run, an hour."""
UNKNOWN = "asked for by somebody else"
"""A kind that no client here works, so that nothing but what is meant moves its jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A row of the table, for one of its states from which."""

    source: str
    target: str
    when: str
    who: str


def moves() -> Iterator[Move]:
    """Yield each move of the page."""
    table = PAGE.read_text(encoding="utf-8").partition("| from | to | when | who |\n")[2]
    for line in table.partition("\n\n")[0].splitlines()[1:]:
        sources, target, when, who = (cell.strip() for cell in line.strip("|").split("|"))
        for source in re.findall(r"`(\w+)`", sources) or [""]:
            yield Move(source=source, target=target.strip("`"), when=when, who=who)


class Stage:
    """A client, a job, and what is seen of it."""

    def __init__(self, play: Playground) -> None:
        self.play = play
        self.job = 0
        self.ran = asyncio.Event()
        self.go_on = asyncio.Event()

    async def state(self) -> str:
        """Return the job's state, or `gone` without a row."""
        rows = await self.play.rows("select state from river_job where id = %s", self.job)
        return str(rows[0]["state"]) if rows else GONE

    async def begins(self, state: str, **columns: object) -> None:
        """Have a job in this state."""
        self.job = await self.play.insert(state=state, **columns)
        assert await self.state() == state

    def inserts(self) -> Client:
        """Return a client that works nothing."""
        return self.play.make(queues={}, workers=None)

    async def works(
        self,
        ending: Callable[[Job[Task]], None],
        *,
        retry: Retry | None = None,
        ephemeral: bool = False,
        patient: bool = False,
        **columns: object,
    ) -> None:
        """Have an attempt that ends so; the job is running meanwhile."""

        async def work(job: Job[Task]) -> None:
            assert await self.state() == "running"
            self.ran.set()
            if patient:
                await self.go_on.wait()
            ending(job)

        self.play.workers.work(Task, retry=retry, ephemeral=ephemeral)(work)
        await self.begins("available", **columns)
        await self.play.start()
        async with asyncio.timeout(20):
            await self.ran.wait()
        if not patient:
            await self.play.event(self.job)

    async def leads(self) -> None:
        """Have a leader, whose services begin at once."""
        await self.play.start(leader_election_disabled=False)

    async def until(self, state: str) -> None:
        """Wait for the job to be in this state."""

        async def there() -> bool:
            return await self.state() == state

        await self.play.until(there)


Scenario = Callable[[Stage, Move], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def when(*words: str) -> Callable[[Scenario], Scenario]:
    """Name the rows that it makes happen."""

    def named(scenario: Scenario) -> Scenario:
        SCENARIOS.update(dict.fromkeys(words, scenario))
        return scenario

    return named


def fails(job: Job[Task]) -> None:
    raise RuntimeError("it broke")


def cancels(job: Job[Task]) -> None:
    raise JobCancel("no such account")


def snoozes(job: Job[Task]) -> None:
    raise JobSnooze(timedelta(seconds=3 if job.args.value == "soon" else 600))


def returns(job: Job[Task]) -> None:
    pass


@when("it is inserted")
async def insert(stage: Stage, move: Move) -> None:
    stage.job = (await stage.inserts().insert(Task())).job.id


@when("it is inserted with a `delay` or `scheduled_at`")
async def insert_later(stage: Stage, move: Move) -> None:
    client = stage.inserts()
    at = datetime.now(UTC) + timedelta(hours=1)
    assert (await client.insert(Task(), scheduled_at=at)).job.state == JobState.SCHEDULED
    stage.job = (await client.insert(Task(), delay=timedelta(hours=1))).job.id


@when("it is inserted with `pending=True`")
async def insert_pending(stage: Stage, move: Move) -> None:
    stage.job = (await stage.inserts().insert(Task(), pending=True)).job.id


@when("it is due, and a slot is free")
async def fetch(stage: Stage, move: Move) -> None:
    await stage.works(returns, patient=True)


@when("its work returns")
async def succeed(stage: Stage, move: Move) -> None:
    await stage.works(returns)


@when("it fails, and is retried in more than 5 s")
async def fail(stage: Stage, move: Move) -> None:
    await stage.works(fails, retry=Retry(wait=timedelta(minutes=5)))


@when("it fails, and is retried within 5 s")
async def fail_soon(stage: Stage, move: Move) -> None:
    await stage.works(fails, retry=Retry(wait=timedelta(seconds=4)))


@when("it fails, and no attempt is left")
async def fail_at_last(stage: Stage, move: Move) -> None:
    await stage.works(fails, attempt=2, max_attempts=3)


@when("it raises `JobCancel`")
async def cancel_itself(stage: Stage, move: Move) -> None:
    await stage.works(cancels)


@when("its cancellation was requested, and it does not succeed nevertheless")
async def cancel_running(stage: Stage, move: Move) -> None:
    await stage.works(returns, patient=True)
    assert (await stage.play.client.job_cancel(stage.job)).state == JobState.RUNNING
    await stage.play.event(stage.job)


@when("it snoozes for more than 5 s")
async def snooze(stage: Stage, move: Move) -> None:
    await stage.works(snoozes)


@when("it snoozes for 5 s or less")
async def snooze_soon(stage: Stage, move: Move) -> None:
    await stage.works(snoozes, args=Task(value="soon"))


@when("its client stops and interrupts it")
async def interrupt(stage: Stage, move: Move) -> None:
    await stage.works(returns, patient=True)
    await stage.play.client.stop_and_cancel()
    row = await stage.play.row(stage.job)
    assert (row["attempt"], row["errors"]) == (0, None)


@when("its work returns, and it is [ephemeral](../features/ephemeral-jobs.md)")
async def succeed_ephemerally(stage: Stage, move: Move) -> None:
    await stage.works(returns, ephemeral=True)


@when("it is due")
async def come_due(stage: Stage, move: Move) -> None:
    await stage.begins(move.source, kind=UNKNOWN, scheduled_at=datetime.now(UTC))
    await stage.leads()


@when("it is due, but another job has its unique key")
async def come_due_too_late(stage: Stage, move: Move) -> None:
    # Available, pending, running and scheduled ones count: the least that River lets somebody name.
    unique = {"unique_key": b"one", "unique_states": "11010001", "kind": UNKNOWN}
    await stage.play.insert(state="available", **unique)
    await stage.begins(move.source, scheduled_at=datetime.now(UTC), **unique)
    await stage.leads()


@when("it has run for longer than an hour, and an attempt is left")
async def rescue(stage: Stage, move: Move) -> None:
    await stage.begins("running", attempted_at=datetime.now(UTC) - HOURS_AGO)
    await stage.leads()


@when("it has run for longer than an hour, and no attempt is left")
async def rescue_at_last(stage: Stage, move: Move) -> None:
    at = datetime.now(UTC) - HOURS_AGO
    await stage.begins("running", attempted_at=at, attempt=25)
    await stage.leads()


@when("it has run for longer than an hour, and its cancellation was requested")
async def rescue_cancelled(stage: Stage, move: Move) -> None:
    await stage.begins("running", attempted_at=datetime.now(UTC) - HOURS_AGO)
    await stage.play.make().job_cancel(stage.job)
    await stage.leads()


@when("the job before it in its sequence has ended")
async def take_its_turn(stage: Stage, move: Move) -> None:
    driver = connect(stage.play.database_url)
    await migrate(driver, "up", line="riverui")
    await driver.close()
    stage.play.workers.work(Task)(_waits(stage))
    client = stage.play.make()
    first = await client.insert(Task(), sequence=SequenceOpts())
    stage.job = (await client.insert(Task(), queue="nobody", sequence=SequenceOpts())).job.id
    assert await stage.state() == "pending"
    await stage.play.start()
    stage.go_on.set()
    await stage.play.in_state(first.job.id, "completed")


def _waits(stage: Stage) -> Callable[[Job[Task]], Awaitable[None]]:
    async def work(job: Job[Task]) -> None:
        await stage.go_on.wait()

    return work


@when("it ended more than a day ago", "it ended more than seven days ago")
async def clean(stage: Stage, move: Move) -> None:
    days = 8 if "seven" in move.when else 2
    kept = await stage.play.insert(
        state=move.source, finalized_at=datetime.now(UTC) - timedelta(days=days - 1.5)
    )
    await stage.begins(move.source, finalized_at=datetime.now(UTC) - timedelta(days=days))
    await stage.leads()
    await stage.until(GONE)
    assert await stage.play.row(kept)


@when("it is cancelled")
async def cancel(stage: Stage, move: Move) -> None:
    await stage.begins(move.source)
    await stage.play.make().job_cancel(stage.job)


@when("it is retried")
async def retry(stage: Stage, move: Move) -> None:
    await stage.begins(move.source)
    await stage.play.make().job_retry(stage.job)


@when("it is deleted")
async def delete(stage: Stage, move: Move) -> None:
    await stage.begins(move.source)
    await stage.play.make().job_delete(stage.job)


@pytest.mark.long
async def test_a_job_moves_as_the_page_says(
    connection: AsyncConnection[DictRow], database_url: str
) -> None:
    with cases() as case:
        for move in moves():
            await connection.execute("truncate river_job, river_queue, river_leader")
            play = Playground(connection, database_url)
            stage = Stage(play)
            with case(move):
                await SCENARIOS[move.when](stage, move)
                await stage.until(move.target)
            await play.close()


def test_the_table_is_whole() -> None:
    """Every scenario is a row, every state is left and reached, and each mover is described."""
    rows = list(moves())
    assert {row.when for row in rows} == SCENARIOS.keys()
    states = {state.value for state in JobState}
    assert {row.source for row in rows} == states | {""}
    assert {row.target for row in rows} == states | {GONE}
    before, _, told = PAGE.read_text(encoding="utf-8").partition("## Who moves it")
    who = ", ".join(re.findall(r"^\| ([\w, ]+) \| (?:in|who)", told, re.MULTILINE))
    assert {row.who for row in rows} == set(who.split(", "))
    described = re.findall(r"^\| `(\w+)` \| [a-z]", before, re.MULTILINE)
    assert sorted(described) == sorted(states)
