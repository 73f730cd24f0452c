"""Features: the operations in which they take part, in the operation's own transaction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import psycopg
import pytest

from riverui import create_app
from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobRow, JobState
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.job_lists import JobDeleteManyParams
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import (
    Feature,
    Inner,
    InsertBatch,
    JobEnd,
    Pilot,
    ProducerStatus,
    RescueBatch,
    StuckParams,
    plain_get_available,
    plain_insert_many,
    plain_set_state_if_running_many,
)
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import job_complete_tx
from riverui.engine.work.worker import Job, Worker
from riverui.errors import ConfigError, DatabaseError
from riverui.features.operations.runner import OPERATIONS
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobDeleteBeforeParams,
    JobFetchParams,
    JobSelectParams,
)
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from tests import factory
from tests.contract.seeds import job
from tests.engine.conftest import Playground, Task
from tests.operations import idle
from tests.web.stand_ins import browser

LONG_AGO = timedelta(days=30)
"""Past every time for which finished jobs are kept, and after which jobs count as stuck."""


@dataclass
class Other:
    kind: ClassVar[str] = "other"


class Noted:
    """A service of the feature."""

    name = "noted"
    interval = timedelta(milliseconds=10)

    def __init__(self, context: ServiceContext, says: Says) -> None:
        self._context = context
        self._says = says

    async def run_once(self) -> None:
        async with self._context.transaction() as transaction:
            await self._says(transaction, "service")


Says = Callable[[Any, str], Awaitable[None]]


class Notes(Feature):
    """Writes a row of its own, a queue's, for each operation, in whatever transaction that is."""

    def __init__(self, name: str = "note") -> None:
        self.name = name
        self.heard: list[str] = []
        self.fails = ""
        """The operation after which it raises."""

    async def write(self, executor: Any, operation: str) -> None:
        """Note an operation."""
        self.heard.append(operation)
        await executor.queues.upsert(f"{self.name}_{operation}")
        if operation == self.fails:
            raise ArithmeticError(operation)

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        inserted = await do_inner(
            batch._replace(jobs=[job._replace(tags=(*job.tags, self.name)) for job in batch.jobs])
        )
        await self.write(executor, "insert")
        return inserted

    async def get_available(
        self,
        executor: Executor,
        params: JobFetchParams,
        do_inner: Inner[JobFetchParams, Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        rows = await do_inner(params._replace(limit=1))
        if rows:
            await self.write(executor, "fetch")
        return rows

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        rows = await do_inner(ends)
        await self.write(executor, f"end_{ends[0].job.kind}_{ends[0].change.state}")
        return rows

    async def retry(
        self, executor: Any, ids: Sequence[int], do_inner: Inner[Sequence[int], JobChanges]
    ) -> JobChanges:
        changes = await do_inner(ids)
        await self.write(executor, "retry")
        return changes

    async def cancel(
        self, executor: Any, ids: Sequence[int], do_inner: Inner[Sequence[int], JobChanges]
    ) -> JobChanges:
        changes = await do_inner(ids)
        await self.write(executor, "cancel")
        return changes

    async def delete(
        self, executor: Any, ids: Sequence[int], do_inner: Inner[Sequence[int], JobChanges]
    ) -> JobChanges:
        changes = await do_inner(ids)
        await self.write(executor, "delete")
        return changes

    def queues_excluded_from_cleaning(self) -> Collection[str]:
        return ["kept"]

    async def delete_before(
        self,
        executor: Executor,
        params: JobDeleteBeforeParams,
        do_inner: Inner[JobDeleteBeforeParams, int],
    ) -> int:
        removed = await do_inner(params)
        await self.write(executor, "clean")
        return removed

    async def get_stuck(
        self,
        executor: Executor,
        params: StuckParams,
        do_inner: Inner[StuckParams, Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        return [row for row in await do_inner(params) if row.kind != "other"]

    async def rescue_many(
        self,
        executor: Executor,
        batch: RescueBatch,
        do_inner: Inner[RescueBatch, Sequence[int]],
    ) -> Sequence[int]:
        changed = await do_inner(batch)
        await self.write(executor, "rescue")
        return changed

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        await self.write(executor, f"start_{producer.queue}")

    async def producer_keep_alive(
        self, executor: Executor, producers: Sequence[ProducerStatus]
    ) -> None:
        running = sum(len(producer.running) for producer in producers)
        await self.write(executor, f"alive_{len(producers)}_{running}")

    async def producer_stop(self, executor: Executor, producer: ProducerStatus) -> None:
        await self.write(executor, f"stop_{producer.queue}")

    def services(self, context: ServiceContext) -> Sequence[Noted]:
        return [Noted(context, self.write)]


@pytest.fixture
def notes() -> Notes:
    """Return a feature that takes part in everything."""
    return Notes()


async def written(play: Playground, prefix: str = "note_") -> set[str]:
    """Return what a feature has written and committed."""
    rows = await play.rows("select name from river_queue where name like %s || '%%'", prefix)
    return {row["name"].removeprefix(prefix) for row in rows}


async def number(play: Playground) -> int:
    """How many jobs there are."""
    (row,) = await play.rows("select count(*) as count from river_job")
    return int(row["count"])


# Insert


@pytest.mark.parametrize("jobs", [1, 6_000])
async def test_what_a_feature_writes_at_an_insert_is_kept_with_it(
    play: Playground, notes: Notes, jobs: int
) -> None:
    client = play.make(features=[notes], skip_unknown_job_check=True)
    inserted = await client.insert_many([Task(number=at) for at in range(jobs)])
    assert len(inserted) == jobs == await number(play)
    assert inserted[-1].job.tags == ("note",)
    assert (await play.row(inserted[-1].job.id))["tags"] == ["note"]
    assert await written(play) == {"insert"}


@pytest.mark.parametrize("fast", [False, True])
async def test_an_insert_that_a_feature_fails_is_undone(
    play: Playground, notes: Notes, fast: bool
) -> None:
    client = play.make(features=[notes], skip_unknown_job_check=True)
    notes.fails = "insert"
    insert = client.insert_many_fast if fast else client.insert_many
    with pytest.raises(ArithmeticError):
        await insert([Task(), Task()])
    assert await number(play) == 0
    assert await written(play) == set()


async def test_a_feature_is_part_of_the_callers_transaction(play: Playground, notes: Notes) -> None:
    client = play.make(features=[notes], skip_unknown_job_check=True)
    async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
        await client.insert_tx(tx, Task())
        assert await client.insert_many_fast_tx(tx, [Task(), Task()]) == 2
        await tx.rollback()
        assert (await number(play), await written(play)) == (0, set())
        await client.insert_tx(tx, Task())
        await tx.commit()
    assert (await number(play), await written(play)) == (1, {"insert"})


class Renames(Feature):
    """Changes rows at insert and asks the database for nothing."""

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        renamed = [job._replace(args='{"sealed": true}') for job in batch.jobs]
        return await do_inner(batch._replace(jobs=renamed, fast=False))


async def test_a_feature_that_only_changes_jobs_works_in_the_sync_client(
    play: Playground,
) -> None:
    with SyncClient(play.database_url, ClientConfig(features=[Renames()])) as client:
        assert client.insert(Task()).job.args == '{"sealed": true}'
        assert client.insert_many_fast([Task(), Task()]) == 2
        with psycopg.connect(play.database_url) as tx:
            client.insert_tx(tx, Task())
    rows = await play.rows("select args from river_job")
    assert [row["args"] for row in rows] == [{"sealed": True}] * 4


async def test_a_feature_that_asks_the_database_works_in_the_sync_client(
    play: Playground, notes: Notes
) -> None:
    with (
        SyncClient(play.database_url, ClientConfig(features=[notes])) as client,
        psycopg.connect(play.database_url) as tx,
    ):
        inserted = client.insert_tx(tx, Task())
        assert await written(play) == set()
        tx.commit()
        assert client.job_cancel(inserted.job.id).state is JobState.CANCELLED
        assert await written(play) == {"insert", "cancel"}
        with pytest.raises(ConfigError, match="needs the async client"):
            client.job_complete_tx(tx, Job(None, Task()))  # type: ignore[arg-type]


# Fetch and finish


async def test_fetching_and_finishing_go_through_a_feature(play: Playground, notes: Notes) -> None:
    ids = [await play.insert() for _ in range(3)]
    assert notes.heard == []

    async def work(job: Job[Task]) -> None:
        if job.args.number == 0:
            return
        raise ValueError

    play.worker(work)
    await play.start(features=[notes])
    for job_id in ids:
        await play.event(job_id)
    failed = await play.insert(Task(number=1), max_attempts=1)
    assert (await play.event(failed)).kind == "job_failed"
    assert [(await play.row(job_id))["state"] for job_id in ids] == ["completed"] * 3
    assert notes.heard.count("fetch") == 4, "one job each time, as the feature has it"
    assert {"fetch", "end_task_completed", "end_task_discarded"} <= await written(play)


async def test_an_end_that_a_feature_fails_is_undone_and_tried_again(
    play: Playground, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    notes.fails = "end_task_completed"

    await play.start(features=[notes])
    job_id = await play.insert()
    await play.until(lambda: "outcomes could not be written" in caplog.text)
    assert (await play.row(job_id))["state"] == "running"
    assert "end_task_completed" not in await written(play)
    notes.fails = ""
    await play.event(job_id)
    assert (await play.row(job_id))["state"] == "completed"
    assert "end_task_completed" in await written(play)


async def test_a_fetch_that_a_feature_fails_takes_no_jobs(
    play: Playground, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    class Refuses(Feature):
        fails = True

        async def get_available(
            self,
            executor: Executor,
            params: JobFetchParams,
            do_inner: Inner[JobFetchParams, Sequence[JobRow]],
        ) -> Sequence[JobRow]:
            rows = await do_inner(params)
            if self.fails and rows:
                raise ConfigError("the limit cannot be read")
            return rows

    refuses = Refuses()
    job_id = await play.insert()
    await play.start(features=[refuses])
    await play.until(lambda: "the limit cannot be read" in caplog.text)
    assert (await play.row(job_id))["state"] == "available"
    refuses.fails = False
    await play.event(job_id)


async def test_a_job_completed_in_its_own_transaction_goes_through_a_feature(
    play: Playground, notes: Notes
) -> None:
    class Completing(Worker[Task]):
        async def work(self, job: Job[Task]) -> None:
            async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
                await job_complete_tx(tx, job)
                if job.args.number:
                    await tx.rollback()
                    notes.heard.clear()

    play.worker(Completing())
    await play.start(features=[notes])
    await play.event(await play.insert())
    assert notes.heard.count("end_task_completed") == 2, "in the job, and at its end"
    await play.event(await play.insert(Task(number=1)))
    assert notes.heard.count("end_task_completed") == 1


class Vanishing(Feature):
    """Deletes jobs that succeed, and returns them as if they still existed."""

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        rows = await do_inner(ends)
        for row in rows:
            await executor.jobs.delete_selected(_only(row.id))
        return rows


def _only(job_id: int) -> Any:
    select = JobDeleteManyParams(ids=[job_id]).select()
    assert select is not None
    return select


async def test_a_feature_may_leave_no_row(play: Playground) -> None:
    await play.start(features=[Vanishing()])
    event = await play.event(await play.insert())
    assert (event.kind, event.job and event.job.state) == ("job_completed", JobState.COMPLETED)
    assert await number(play) == 0


class Staging(Feature):
    """Makes every pending job available with the end of another, and returns both rows."""

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        rows = await do_inner(ends)
        pending = await executor.jobs.row_list(JobSelectParams(states=(JobState.PENDING,)))
        await executor.jobs.retry_many([row.id for row in pending])
        return [*rows, *pending]


async def test_a_feature_may_change_other_jobs_with_an_end(play: Playground) -> None:
    await play.start(features=[Staging()])
    waiting = await play.insert(state="pending")
    await play.event(await play.insert())
    assert (await play.event(waiting)).kind == "job_completed"


# What people do


async def test_what_programs_do_to_jobs_goes_through_a_feature(
    play: Playground, notes: Notes
) -> None:
    client = play.make(features=[notes])
    ids = [await play.insert() for _ in range(4)]
    assert (await client.job_cancel(ids[0])).state is JobState.CANCELLED
    assert (await client.job_retry(ids[0])).state is JobState.AVAILABLE
    assert (await client.job_delete(ids[0])).id == ids[0]
    assert notes.heard == ["cancel", "retry", "delete"]
    await play.rows("update river_job set state = 'running' where id = %s returning 1", ids[3])
    deleted = await client.job_delete_many(JobDeleteManyParams(kinds=["task"]))
    assert [row.id for row in deleted] == ids[1:3]
    assert await number(play) == 1
    assert await written(play) == {"cancel", "retry", "delete"}


@pytest.mark.parametrize("verb", [CANCEL, DELETE, RETRY], ids=lambda verb: verb.name)
async def test_what_a_feature_fails_is_undone(
    play: Playground, notes: Notes, driver: Driver, verb: JobVerb
) -> None:
    client = play.make(features=[notes])
    state = "discarded" if verb is RETRY else "available"
    columns = {"finalized_at": "2020-01-01Z"} if verb is RETRY else {}
    job_id = await play.insert(state=state, **columns)
    notes.fails = verb.name
    one = {"retry": client.job_retry, "cancel": client.job_cancel, "delete": client.job_delete}
    with pytest.raises(ArithmeticError):
        await one[verb.name](job_id)
    with pytest.raises(ArithmeticError):
        await jobs.apply(driver, verb, [job_id], pilot=client.pilot)
    assert (await play.row(job_id))["state"] == state
    notes.fails = ""
    changes = await jobs.apply(driver, verb, [job_id, 0], pilot=client.pilot)
    assert changes == JobChanges(changed=(job_id,), skipped=((0, SkipReason.NOT_FOUND),))
    assert await written(play) == {verb.name}


async def test_the_dashboard_of_a_client_goes_through_its_features(
    play: Playground, notes: Notes
) -> None:
    client = play.make(features=[notes])
    app = create_app(client, no_auth=True)
    ids = [await play.insert() for _ in range(3)]
    async with browser(app) as pages:
        page = await pages.post("/jobs/cancel", data={"ids": str(ids[0])})
        answer = await pages.post("/api/jobs/cancel", json={"ids": [ids[1]]})
        operation = await pages.post(
            "/api/jobs/cancel", json={"query": f"id:{ids[2]}", "state": ["available"]}
        )
        assert (page.status_code, answer.status_code, operation.status_code) == (303, 200, 202)
        await idle(app.state.dashboard.get(OPERATIONS))
    assert [(await play.row(job_id))["state"] for job_id in ids] == ["cancelled"] * 3
    assert notes.heard.count("cancel") == 3


# The leader


async def test_cleaning_goes_through_a_feature(
    play: Playground, notes: Notes, driver: Driver
) -> None:
    client = play.make(features=[notes])
    for queue in ("default", "kept"):
        await factory.job(
            play.connection, "completed", queue=queue, finalized_at=client.clock() - LONG_AGO
        )
    context = ServiceContext(
        driver=driver,
        clock=client.clock,
        logger=client.logger,
        delete_before=client.pilot.delete_before,
    )
    notes.fails = "clean"
    with pytest.raises(ArithmeticError):
        await JobCleaner(context).run_once()
    assert (await number(play), await written(play)) == (2, set())
    notes.fails = ""
    assert await JobCleaner(context).run_once() == 2
    assert await written(play) == {"clean"}


async def test_rescue_goes_through_a_feature(
    play: Playground, notes: Notes, driver: Driver
) -> None:
    async def work(job: Job[Any]) -> None: ...

    play.worker(work)
    play.worker(work, Other)
    client = play.make(features=[notes])
    started = client.clock() - LONG_AGO
    ids = [await play.insert(args, "running", attempted_at=started) for args in (Task(), Other())]
    context = ServiceContext(driver=driver, clock=client.clock, logger=client.logger)
    rescuer = JobRescuer(context, client.config, pilot=client.pilot)
    notes.fails = "rescue"
    with pytest.raises(ArithmeticError):
        await rescuer.run_once()
    assert [(await play.row(job_id))["state"] for job_id in ids] == ["running"] * 2
    notes.fails = ""
    assert (await rescuer.run_once()).retried == 1
    assert [(await play.row(job_id))["state"] for job_id in ids] == ["retryable", "running"]
    assert await written(play) == {"rescue"}


async def test_a_leader_does_the_services_of_features_and_leaves_their_queues_alone(
    play: Playground, notes: Notes
) -> None:
    for queue in ("default", "kept"):
        await play.insert(state="completed", queue=queue, finalized_at="2020-01-01Z")
    await play.start(features=[notes], leader_election_disabled=False)

    async def done() -> bool:
        return {"service", "clean"} <= await written(play) and await number(play) == 1

    await play.until(done)
    (row,) = await play.rows("select queue from river_job")
    assert row["queue"] == "kept"


# Producers


async def test_features_hear_of_the_life_of_producers(play: Playground, notes: Notes) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work(job: Job[Task]) -> None:
        begun.set()
        await go_on.wait()

    play.worker(work)
    client = await play.start(features=[notes], limits=EngineLimits(keep_alive_seconds=0.01))
    assert await written(play) >= {"start_default"}
    await play.insert()
    await begun.wait()
    await play.until(lambda: "alive_1_1" in notes.heard)
    await client.queues.add("more", QueueConfig(max_workers=1))
    await play.until(lambda: "alive_2_1" in notes.heard)
    await client.queues.remove("more")
    assert "stop_more" in await written(play)
    go_on.set()
    await client.stop()
    assert notes.heard[-1] == "stop_default"
    assert notes.heard.index("end_task_completed") < notes.heard.index("stop_default")
    assert {"alive_1_1", "stop_default"} <= await written(play)


async def test_a_queue_that_a_feature_refuses_is_not_worked(play: Playground, notes: Notes) -> None:
    notes.fails = "start_default"

    async def work(job: Job[Task]) -> None: ...

    play.worker(work)
    client = play.make(features=[notes])
    with pytest.raises(ArithmeticError):
        await client.start()
    assert not client.started
    assert notes.heard == ["start_default", "stop_default"]
    assert await written(play) == {"stop_default"}


async def test_a_feature_whose_keep_alive_fails_stops_nothing(
    play: Playground, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    notes.fails = "alive_1_0"
    client = await play.start(features=[notes], limits=EngineLimits(keep_alive_seconds=0.01))
    await play.until(lambda: notes.heard.count("alive_1_0") > 2)
    await play.event(await play.insert())
    notes.fails = "stop_default"
    await client.stop()
    assert "failed at the keep-alive" in caplog.text
    assert "were not notified of left queues: stop_default" in caplog.text


# Together


async def test_the_first_feature_is_the_outermost_in_every_operation(play: Playground) -> None:
    order: list[str] = []

    class First(Notes):
        async def write(self, executor: Any, operation: str) -> None:
            order.append(f"{self.name} {operation}")

    class Second(First):
        pass

    class Third(First):
        pass

    features = [First("first"), Second("second"), Third("third")]
    client = play.make(features=features, skip_unknown_job_check=True)
    inserted = (await client.insert(Task())).job
    # Each writes after calling the inner one: the innermost first.
    assert order == ["third insert", "second insert", "first insert"]
    assert inserted.tags == ("first", "second", "third")
    for call in (client.job_cancel, client.job_retry, client.job_delete):
        order.clear()
        await call(inserted.id)
        assert [line.split()[0] for line in order] == ["third", "second", "first"]


def test_without_features_an_operation_is_the_plain_call() -> None:
    class Bare(Feature):
        pass

    pilot = Pilot([Bare()])
    assert pilot.insert_many is plain_insert_many
    assert pilot.get_available is plain_get_available
    assert pilot.set_state_if_running_many is plain_set_state_if_running_many
    assert not any(
        [
            pilot.wants_insert([job()]),
            pilot.wants_fetch("default"),
            pilot.ends,
            pilot.cleans,
            pilot.rescues,
            pilot.starts,
            pilot.keeps_alive,
            pilot.stops,
        ]
    )
    assert Pilot().queues_excluded_from_cleaning == ()


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([Notes], "must hold instances of features"),
        ([Notes(), Notes("again")], "features: Notes is given twice"),
    ],
)
def test_features_that_cannot_be_used(features: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClientConfig(features=features)


# The one that every client has


async def test_only_known_kinds_are_fetched(play: Playground) -> None:
    foreign, later = await play.insert(Other()), await play.insert(Other(), queue="more")
    client = await play.start()
    await play.event(await play.insert())
    assert (await play.row(foreign))["state"] == "available"
    # A worker that came before the queue counts for it.
    play.workers.work(Other)(lambda job: None)
    await client.queues.add("more", QueueConfig(max_workers=1))
    await play.event(later)


# Many jobs


class Sizes(Feature):
    """Notes how many jobs are inserted at a time, and how many were then in the table."""

    def __init__(self) -> None:
        self.noted: list[int] = []

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        self.noted.append(len(batch.jobs))
        inserted = await do_inner(batch)
        assert len(inserted) == (0 if batch.fast else len(batch.jobs))
        return inserted


@pytest.mark.parametrize("method", ["insert_many", "insert_many_fast"])
async def test_a_feature_is_shown_5000_jobs_at_most(play: Playground, method: str) -> None:
    sizes, jobs = Sizes(), [Task(number=at) for at in range(5_001)]
    config = ClientConfig(features=[sizes])
    client = play.make(features=[sizes], skip_unknown_job_check=True)
    given = await getattr(client, method)(jobs)
    async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
        given_tx = await getattr(client, f"{method}_tx")(tx, jobs)
    with SyncClient(play.database_url, config) as sync_client:
        given_sync = getattr(sync_client, method)(jobs)
        with psycopg.connect(play.database_url) as sync_tx:
            given_sync_tx = getattr(sync_client, f"{method}_tx")(sync_tx, jobs)
    assert sizes.noted == [5_000, 1] * 4
    assert await play.rows("select from river_job") == [{}] * 4 * 5_001
    for one in (given, given_tx, given_sync, given_sync_tx):
        if method == "insert_many":
            assert [json.loads(result.job.args)["number"] for result in one] == list(range(5_001))
        else:
            assert one == 5_001


@pytest.mark.parametrize("fast", [False, True])
async def test_many_jobs_are_inserted_all_or_none(play: Playground, fast: bool) -> None:
    async with await psycopg.AsyncConnection.connect(play.database_url) as connection:
        await connection.execute("alter table river_job add check (args ->> 'number' <> '5000')")
    jobs = [Task(number=at) for at in range(5_001)]
    client = play.make(features=[Sizes()], skip_unknown_job_check=True)
    with SyncClient(play.database_url, ClientConfig(features=[Sizes()])) as sync_client:
        with pytest.raises(DatabaseError):
            await (client.insert_many_fast if fast else client.insert_many)(jobs)
        with pytest.raises(DatabaseError):
            (sync_client.insert_many_fast if fast else sync_client.insert_many)(jobs)
    assert await play.rows("select from river_job") == []
