"""How jobs are fetched: which, how many, how soon; queues paused, added and removed while jobs
run.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions import queues as actions
from riverui.engine.config import QueueConfig
from riverui.engine.hooks import Hook, Metric
from riverui.engine.limits import EngineLimits
from riverui.engine.notifier import CONTROL
from riverui.engine.work.attempt import Cause
from riverui.engine.work.job_counts import JobCounts, log_changed
from riverui.engine.work.producer import Producer
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError, QueueAlreadyAdded, QueueNotFound
from riverui.storage.connect import connect
from tests import factory
from tests.conftest import with_database
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging
from tests.engine.ticking import settled

_BACKLOG = (
    "insert into river_job (kind, args, max_attempts) select 'task', '{}', 25"
    " from generate_series(1, %s) returning 1"
)
NEVER = timedelta(hours=1)
"""Between two polls: longer than any test."""


def producer(play: Playground, queue: str = "default") -> Producer:
    """Return the one of a queue."""
    runtime = play.client.runtime
    assert runtime is not None
    return runtime.producers[queue]


async def states(play: Playground, ids: Sequence[int]) -> list[str]:
    """Return the jobs' states, in order."""
    rows = await play.rows(
        "select id, state from river_job where id = any(%s) order by id", list(ids)
    )
    return [row["state"] for row in rows]


