"""How outcomes reach the database: in batches, whatever happens to it, with a bad row among
them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.config import QueueConfig
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.events import Event, Events
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import Feature, Inner, JobEnd, Pilot
from riverui.engine.work import outcome
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.completer import Completer
from riverui.engine.work.context import metadata_set, record_output
from riverui.engine.work.worker import Job
from riverui.storage.connect import connect
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.engine_params import JobFetchParams
from tests.conftest import with_database
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging

LOG = logging.getLogger("riverui.engine")
_IDS = re.compile(r"\{\d+(,\d+)*\}")
"""An array of ids, as it is sent."""


class NoSlots:
    """Slots that are not counted."""

    def release(self, attempt: Attempt) -> None: ...
    def stuck(self, attempt: Attempt) -> None: ...


class Bench:
    """A completer by itself, with running jobs to complete."""

    def __init__(self, play: Playground) -> None:
        self.play = play
        self.written: dict[str, list[int]] = defaultdict(list)
        """How many jobs each statement had, by its block's name."""
        self.driver = connect(play.database_url, watch=self._watch)
        self.events = Events(LOG)
        self.connection = DedicatedConnection(self.driver, timeout=EngineLimits().statement_timeout)
        self.beside: DedicatedConnection | None = None
        self.features: tuple[Feature, ...] = ()
        self.begin(EngineLimits())

    def begin(self, limits: EngineLimits) -> None:
        """Begin a completer with these limits."""
        self.completer = Completer(
            self.connection,
            self.events,
            clock=lambda: datetime.now(UTC),
            logger=LOG,
            limits=limits,
            pilot=Pilot(self.features),
            beside=self.beside,
        )
        self.task = asyncio.create_task(self.completer.run())

    async def begin_anew(self, **limits: Any) -> None:
        """Another completer with these limits instead."""
        self.completer.finish(5)
        await self.task
        self.begin(EngineLimits(**limits))

    async def attempts(self, count: int, **columns: Any) -> list[Attempt]:
        """Return attempts that have begun and now end."""
        for _ in range(count):
            await self.play.insert(**columns)
        async with self.driver.autocommit() as executor:
            rows = await executor.work.get_available(JobFetchParams("me", "default", count))
        assert len(rows) == count
        return [self.ended(row) for row in sorted(rows)]

    def ended(self, row: JobRow) -> Attempt:
        """Return an attempt at a row that ends just now."""
        attempt = Attempt(row, None, NoSlots())
        attempt.started_at = attempt.ended_at = datetime.now(UTC)
        attempt.done = True
        return attempt

    async def states(self) -> list[str]:
        """Of every job, by id."""
        return [
            row["state"] for row in await self.play.rows("select state from river_job order by id")
        ]

    async def begin_beside(self, driver: Driver | None = None, **limits: Any) -> None:
        """Begin another completer with these limits and a second connection."""
        timeout = EngineLimits().statement_timeout
        self.beside = DedicatedConnection(driver or self.driver, timeout=timeout)
        await self.begin_anew(**limits)

    @asynccontextmanager
    async def held_up(self, held: Attempt, *others: Attempt) -> AsyncIterator[None]:
        """End all attempts, while the write of the first one waits for a lock until the end."""
        async with self.play.connection.transaction():
            await self.play.rows("select 1 from river_job where id = %s for update", held.row.id)
            self.completer.succeed(held)
            await self.play.until_waited_for()
            for attempt in others:
                self.completer.succeed(attempt)
            yield

    async def close(self) -> None:
        """Write what is left."""
        self.completer.finish(5)
        await self.task
        await self.connection.close()
        if self.beside is not None:
            await self.beside.close()
        await self.driver.close()

    def _watch(self, block: str, sql: str, values: Sequence[Any]) -> None:
        ids = [value for value in values if isinstance(value, str) and _IDS.fullmatch(value)]
        if ids:
            self.written[block].append(ids[0].count(",") + 1)


@pytest.fixture
async def bench(play: Playground) -> Any:
    bench = Bench(play)
    yield bench
    await bench.close()


async def test_a_few_wait_a_moment_for_more(bench: Bench) -> None:
    attempts = await bench.attempts(3)
    for attempt in attempts:
        bench.completer.succeed(attempt)
    assert bench.completer.waiting == 3
    await bench.play.until(lambda: bench.written["job_complete_many"] == [3])


