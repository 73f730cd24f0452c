"""Sequences: jobs of a key run one at a time, in the order of their insertion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.jobs import JobState
from riverui.domain.retries import Retry
from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.service import Timing
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import JobEnd
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import job_complete_tx
from riverui.engine.work.worker import Job, JobCancel, JobSnooze
from riverui.errors import (
    ConfigError,
    InsertError,
    SchemaMissing,
    UniqueConflict,
)
from riverui.features.sequences.engine.opts import SequenceOpts
from riverui.features.sequences.engine.scheduler import SequenceScheduler
from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobFetchParams, JobSetStateParams
from riverui.storage.migrations import migrate
from tests.engine.conftest import Playground, Task
from tests.features.conftest import service_context
from tests.features.sequences.test_keys import in_sequence, keys
from tests.own_tables import OWN_TABLES
from tests.pro_tables import PRO_TABLES

IN_LINE = InsertOpts(sequence=SequenceOpts())
BY_VALUE = InsertOpts(sequence=SequenceOpts(by_args=["value"]))


class NoWait(Timing):
    """Services without pauses."""

    async def pause(self) -> None:
        return


class Lines(Playground):
    """A playground with the tables of sequences."""

    async def states(self) -> list[str]:
        """Return the states of all jobs, by id."""
        rows = await self.rows("select state::text from river_job order by id")
        return [row["state"] for row in rows]

    def scheduler(self, client: Client) -> SequenceScheduler:
        """Return the service that the client's leader runs."""
        context = service_context(client.driver, timing=NoWait())
        (service,) = [
            one for one in client.pilot.services(context) if isinstance(one, SequenceScheduler)
        ]
        return service

    async def somebody_waits(self) -> bool:
        """Return whether a statement in this database waits for a lock."""
        # Other processes' tests share the server, each with its own database.
        return bool(
            await self.rows(
                "select from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
        )

    async def at_rest(self) -> bool:
        """Whether no job is to be done any more."""
        return not await self.rows(
            "select from river_job where state not in ('cancelled', 'completed', 'discarded')"
        )


@pytest.fixture
async def lines(
    connection: AsyncConnection[DictRow], database_url: str, own_tables: None
) -> AsyncIterator[Lines]:
    playground = Lines(connection, database_url)
    yield playground
    await playground.close()


async def test_a_job_of_a_sequence_cannot_be_pending_by_itself(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    with pytest.raises(InsertError, match="cannot be inserted as pending"):
        await client.insert(Task(), InsertOpts(sequence=SequenceOpts(), pending=True))


# Inserting


async def test_the_first_of_an_idle_key_is_available_at_once(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    results = await client.insert_many(
        [InsertManyParams(Task(value), BY_VALUE) for value in ("a", "b", "a", "a")]
    )
    assert [result.job.state for result in results] == [
        JobState.AVAILABLE, JobState.AVAILABLE, JobState.PENDING, JobState.PENDING,
    ]  # fmt: skip
    later = await client.insert(Task("b"), BY_VALUE)
    assert later.job.state is JobState.PENDING
    assert await lines.states() == ["available", "available", "pending", "pending", "pending"]
    # Jobs of no sequence in the same batch are as ever.
    mixed = await client.insert_many([Task("a"), InsertManyParams(Task("a"), BY_VALUE)])
    assert [result.job.state for result in mixed] == [JobState.AVAILABLE, JobState.PENDING]


async def test_jobs_written_alike_get_keys_of_their_own(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    jobs = [InsertManyParams(Task(str(number % 7), number), BY_VALUE) for number in range(100)]
    await client.insert_many(jobs)
    rows = await lines.rows(
        "select metadata ->> 'seq_key' as key, args ->> 'value' as value,"
        " array_agg(state::text order by id) as states from river_job group by 1, 2"
    )
    assert len(rows) == 7
    assert {row["key"] for row in rows} == set(
        keys(*(InsertManyParams(Task(str(number)), BY_VALUE) for number in range(7)))
    )
    for row in rows:
        assert row["states"] == ["available"] + ["pending"] * (len(row["states"]) - 1)


async def test_an_insert_too_large_for_one_statement_has_one_head(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True, limits=EngineLimits(insert_rows=3))
    await client.insert_many([InsertManyParams(Task(), IN_LINE) for _ in range(8)])
    assert await lines.states() == ["available"] + ["pending"] * 7


async def test_an_insert_by_copy_is_in_line_too(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    assert await client.insert_many_fast([InsertManyParams(Task(), IN_LINE)] * 3) == 3
    assert await lines.states() == ["available", "pending", "pending"]
    unique = InsertOpts(sequence=SequenceOpts(), unique_opts=UniqueOpts(by_args=True))
    with pytest.raises(UniqueConflict):
        await client.insert_many_fast([InsertManyParams(Task("a"), unique)] * 2)
    assert len(await lines.states()) == 3


async def test_the_synchronous_client_inserts_into_the_same_line(
    lines: Lines, database_url: str
) -> None:
    with SyncClient(database_url) as client:
        assert client.insert(Task(), IN_LINE).job.state is JobState.AVAILABLE
        assert client.insert(Task(), IN_LINE).job.state is JobState.PENDING
        with psycopg.connect(database_url) as connection:
            client.insert_many_tx(connection, [InsertManyParams(Task(), IN_LINE)] * 2)
            connection.rollback()
    assert await lines.states() == ["available", "pending"]


async def test_an_insert_that_is_rolled_back_leaves_the_key_idle(
    lines: Lines, database_url: str
) -> None:
    client = lines.make(skip_unknown_job_check=True)
    async with await AsyncConnection.connect(database_url) as connection:
        await client.insert_tx(connection, Task(), IN_LINE)
        await connection.rollback()
    assert (await client.insert(Task(), IN_LINE)).job.state is JobState.AVAILABLE


async def test_whoever_comes_second_to_an_idle_key_waits_for_the_first(
    lines: Lines, database_url: str
) -> None:
    client = lines.make(skip_unknown_job_check=True)
    async with await AsyncConnection.connect(database_url) as connection:
        await client.insert_tx(connection, Task("first"), IN_LINE)
        second = asyncio.create_task(client.insert(Task("second"), IN_LINE))
        await lines.until(lines.somebody_waits)
        await connection.commit()
    assert (await second).job.state is JobState.PENDING
    assert await lines.states() == ["available", "pending"]


async def test_an_insert_behind_others_does_not_wait(lines: Lines, database_url: str) -> None:
    client = lines.make(skip_unknown_job_check=True)
    await client.insert(Task("head"), IN_LINE)
    async with await AsyncConnection.connect(database_url) as connection:
        await client.insert_tx(connection, Task("slow"), IN_LINE)
        async with asyncio.timeout(5):
            assert (await client.insert(Task("quick"), IN_LINE)).job.state is JobState.PENDING
        await connection.commit()
    assert await lines.states() == ["available", "pending", "pending"]


async def test_if_the_first_exists_already_the_next_may_run(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    unique = UniqueOpts(by_args=True)
    await client.insert(Task("a"), InsertOpts(unique_opts=unique))
    line = InsertOpts(sequence=SequenceOpts(), unique_opts=unique)
    results = await client.insert_many(
        [InsertManyParams(Task(value), line) for value in ("a", "b", "c")]
    )
    assert [result.unique_skipped_as_duplicate for result in results] == [True, False, False]
    assert await lines.states() == ["available", "available", "pending"]


async def test_a_scheduled_head_holds_its_key(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    later = InsertOpts(sequence=SequenceOpts(), scheduled_at=datetime.now(UTC) + timedelta(hours=1))
    await client.insert_many([InsertManyParams(Task(), later), InsertManyParams(Task(), IN_LINE)])
    assert await lines.states() == ["scheduled", "pending"]


async def test_without_the_tables_the_error_names_the_command(
    play: Playground, driver: Driver
) -> None:
    client = play.make(skip_unknown_job_check=True)
    with pytest.raises(SchemaMissing, match="the tables of riverui: run `riverui mig"):
        await client.insert(Task(), IN_LINE)
    with (
        pytest.raises(SchemaMissing, match="the tables of riverui"),
        SyncClient(play.database_url) as sync,
    ):
        sync.insert(Task(), IN_LINE)
    # Who does not use them does not need them.
    await client.insert(Task())
    scheduler = SequenceScheduler(service_context(driver), timedelta(seconds=1))
    assert await scheduler.run_once() == 0
    # With older tables sequences are off:
    await migrate(driver, "up", line="riverui", target_version=14)
    with pytest.raises(SchemaMissing, match="the tables of riverui: run `riverui mig"):
        await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 2)
    assert await scheduler.run_once() == 0
    assert scheduler.interval == timedelta(seconds=60)
    await migrate(driver, "up", line="riverui")
    await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 2)
    assert await scheduler.run_once() == 0
    assert scheduler.interval == timedelta(seconds=1)


async def test_the_head_of_a_key_is_followed_by_the_next_in_place(
    lines: Lines, driver: Driver
) -> None:
    """No index of the keys is written to."""
    client = lines.make(skip_unknown_job_check=True)
    await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 2)
    (key,) = [row["seq_key"] for row in await lines.rows("select seq_key from riverui_sequence")]
    async with lines.connection.transaction():
        await lines.connection.execute(
            "update river_job set state = 'completed', finalized_at = now()"
            " where state = 'available'"
        )
        executor = await driver.adopt(lines.connection)
        assert await SequenceStore(executor).sequence_advance([key]) == [key]
        (found,) = await lines.rows(
            "select pg_stat_get_xact_tuples_updated(t) as updated,"
            " pg_stat_get_xact_tuples_hot_updated(t) as in_place"
            " from cast('riverui_sequence'::regclass as oid) t"
        )
    assert found == {"updated": 1, "in_place": 1}


async def test_beside_river_pro_it_has_to_be_allowed(lines: Lines) -> None:
    await lines.connection.execute(PRO_TABLES.encode())
    client = lines.make(skip_unknown_job_check=True)
    with pytest.raises(ConfigError, match="sequences_beside_pro=True"):
        await client.insert(Task(), IN_LINE)
    assert await lines.states() == []
    allowed = lines.make(skip_unknown_job_check=True, sequences_beside_pro=True)
    assert (await allowed.insert(Task(), IN_LINE)).job.state is JobState.AVAILABLE


async def test_a_task_of_a_workflow_cannot_be_in_a_sequence(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    workflow = client.workflows.new()
    workflow.add("one", Task(), insert_opts=IN_LINE)
    with pytest.raises(InsertError, match="sequence"):
        await workflow.insert()
    assert await lines.states() == []


# Working


async def test_jobs_of_a_key_are_worked_in_the_order_of_their_insertion(lines: Lines) -> None:
    worked: list[int] = []
    at_work: set[str] = set()

    async def work(job: Job[Task]) -> None:
        assert job.args.value not in at_work
        at_work.add(job.args.value)
        await asyncio.sleep(0)
        worked.append(job.id)
        at_work.remove(job.args.value)

    lines.worker(work)
    client = await lines.start()
    results = await client.insert_many(
        [InsertManyParams(Task("ab"[number % 2], number), BY_VALUE) for number in range(40)]
    )
    await lines.until(lines.at_rest)
    assert await lines.states() == ["completed"] * 40
    for value in "ab":
        of_key = [result.job.id for result in results if f'"{value}"' in result.job.args]
        assert [job_id for job_id in worked if job_id in set(of_key)] == of_key
    # Nothing is left of the keys once the leader has seen that they are idle.
    await lines.scheduler(client).run_once()
    assert await lines.rows("select seq_key from riverui_sequence") == []
    assert await lines.rows("select job_id from riverui_sequence_job") == []


@pytest.mark.parametrize(
    ("ends", "options", "after"),
    [
        ("fail", {}, "pending"),
        ("fail", {"continue_on_cancelled": True}, "pending"),
        ("fail", {"continue_on_discarded": True}, "completed"),
        ("cancel", {}, "pending"),
        ("cancel", {"continue_on_discarded": True}, "pending"),
        ("cancel", {"continue_on_cancelled": True}, "completed"),
    ],
)
async def test_a_sequence_halts_at_a_job_that_failed_unless_it_goes_on(
    lines: Lines, ends: str, options: dict[str, bool], after: str
) -> None:
    async def work(job: Job[Task]) -> None:
        if job.args.value == "fail":
            raise ArithmeticError
        if job.args.value == "cancel":
            raise JobCancel

    lines.worker(work)
    client = await lines.start()
    opts = InsertOpts(sequence=SequenceOpts(**options), max_attempts=1)
    first, second = await client.insert_many(
        [InsertManyParams(Task(ends), opts), InsertManyParams(Task(), opts)]
    )
    await lines.event(first.job.id)
    if after == "completed":
        await lines.event(second.job.id)
    await lines.scheduler(client).run_once()
    assert (await lines.row(second.job.id))["state"] == after
    halted = await lines.rows("select from riverui_sequence where halted_at is not null")
    assert len(halted) == (after == "pending")


async def test_a_head_that_is_to_be_tried_again_or_snoozes_holds_its_key(lines: Lines) -> None:
    async def work(job: Job[Task]) -> None:
        if job.args.value == "fail":
            raise ArithmeticError
        raise JobSnooze(timedelta(hours=1))

    lines.worker(work)
    client = await lines.start(retry_policy=lambda row: datetime.now(UTC) + timedelta(hours=1))
    results = await client.insert_many(
        [InsertManyParams(Task(value), BY_VALUE) for value in ("fail", "fail", "nap", "nap")]
    )
    await lines.event(results[0].job.id)
    await lines.event(results[2].job.id)
    await lines.scheduler(client).run_once()
    assert await lines.states() == ["retryable", "pending", "scheduled", "pending"]


async def test_an_outcome_written_twice_moves_one_job_on(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    results = await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 3)
    await lines.connection.execute(
        "update river_job set state = 'running', attempt = 1 where id = %s", [results[0].job.id]
    )
    end = JobEnd(
        results[0].job,
        JobSetStateParams(
            id=results[0].job.id, state=JobState.COMPLETED, finalized_at=datetime.now(UTC)
        ),
    )
    for _ in range(2):
        async with client.driver.transaction() as executor:
            await client.pilot.set_state_if_running_many(executor, [end])
    assert await lines.states() == ["completed", "available", "pending"]


@pytest.mark.parametrize(
    ("tries", "options", "after"),
    [
        (25, {}, ["retryable", "pending"]),
        (1, {}, ["discarded", "pending"]),
        (1, {"continue_on_discarded": True}, ["discarded", "available"]),
    ],
)
async def test_a_job_whose_worker_died_holds_its_key_until_it_is_rescued(
    lines: Lines, tries: int, options: dict[str, bool], after: list[str]
) -> None:
    client = lines.make(skip_unknown_job_check=True)
    opts = InsertOpts(sequence=SequenceOpts(**options), max_attempts=tries)
    await client.insert_many([InsertManyParams(Task(), opts)] * 2)
    async with client.driver.transaction() as executor:
        fetched = await executor.work.get_available(JobFetchParams("dead", "default", 10))
    assert len(fetched) == 1
    scheduler = lines.scheduler(client)
    await scheduler.run_once()
    assert await lines.states() == ["running", "pending"]

    await lines.connection.execute(
        "update river_job set attempted_at = now() - interval '9 days' where state = 'running'"
    )
    lines.worker(lambda job: None)
    await JobRescuer(service_context(client.driver), client.config, pilot=client.pilot).run_once()
    await scheduler.run_once()
    assert await lines.states() == after


# Others in the same tables


async def test_an_insert_under_way_when_the_last_one_ends_is_found(
    lines: Lines, database_url: str
) -> None:
    client = await lines.start()
    scheduler = lines.scheduler(client)
    first = await client.insert(Task("first"), InsertOpts(sequence=SequenceOpts()))
    async with await AsyncConnection.connect(database_url) as connection:
        # It sees the first one ahead, or that it has just been removed; no other sees it.
        await client.insert_tx(connection, Task("second"), IN_LINE)
        await lines.event(first.job.id)
        await scheduler.run_once()
        await connection.commit()
    await scheduler.run_once()
    await lines.until(lines.at_rest)
    assert await lines.states() == ["completed", "completed"]


@pytest.mark.parametrize(
    "change",
    [
        "update river_job set state = 'completed', finalized_at = now() where id = %s",
        "delete from river_job where id = %s",
    ],
)
async def test_what_others_do_to_a_head_is_found_by_the_leader(lines: Lines, change: str) -> None:
    client = lines.make(skip_unknown_job_check=True)
    results = await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 3)
    scheduler = lines.scheduler(client)
    await scheduler.run_once()
    await lines.connection.execute(change.encode(), [results[0].job.id])
    assert await scheduler.run_once() == 1
    assert await lines.states() == [
        *(["completed"] if "update" in change else []), "available", "pending",
    ]  # fmt: skip


async def test_jobs_that_others_remove_from_the_line_are_passed_over(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    results = await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 60)
    await lines.connection.execute("delete from river_job where id < %s", [results[-1].job.id])
    scheduler = lines.scheduler(client)
    for _ in range(5):
        await scheduler.run_once()
    assert await lines.states() == ["available"]
    assert await lines.rows("select from riverui_sequence_job") == []


async def test_the_leader_looks_at_every_key_in_turn(lines: Lines) -> None:
    client = lines.make(skip_unknown_job_check=True)
    await client.insert_many([in_sequence(Task(str(n)), by_args=True) for n in range(2_500)])
    scheduler = lines.scheduler(client)
    assert await scheduler.run_once() == 0
    await lines.connection.execute("update river_job set state = 'completed', finalized_at = now()")
    assert [await scheduler.run_once() for _ in range(3)] == [1_000, 2_000, 2_000 - 500]
    assert await scheduler.run_once() == 500
    assert await lines.rows("select from riverui_sequence") == []


async def test_a_job_that_is_held_by_another_transaction_is_promoted_later(
    lines: Lines, database_url: str
) -> None:
    client = await lines.start()
    async with await AsyncConnection.connect(database_url) as connection:
        first = await client.insert(Task(), IN_LINE)
        second = await client.insert(Task(), IN_LINE)
        await lines.event(first.job.id)
        if (await lines.row(second.job.id))["state"] == "pending":
            await connection.execute(
                "select from river_job where id = %s for update", [second.job.id]
            )
        await connection.commit()
    await lines.scheduler(client).run_once()
    await lines.until(lines.at_rest)


# A worker that completes its job in its own transaction


async def test_a_job_completed_in_a_transaction_lets_the_next_run_when_that_commits(
    lines: Lines,
) -> None:
    seen: list[list[str]] = []
    river = SyncClient()
    query = "select state::text from river_job order by id"

    def complete(job: Job[Task]) -> None:
        with psycopg.connect(lines.database_url) as tx, psycopg.connect(lines.database_url) as own:
            river.job_complete_tx(tx, job)
            seen.append([row[0] for row in own.execute(query)])
            tx.commit()
            seen.append([row[0] for row in tx.execute(query)])

    lines.worker(complete)
    jobs = await lines.make(queues={}).insert_many([InsertManyParams(Task("a"), BY_VALUE)] * 2)
    await lines.start(queues={"default": QueueConfig(max_workers=1)})
    await lines.in_state(jobs[-1].job.id, "completed")
    assert seen[:2] == [["running", "pending"], ["completed", "available"]]


async def test_an_async_job_completed_in_a_transaction_lets_the_next_run(lines: Lines) -> None:
    async def work(job: Job[Task]) -> None:
        async with await AsyncConnection.connect(lines.database_url) as connection:
            await job_complete_tx(connection, job)

    lines.worker(work)
    client = await lines.start()
    for result in await client.insert_many([InsertManyParams(Task(), IN_LINE)] * 3):
        await lines.in_state(result.job.id, "completed")


async def test_a_job_of_a_sequence_moves_others_as_a_discard_does(play: Playground) -> None:
    await play.connection.execute(OWN_TABLES)

    async def work(job: Job[Task]) -> None:
        if job.args.value:
            raise ValueError("x")

    play.workers.work(Task, retry=Retry(never=(ValueError,)))(work)
    client = await play.start()

    async def two(continues: bool) -> list[str]:
        opts = InsertOpts(
            sequence=SequenceOpts(by_queue=True, continue_on_discarded=continues),
            queue="default" if continues else "halting",
        )
        first = await client.insert(Task(value="fail"), opts)
        second = await client.insert(Task(), opts)
        await play.event(first.job.id)
        if continues:
            await play.event(second.job.id)
        return [(await play.row(each.job.id))["state"] for each in (first, second)]

    await client.queues.add("halting", client.config.queues["default"])
    assert await two(True) == ["discarded", "completed"]
    assert await two(False) == ["discarded", "pending"]