class Gate:
    """Jobs that run until they are let through."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.running = 0
        self.most = 0

    async def __call__(self, job: Job[Task]) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.open.wait()
        self.running -= 1


async def test_never_more_at_once_than_there_are_slots(play: Playground) -> None:
    """And each slot is filled again without waiting for a poll."""
    gate = Gate()
    play.worker(gate)
    ids = [await play.insert() for _ in range(8)]
    await play.start(queues={"default": QueueConfig(max_workers=3)}, fetch_poll_interval=NEVER)
    await play.until(lambda: gate.running == 3)
    assert (await states(play, ids)).count("running") == 3, "nothing is fetched ahead"
    gate.open.set()
    for job_id in ids:
        await play.event(job_id)
    assert gate.most == 3


async def test_more_jobs_than_one_statement_takes(play: Playground) -> None:
    gate = Gate()
    play.worker(gate)
    for _ in range(40):
        await play.insert()
    await play.start(
        queues={"default": QueueConfig(max_workers=30)},
        fetch_poll_interval=NEVER,
        limits=EngineLimits(fetch_rows=7),
    )
    await play.until(lambda: gate.running == 30)
    gate.open.set()
    await play.until(lambda: not gate.running)


async def test_a_backlog_is_fetched_on_two_connections(play: Playground) -> None:
    worked: Counter[int] = Counter()

    async def work(job: Job[Task]) -> None:
        worked[job.id] += 1

    play.worker(work)
    await play.rows(_BACKLOG, 2_000)
    client = await play.start(
        queues={"default": QueueConfig(max_workers=30)},
        fetch_poll_interval=NEVER,
        limits=EngineLimits(fetch_rows=5),
    )

    async def on_two() -> bool:
        (fetching,) = await play.rows(
            "select count(*) as connections from pg_stat_activity"
            " where datname = current_database() and query like 'with locked%%'"
        )
        return int(fetching["connections"]) == 2

    # One of them may send another statement at this moment.
    await play.until(on_two)
    await play.until(lambda: len(worked) > 500)
    await client.stop()
    rows = await play.rows("select state, count(*) as jobs from river_job group by state")
    assert {row["state"]: row["jobs"] for row in rows} == {
        "available": 2_000 - len(worked),
        "completed": len(worked),
    }
    assert set(worked.values()) == {1}


async def test_a_backlog_is_fetched_without_a_second_connection(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first = await play.insert()
    client = await play.start(
        queues={"default": QueueConfig(max_workers=30)}, limits=EngineLimits(fetch_rows=5)
    )
    await play.event(first)
    (database,) = await play.rows("select current_database() as name")
    async with await AsyncConnection.connect(
        with_database(play.database_url, "postgres"), autocommit=True
    ) as admin:
        # As where all that the server takes are in use.
        await admin.execute(f'alter database "{database["name"]}" with allow_connections false')
        await play.rows(_BACKLOG, 200)

        async def over() -> bool:
            (row,) = await play.rows("select bool_and(state = 'completed') as over from river_job")
            return bool(row["over"])

        await play.until(over)
        await admin.execute(f'alter database "{database["name"]}" with allow_connections true')
    assert "is fetched on one connection for now" in caplog.text
    await client.stop()


async def test_a_backlog_waits_for_a_client_that_is_held_back(play: Playground) -> None:
    await play.rows(_BACKLOG, 3_000)
    await play.start(
        queues={"default": QueueConfig(max_workers=30)},
        limits=EngineLimits(fetch_rows=5),
    )
    ours = producer(play)
    await play.until(lambda: ours.slots.counts.worked > 200)
    ours.hold_back(Cause.SILENT)
    await play.until(lambda: not ours.slots.expecting and not ours.slots.running)
    before = ours.slots.counts.worked
    for _ in range(20):
        await play.rows("select 1")
    assert ours.slots.counts.worked == before
    ours.go_on()
    await play.until(lambda: ours.slots.counts.worked > before)


async def test_a_job_of_a_backlog_is_cancelled_once_it_was_fetched(play: Playground) -> None:
    gate = Gate()
    play.worker(gate)
    await play.rows(_BACKLOG, 30)
    await play.start(
        queues={"default": QueueConfig(max_workers=20)}, limits=EngineLimits(fetch_rows=5)
    )
    await play.until(lambda: gate.running == 20)
    (job,) = await play.rows("select max(id) as id from river_job where state = 'running'")
    payload = json.dumps({"action": "cancel", "job_id": job["id"], "queue": "default"})
    await play.notify(CONTROL, payload)
    assert (await play.event(job["id"])).kind == "job_cancelled"
    gate.open.set()


async def test_order_is_priority_then_time_then_id(play: Playground) -> None:
    order: list[int] = []

    async def work(job: Job[Task]) -> None:
        order.append(job.args.number)

    play.worker(work)
    rows = await play.rows(
        "select now() - interval '1 hour' as early, now() - interval '1 minute' as late"
    )
    early, late = rows[0]["early"], rows[0]["late"]
    await play.insert(Task(number=4), priority=2, scheduled_at=early)
    await play.insert(Task(number=2), priority=1, scheduled_at=late)
    await play.insert(Task(number=3), priority=1, scheduled_at=late)
    await play.insert(Task(number=1), priority=1, scheduled_at=early)
    await play.start(queues={"default": QueueConfig(max_workers=1)})
    await play.until(lambda: len(order) == 4)
    assert order == [1, 2, 3, 4]


async def test_other_kinds_and_queues_and_times_are_left_alone(play: Playground) -> None:
    (row,) = await play.rows("select now() + interval '1 hour' as later")
    left = [
        await play.insert(kind="somebody_elses"),
        await play.insert(queue="other"),
        await play.insert(scheduled_at=row["later"]),
        await play.insert(state="scheduled"),
        await play.insert(state="pending"),
    ]
    await play.work()
    assert await states(play, left) == [*["available"] * 3, "scheduled", "pending"]


async def test_notification_brings_a_job_at_once(play: Playground) -> None:
    await play.start(fetch_poll_interval=NEVER)
    await play.until(lambda: producer(play).last_fetched_at is not None)
    job_id = await play.insert()
    await play.notify("river_insert", json.dumps({"queue": "default"}))
    await play.event(job_id)


async def test_invalid_notifications_are_ignored(play: Playground) -> None:
    await play.start(fetch_poll_interval=NEVER)
    await play.until(lambda: producer(play).last_fetched_at is not None)
    job_id = await play.insert()
    for payload in (
        "", "no json", "[]", "{}", "null", '"default"', '{"queue": 7}', '{"queue": "other"}',
        "[" * 5000,
    ):  # fmt: skip
        for topic in ("river_insert", "river_control", "river_leadership"):
            await play.notify(topic, payload)
    await play.notify("river_control", '{"action": "cancel", "queue": "default", "job_id": "x"}')
    await play.notify("river_control", '{"action": "dance"}')
    await play.notify("river_insert", '{"queue": "default"}')
    await play.event(job_id)


async def test_own_inserts_need_no_notification(play: Playground) -> None:
    client = await play.start(fetch_poll_interval=NEVER, poll_only=True)
    await play.until(lambda: producer(play).last_fetched_at is not None)
    inserted = await client.insert(Task())
    await play.event(inserted.job.id)


async def test_lost_connections_are_made_up_for_at_once(play: Playground) -> None:
    """All notifications are missed, and polls are an hour away."""
    worker = Hanging()
    play.worker(worker)
    client = await play.start(fetch_poll_interval=NEVER)
    running = await play.insert()
    await play.notify("river_insert", '{"queue": "default"}')
    await worker.begun.wait()
    assert client.notifier is not None
    while client.notifier.listening:
        await play.cut_connections()
        await asyncio.sleep(0)
    waiting = await play.insert()
    await play.rows(
        "update river_job set metadata = %s where id = %s returning 1", _CANCEL, running
    )
    await play.event(running)
    worker.let_go.set()
    await play.event(waiting)
    assert await states(play, [running, waiting]) == ["cancelled", "completed"]


_CANCEL = '{"cancel_attempted_at": "2026-11-21T09:00:00Z"}'


async def test_queue_is_reported(play: Playground) -> None:
    await factory.queue(play.connection, "known", metadata='{"a": 1}')
    (before,) = await play.rows("select * from river_queue")
    await play.start(
        queues={"known": QueueConfig(max_workers=1), "new": QueueConfig(max_workers=1)},
    )
    known, new = await play.rows("select * from river_queue order by name")
    assert known["updated_at"] > before["updated_at"]
    assert (known["metadata"], known["created_at"]) == ({"a": 1}, before["created_at"])
    assert (new["name"], new["metadata"], new["paused_at"]) == ("new", {}, None)


@pytest.mark.parametrize("name", ["default", "*"])
async def test_pause_and_resume(play: Playground, name: str) -> None:
    client = await play.start(fetch_poll_interval=NEVER)
    await play.until(lambda: producer(play).last_fetched_at is not None)
    events = client.subscribe("queue_paused", "queue_resumed")
    await actions.apply(client.driver, actions.PAUSE, name)
    paused = await anext(events)
    assert paused.queue is not None
    assert (paused.kind, paused.queue.name) == ("queue_paused", "default")
    job_id = await play.insert()
    heard = asyncio.Event()
    assert client.notifier is not None
    client.notifier.subscribe("river_insert", lambda message: heard.set())
    await play.notify("river_insert", '{"queue": "default"}')
    await heard.wait()
    assert (await play.row(job_id))["state"] == "available"
    await actions.apply(client.driver, actions.RESUME, name)
    assert (await anext(events)).kind == "queue_resumed"
    await play.event(job_id)


async def test_a_queue_paused_while_its_fetch_waits_for_the_connection(play: Playground) -> None:
    async with play.connection.transaction():
        # The first fetch looks where jobs begin, which waits for this lock.
        await play.connection.execute("lock table river_job in access exclusive mode")
        client = await play.start()
        await play.until_waited_for()
        await client.queue_pause("default")
        await play.until(lambda: producer(play).paused)
        job_id = await play.insert()
    await client.stop()
    assert (await play.row(job_id))["attempted_at"] is None


async def test_paused_queue_stays_paused_at_start(play: Playground) -> None:
    (row,) = await play.rows("select now() as now")
    await factory.queue(play.connection, "default", paused_at=row["now"])
    job_id = await play.insert()
    await play.start()
    assert producer(play).paused
    assert (await play.row(job_id))["state"] == "available"
    await actions.apply(play.client.driver, actions.RESUME, "default")
    await play.event(job_id)


async def test_a_pause_is_found_without_notifications(play: Playground) -> None:
    await play.start(poll_only=True, limits=EngineLimits(look_seconds_without_notifier=0.02))
    await play.rows("update river_queue set paused_at = now() returning 1")
    await play.until(lambda: producer(play).paused)
    await play.rows("update river_queue set paused_at = null returning 1")
    await play.until(lambda: not producer(play).paused)


async def test_queues_come_and_go(play: Playground) -> None:
    worker = Hanging()
    play.worker(worker)
    client = await play.start()
    assert list(client.queues.names) == ["default"]
    await client.queues.add("more", QueueConfig(max_workers=1))
    assert list(client.queues.names) == ["default", "more"]
    job_id = await play.insert(queue="more")
    await worker.begun.wait()
    removing = asyncio.create_task(client.queues.remove("more"))
    await settled()
    later = await play.insert(queue="more")
    assert not removing.done(), "it waits for the job"
    worker.let_go.set()
    await removing
    assert list(client.queues.names) == ["default"]
    await play.in_state(job_id, "completed")
    assert await states(play, [later]) == ["available"]
    await client.queues.add("more", QueueConfig(max_workers=1))
    await play.event(later)


async def test_queues_can_be_changed_before_the_start(play: Playground) -> None:
    play.worker(lambda job: None)
    client = play.make()
    await client.queues.add("more", QueueConfig(max_workers=1))
    await client.queues.remove("default")
    job_id = await play.insert(queue="more")
    await client.start()
    assert client.queues.names == ("more",)
    await play.in_state(job_id, "completed")


async def test_queues_are_scaled(play: Playground) -> None:
    worker = Hanging()
    play.worker(worker)
    client = await play.start()
    await client.queues.add("more", QueueConfig(max_workers=1))
    jobs = [await play.insert(queue="more") for _ in range(4)]
    await play.until(lambda: client.running == 1)
    await client.queues.scale("more", 3)
    await play.until(lambda: client.running == 3)
    assert client.config.queues["more"].max_workers == 3
    await client.queues.scale("more", 1)
    worker.let_go.set()
    for job in jobs:
        await play.in_state(job, "completed")
    with pytest.raises(ConfigError, match="does not work queue"):
        await client.queues.scale("other", 1)
    with pytest.raises(ConfigError, match="max_workers"):
        await client.queues.scale("more", 0)


async def test_queues_that_cannot_be_added_or_removed(play: Playground) -> None:
    client = await play.start()
    with pytest.raises(QueueAlreadyAdded, match="already") as added:
        await client.queues.add("default", QueueConfig(max_workers=1))
    with pytest.raises(ConfigError, match="queue name"):
        await client.queues.add("No Name", QueueConfig(max_workers=1))
    with pytest.raises(QueueNotFound, match="does not work queue") as missing:
        await client.queues.remove("other")
    assert (added.value.name, missing.value.name) == ("default", "other")
    assert issubclass(QueueAlreadyAdded, ConfigError)
    assert issubclass(QueueNotFound, ConfigError)


async def test_measurements_of_fetching(play: Playground) -> None:
    seen: list[Metric] = []

    class Meter(Hook):
        def metric_emit(self, metric: Metric) -> None:
            seen.append(metric)
            if len(seen) == 1:
                raise RuntimeError("x")

    await play.start(hooks=[Meter()])
    await play.work()
    assert {metric.name for metric in seen} == {
        "job_get_available_count",
        "job_get_available_duration",
    }
    assert {metric.queue for metric in seen} == {"default"}
    assert sum(metric.value for metric in seen if metric.name == "job_get_available_count") == 1
    assert all(metric.value > 0 for metric in seen if metric.name == "job_get_available_duration")


async def test_a_job_that_comes_back_while_it_still_runs(play: Playground) -> None:
    """The rescuer gave up on it, and this very client takes it again."""
    gate = Gate()
    play.worker(gate)
    client = await play.start(queues={"default": QueueConfig(max_workers=2)})
    job_id = await play.insert()
    await play.until(lambda: gate.running == 1)
    await play.rows("update river_job set state = 'available' where id = %s returning 1", job_id)
    await play.until(lambda: gate.running == 2)
    assert client.running == 2
    gate.open.set()
    await play.until(lambda: not client.running)
    row = await play.in_state(job_id, "completed")
    assert row["attempt"] == 2
    other = await play.work()
    assert other["state"] == "completed", "no slot was lost"


async def asked(play: Playground, **settings: Any) -> Counter[str]:
    """Count the statements of a client with five queues, from when all of them wait."""
    seen: Counter[str] = Counter()
    driver = connect(play.database_url, watch=lambda name, *_: seen.update([name]))
    queues = {f"queue_{number}": QueueConfig(max_workers=1) for number in range(5)}
    await play.start(database=driver, queues=queues, **settings)
    await play.until(lambda: all(producer(play, name).fetcher.waits for name in queues))
    seen.clear()
    return seen


async def test_one_statement_polls_for_all_queues(play: Playground) -> None:
    seen = await asked(play, poll_only=True)
    await play.until(lambda: seen["queue_with_available_list"] >= 5)
    assert seen["job_get_available"] == 0, "nobody fetches where there is nothing"
    for queue in ("queue_3", "queue_1"):
        await play.event(await play.insert(queue=queue))
    # One for the job, and perhaps one for the slot that it gave back.
    assert seen["job_get_available"] <= 2 * 2


async def test_a_notification_wakes_only_its_queue(play: Playground) -> None:
    seen = await asked(play, fetch_poll_interval=NEVER)
    job_id = await play.insert(queue="queue_3")
    await play.notify("river_insert", '{"queue": "queue_3"}')
    await play.event(job_id)
    assert seen["job_get_available"] <= 2
    assert seen["queue_with_available_list"] == 0


async def test_one_statement_looks_after_all_queues(play: Playground) -> None:
    limits = EngineLimits(look_seconds=0.02)
    seen = await asked(play, fetch_poll_interval=NEVER, limits=limits)
    await play.until(lambda: seen["queue_row_get_many"] >= 3)
    await play.rows("delete from river_queue where name = 'queue_2' returning 1")
    await play.rows("update river_queue set paused_at = now() where name = 'queue_4' returning 1")
    await play.until(lambda: producer(play, "queue_4").paused)
    await play.until(lambda: seen["queue_upsert_many"] == 1)
    assert not producer(play, "queue_2").paused
    (row,) = await play.rows("select count(*) as count from river_queue")
    assert row["count"] == 5


async def test_queues_have_their_own_poll_intervals(play: Playground) -> None:
    often, never = timedelta(milliseconds=10), timedelta(hours=1)
    await play.start(
        poll_only=True,
        queues={
            "often": QueueConfig(max_workers=1, fetch_poll_interval=often),
            "never": QueueConfig(max_workers=1, fetch_poll_interval=never),
        },
    )
    await play.until(lambda: all(producer(play, name).fetcher.waits for name in ("often", "never")))
    left = await play.insert(queue="never")
    for _ in range(3):
        await play.event(await play.insert(queue="often"))
    assert await states(play, [left]) == ["available"]


async def test_idle_client_asks_no_more_than_it_must(play: Playground) -> None:
    fetched = []

    def watch(block: str, sql: str, values: Sequence[Any]) -> None:
        if block == "job_get_available":
            fetched.append(block)

    await play.start(
        fetch_poll_interval=timedelta(milliseconds=100),
        database=connect(play.database_url, watch=watch),
    )
    began, before = asyncio.get_running_loop().time(), len(fetched)
    await play.until(lambda: len(fetched) >= before + 6)
    assert asyncio.get_running_loop().time() - began >= 0.5


async def test_large_jobs_are_fetched_in_small_batches(play: Playground) -> None:
    limits: list[int] = []

    def watch(block: str, sql: str, values: Sequence[Any]) -> None:
        if block == "job_get_available":
            # The one whole number beside the most entries of attempted_by, which is 100.
            limits.append(next(value for value in values if type(value) is int and value < 100))

    gate = Gate()
    play.worker(gate)
    for _ in range(12):
        await play.insert(Task(value="x" * 200))
    few = EngineLimits(fetch_characters=1000, fetch_first_rows=2)
    await play.start(
        fetch_poll_interval=NEVER, limits=few, database=connect(play.database_url, watch=watch)
    )
    await play.until(lambda: gate.running == 10)
    assert limits[0] == 2
    assert set(limits[1:]) <= {1, 2, 3, 4}
    gate.open.set()
    await play.until(lambda: not gate.running)


async def test_a_job_cancelled_between_its_fetch_and_its_beginning_is_not_worked(
    play: Playground,
) -> None:
    worked: list[int] = []

    async def work(job: Job[Task]) -> None:
        worked.append(job.id)

    play.worker(work)
    first, second = await play.insert(), await play.insert()
    fetches: list[str] = []

    def watch(block: str, sql: str, values: Sequence[Any]) -> None:
        if block == "job_get_available":
            fetches.append(block)
            if len(fetches) == 2:
                # The first job has been fetched; it begins when the second fetch is on its way.
                message = {"action": "cancel", "queue": "default", "job_id": first}
                # A notification by way of the database would come a moment too late.
                producer(play)._on_control(message)  # noqa: SLF001

    one = EngineLimits(fetch_rows=1)
    await play.start(limits=one, database=connect(play.database_url, watch=watch))
    assert (await play.event(first)).kind == "job_cancelled"
    assert (await play.event(second)).kind == "job_completed"
    assert worked == [second]
    assert await states(play, [first, second]) == ["cancelled", "completed"]


async def test_a_pause_that_is_notified_before_the_queue_is_read(play: Playground) -> None:
    client = await play.start()
    assert client.notifier is not None
    heard = asyncio.Event()
    client.notifier.subscribe(CONTROL, lambda message: heard.set())
    async with play.connection.transaction():
        await play.connection.execute("lock table river_queue in access exclusive mode")
        adding = asyncio.create_task(client.queues.add("more", QueueConfig(max_workers=1)))
        await play.until_waited_for()
        async with await AsyncConnection.connect(play.database_url, autocommit=True) as other:
            await other.execute(
                "select pg_notify(current_schema() || '.river_control', %s)",
                ['{"action": "pause", "queue": "more"}'],
            )
        await heard.wait()
    await adding
    early = producer(play, "more")
    assert not early.paused, "the row may say otherwise"
    assert early.look_again, "so it is looked at again"


async def test_job_counts_are_logged_when_they_have_changed(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.engine")
    gate = Gate()
    play.worker(gate)
    ids = [await play.insert()]
    client = await play.start(
        queues={"default": QueueConfig(max_workers=5), "idle": QueueConfig(max_workers=1)}
    )
    runtime = client.runtime
    assert runtime is not None
    await play.until(lambda: gate.running == 1)

    def log(counts: Mapping[str, JobCounts]) -> dict[str, JobCounts]:
        caplog.clear()
        return log_changed(runtime.producers, counts, client.logger)

    counts = log({})
    assert caplog.messages == ["queue default: 0 jobs worked, 1 running, 0 stuck"]
    counts = log(counts)
    assert caplog.messages == []
    gate.open.set()
    for job_id in ids:
        await play.event(job_id)
    await play.until(lambda: client.running == 0)
    log(counts)
    assert caplog.messages == ["queue default: 1 job worked, 0 running, 0 stuck"]
    (record,) = caplog.records
    assert (record.__dict__["num_completed_jobs"], record.__dict__["queue"]) == (1, "default")