async def test_everything_is_written_at_the_end(bench: Bench) -> None:
    for attempt in await bench.attempts(20):
        bench.completer.succeed(attempt)
    await bench.close()
    assert await bench.states() == ["completed"] * 20


@pytest.mark.parametrize("well", [False, True])
async def test_a_job_rescued_from_an_attempt_is_ended_by_the_next_one_alone(
    bench: Bench, *, well: bool
) -> None:
    """In whichever order they end, and whether in one statement or in two."""
    attempts = await bench.attempts(3)
    await bench.play.rows("update river_job set attempt = 2 returning id")
    later = [bench.ended(attempt.row._replace(attempt=2)) for attempt in attempts]

    def end(attempt: Attempt) -> None:
        if well:
            bench.completer.succeed(attempt)
        else:
            row, now = attempt.row, attempt.ended_at
            bench.completer.settle(attempt, outcome.discarded(row, now, None, "{}"))

    end(attempts[0])
    await bench.play.until(lambda: not bench.completer.waiting)
    assert await bench.states() == ["running"] * 3
    end(later[1])
    bench.completer.succeed(attempts[1])
    bench.completer.settle(attempts[1], outcome.completed(attempts[1].row, datetime.now(UTC), None))
    end(attempts[2])
    end(later[2])
    await bench.close()
    assert await bench.states() == ["running", *["completed" if well else "discarded"] * 2]


async def test_the_newest_outcome_of_a_job_counts(bench: Bench) -> None:
    first, second, third = await bench.attempts(3)
    now = datetime.now(UTC)
    failed = outcome.attempt_error(first.row, now, ValueError("x"))
    bench.completer.succeed(first)
    bench.completer.settle(first, outcome.discarded(first.row, now, None, failed))
    bench.completer.settle(second, outcome.discarded(second.row, now, None, failed))
    bench.completer.succeed(second)
    bench.completer.succeed(third)
    bench.completer.succeed(third)
    assert bench.completer.waiting == 3
    await bench.close()
    assert await bench.states() == ["discarded", "completed", "completed"]


async def test_a_full_completer_makes_jobs_wait(bench: Bench) -> None:
    await bench.begin_anew(outcomes_full=8, outcomes_room=4, outcomes_at_once=4)
    for attempt in await bench.attempts(10):
        bench.completer.succeed(attempt)
    assert bench.completer.full
    await bench.completer.room()
    assert not bench.completer.full
    assert bench.completer.waiting < 4


async def test_what_piles_up_is_written_on_a_second_connection(bench: Bench) -> None:
    await bench.begin_beside(completions_beside=3, outcomes_at_once=1)
    completed = bench.events.subscribe("job_completed")
    held, *others = await bench.attempts(7)
    async with bench.held_up(held, *others):

        async def written() -> bool:
            return (await bench.states()).count("completed") == 6

        await bench.play.until(written)
        assert (await bench.states())[0] == "running"
        # A look for lost jobs leaves it alone.
        assert [*bench.completer.job_ids] == [held.row.id]
    await bench.close()
    bench.events.close()
    assert [*bench.completer.job_ids] == []
    assert await bench.states() == ["completed"] * 7
    assert bench.written["job_complete_many"] == [1, 3, 3]
    events = [event.job.id async for event in completed if event.job]
    assert events == [attempt.row.id for attempt in (*others, held)], "as they were written"


class Ends(Feature):
    """Takes part in all ends; notes how many came together, and fails for some jobs."""

    def __init__(self) -> None:
        self.fails: set[int] = set()
        self.together: list[int] = []

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        rows = await do_inner(ends)
        if not self.fails.isdisjoint(end.job.id for end in ends):
            self.fails.clear()
            raise RuntimeError("not now")
        self.together.append(len(ends))
        return rows


async def test_what_piles_up_is_written_in_a_second_transaction_where_a_feature_takes_part(
    bench: Bench,
) -> None:
    bench.features = (feature := Ends(),)
    await bench.begin_beside(outcomes_at_once=3, feature_ends=4, outcomes_wait_seconds=0)
    completed = bench.events.subscribe("job_completed")
    held, *others = await bench.attempts(9)
    async with bench.held_up(held, *others):

        async def written() -> bool:
            return (await bench.states()).count("completed") == 8

        await bench.play.until(written)
        assert (await bench.states())[0] == "running"
    await bench.close()
    bench.events.close()
    assert await bench.states() == ["completed"] * 9
    assert feature.together == [4, 4, 1]
    events = [event.job.id async for event in completed if event.job]
    assert events == [attempt.row.id for attempt in (*others, held)], "as they were written"


async def test_what_a_second_transaction_cannot_write_is_written_by_the_first(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.features = (feature := Ends(),)
    await bench.begin_beside(outcomes_at_once=3, feature_ends=4, outcomes_wait_seconds=0)
    held, *others = await bench.attempts(5)
    feature.fails = {others[0].row.id}
    async with bench.held_up(held, *others):
        await bench.play.until(lambda: "cannot be written on a second connection" in caplog.text)
        assert await bench.states() == ["running"] * 5
        assert bench.completer.waiting == 4
        ids = [attempt.row.id for attempt in (held, *others)]
        assert sorted(bench.completer.job_ids) == ids
    await bench.close()
    assert await bench.states() == ["completed"] * 5
    assert feature.together == [1, 4]


async def test_outcomes_are_written_without_a_second_connection(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    nowhere = connect(with_database(bench.play.database_url, "riverui_is_not_there"))
    await bench.begin_beside(nowhere, completions_beside=3, outcomes_at_once=1)
    held, *others = await bench.attempts(7)
    async with bench.held_up(held, *others):
        await bench.play.until(lambda: "cannot be written on a second connection" in caplog.text)
        assert bench.completer.waiting == 6
    await bench.close()
    await nowhere.close()
    assert await bench.states() == ["completed"] * 7


async def test_one_bad_row_blocks_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = await bench.attempts(9)
    for number, attempt in enumerate(attempts):
        # Postgres cannot keep a NUL; the engine does not let one through, but who knows what else
        # there is.
        text = '{"a": "\\u0000"}' if number == 4 else f'{{"a": {number}}}'
        bench.completer.settle(attempt, outcome.completed(attempt.row, attempt.ended_at, text))
    await bench.close()
    rows = await bench.play.rows("select state, metadata from river_job order by id")
    assert [row["state"] for row in rows] == ["completed"] * 9
    assert [row["metadata"] for row in rows] == [{} if n == 4 else {"a": n} for n in range(9)]


async def test_bad_error_is_replaced(bench: Bench) -> None:
    (attempt,) = await bench.attempts(1)
    bench.completer.settle(
        attempt, outcome.discarded(attempt.row, attempt.ended_at, None, '"\\u0000"')
    )
    await bench.close()
    (row,) = await bench.play.rows("select state, errors from river_job")
    assert row["state"] == "discarded"
    assert row["errors"][0]["error"] == "RiveruiError: The error of this attempt cannot be stored."


async def test_an_outcome_that_cannot_be_written_is_dropped(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = await bench.attempts(2)
    bench.completer.settle(
        bad, outcome.completed(bad.row, bad.ended_at, None)._replace(params=_impossible(bad.row))
    )
    bench.completer.settle(good, outcome.completed(good.row, good.ended_at, None))
    await bench.close()
    assert await bench.states() == ["completed", "running"]
    assert "rescued" in caplog.text


def _impossible(row: JobRow) -> Any:
    # A completed job without the time of its end: the table's check refuses it.
    return outcome.completed(row, datetime.now(UTC), None).params._replace(finalized_at=None)


async def test_nothing_is_lost_while_the_database_is_unavailable(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Hanging()
    play.worker(worker)
    client = await play.start(limits=EngineLimits(backoff=lambda failures: 0.05))
    ids = [await play.insert() for _ in range(10)]
    await play.until(lambda: client.running == 10)
    (database,) = await play.rows("select current_database() as name")
    await play.rows("select set_config('statement_timeout', '0', false)")
    async with await AsyncConnection.connect(
        with_database(play.database_url, "postgres"), autocommit=True
    ) as admin:
        await admin.execute(f'alter database "{database["name"]}" with allow_connections false')
        await play.cut_connections()
        worker.let_go.set()
        await play.until(lambda: "outcomes could not be written" in caplog.text)
        assert {row["state"] for row in await play.rows("select state from river_job")} == {
            "running"
        }
        await admin.execute(f'alter database "{database["name"]}" with allow_connections true')
    for job_id in ids:
        assert (await play.event(job_id)).kind == "job_completed"
    assert client.running == 0
    again = await play.work()
    assert again["state"] == "completed", "it goes on working"


async def test_a_cut_connection_is_replaced_at_once(play: Playground) -> None:
    worker = Hanging()
    play.worker(worker)
    # A wait for this would fail the test.
    client = await play.start(limits=EngineLimits(backoff=lambda failures: 3600.0))
    before, held = await play.insert(), await play.insert()
    await play.until(lambda: client.running == 2)
    await play.cut_connections()
    worker.let_go.set()
    for job_id in (before, held):
        assert (await play.event(job_id)).kind == "job_completed"


async def test_connections_cut_again_and_again(play: Playground) -> None:
    worked: list[int] = []

    async def work(job: Job[Task]) -> None:
        worked.append(job.id)
        await asyncio.sleep(0.001)
        if job.args.number % 3 == 0:
            metadata_set("n", job.args.number)

    play.worker(work)
    await play.rows(
        "insert into river_job (kind, args, max_attempts) select 'task',"
        " jsonb_build_object('number', n), 25 from generate_series(1, 600) n returning 1"
    )
    await play.start(
        queues={"default": QueueConfig(max_workers=20)},
        limits=EngineLimits(backoff=lambda failures: 0.01),
    )

    async def over() -> bool:
        (row,) = await play.rows(
            "select count(*) filter (where state = 'completed') as done,"
            " count(*) filter (where state = 'available') as left from river_job"
        )
        return not row["left"] and not play.client.running and len(set(worked)) <= row["done"]

    for _ in range(8):
        await play.cut_connections()
        await asyncio.sleep(0.03)
    await play.until(over)
    # What was fetched by a statement whose answer never came is running for ever, until it is
    # rescued.
    rows = await play.rows("select id, state from river_job where state <> 'completed'")
    assert {row["state"] for row in rows} <= {"running"}
    assert not {row["id"] for row in rows} & set(worked)
    assert len(worked) == len(set(worked))


async def test_huge_output_is_written(play: Playground) -> None:
    text = "x" * (31 * 1024 * 1024)

    async def work(job: Job[Task]) -> None:
        record_output(text)

    row = await play.work(work)
    assert row["state"] == "completed"
    assert len(row["metadata"]["output"]) == len(text)


async def test_events_match_the_row(bench: Bench) -> None:
    """Attempts whose jobs something else has ended in the meantime."""
    events = bench.events.subscribe("job_completed", "job_cancelled", "job_failed", "job_snoozed")
    attempts = await bench.attempts(7)
    states = ["cancelled", "discarded", "retryable", "scheduled", "completed", "pending", "running"]
    for attempt, state in zip(attempts, states, strict=True):
        ended = "now()" if state in ("cancelled", "discarded", "completed") else "null"
        await bench.play.rows(
            f"update river_job set state = '{state}', finalized_at = {ended} where id = %s"
            " returning 1",
            attempt.row.id,
        )
    for attempt in attempts[:6]:
        bench.completer.succeed(attempt)
    await bench.close()
    bench.events.close()
    received = [event async for event in events]
    assert {event.job.id: event.kind.value for event in received if event.job} == {
        attempt.row.id: kind
        for attempt, kind in zip(
            attempts,
            ["job_cancelled", "job_failed", "job_failed", "job_snoozed", "job_completed"],
            strict=False,
        )
    }
    assert await bench.states() == states


async def test_completion_in_a_transaction_wins_over_the_error_that_follows(
    play: Playground,
) -> None:
    async def work(job: Job[Task]) -> None:
        await play.rows(
            "update river_job set state = 'completed', finalized_at = now() where id = %s"
            " returning 1",
            job.id,
        )
        metadata_set("after", True)
        raise ValueError("x")

    play.worker(work)
    await play.start()
    job_id = await play.insert()
    event: Event = await play.event(job_id)
    row = await play.row(job_id)
    assert event.kind == "job_completed"
    assert (row["state"], row["errors"], row["metadata"]) == ("completed", None, {"after": True})
    assert event.job is not None
    assert event.job.state is JobState.COMPLETED
    assert row["finalized_at"] < datetime.now(UTC) + timedelta(seconds=1)


async def test_large_outcomes_are_written_in_small_batches(bench: Bench) -> None:
    await bench.begin_anew(changes_characters=1000)
    for attempt, size in zip(
        await bench.attempts(7), (400, 400, 400, 5000, 5000, 10, 10), strict=True
    ):
        text = f'{{"a": "{"x" * size}"}}'
        bench.completer.settle(attempt, outcome.completed(attempt.row, attempt.ended_at, text))
    await bench.close()
    assert bench.written["job_set_state_many"] == [2, 1, 1, 1, 2]
    assert await bench.states() == ["completed"] * 7
