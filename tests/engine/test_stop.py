"""Starts and stops of a client: starts that fail, jobs that are interrupted, phases of stopping."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from riverui.engine.client import Client, default_client_id
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.shutdown import serve
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError, DatabaseUnavailable, SchemaMissing, TooManyConnections
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging, at_work, fail
from tests.engine.ticking import settled


async def test_start_and_stop_again_and_again(play: Playground) -> None:
    client = await play.start()
    assert client.started
    await client.start()
    await client.stop()
    assert not client.started
    await client.stop()
    await client.start()
    job_id = await play.insert()
    assert (await play.in_state(job_id, "completed"))["attempted_by"] == [client.id]


def test_a_client_may_be_started_in_one_event_loop_after_another(database_url: str) -> None:
    # As with a module's client in a web app whose tests start the app once each.
    workers = Workers()
    double = workers.task(kind="double")(_double)
    config = ClientConfig(queues={"default": QueueConfig(max_workers=1)}, workers=workers)
    client, inserting = Client(database_url, config), Client(database_url)

    async def once() -> Any:
        async with client:
            inserted = await double.insert(inserting, 3)
            return (await client.wait(inserted.job.id, timeout=timedelta(seconds=30))).output

    assert [asyncio.run(once()) for _ in range(3)] == [6, 6, 6]
    asyncio.run(inserting.stop())


async def _double(number: int) -> int:
    return 2 * number


async def test_a_start_while_it_stops_begins_anew(play: Playground) -> None:
    hanging = Hanging()
    play.worker(hanging)
    await play.insert()
    client = await play.start()
    await hanging.begun.wait()
    stopping = asyncio.create_task(client.stop())
    await settled()
    starting = asyncio.create_task(client.start())
    await asyncio.sleep(0)
    assert not starting.done()
    hanging.let_go.set()
    await asyncio.gather(stopping, starting)
    assert client.started
    assert (await play.in_state(await play.insert(), "completed"))["attempted_by"] == [client.id]


async def test_waiting_until_it_has_stopped(play: Playground) -> None:
    client = await play.start()
    waiting = [asyncio.create_task(client.stopped()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    await client.stop_and_cancel()
    await asyncio.gather(*waiting)
    await client.stopped()


async def test_a_start_without_a_connection_left_says_how_many_it_takes(play: Playground) -> None:
    name = f"riverui_narrow_{token_hex(4)}"
    await play.connection.execute(f"create role {name} login connection limit 1".encode())
    try:
        await play.connection.execute(
            f"grant all on all tables in schema public to {name}".encode()
        )
        play.worker(Hanging())
        url = urlsplit(play.database_url)
        narrow = url._replace(netloc=f"{name}@{url.netloc.rpartition('@')[2]}")
        client = Client(urlunsplit(narrow), play.config())
        with pytest.raises(
            TooManyConnections, match=r"limit is reached\. .* up to five connections"
        ):
            await client.start()
        assert not client.started
    finally:
        await play.connection.execute(f"drop owned by {name}; drop role {name}".encode())


async def test_with_starts_and_stops(play: Playground) -> None:
    play.worker(Hanging())
    async with play.make() as client:
        assert client.started
    assert not client.started


async def test_without_queues_there_is_nothing_to_start(database_url: str) -> None:
    async with Client(database_url) as client:
        assert not client.started
        with pytest.raises(ConfigError, match="only inserts"):
            await client.start()
        with pytest.raises(ConfigError, match="no events"):
            client.subscribe("job_completed")
        with pytest.raises(ConfigError, match="only inserts"):
            await client.queues.add("more", QueueConfig(max_workers=1))


async def test_without_a_worker_there_is_no_start(play: Playground) -> None:
    client = play.make(workers=Workers())
    with pytest.raises(ConfigError, match="workers is empty"):
        await client.start()
    assert not client.started


async def test_start_without_tables_or_a_database(
    empty_database_url: str, play: Playground
) -> None:
    play.worker(Hanging())
    for url, error in (
        (empty_database_url, SchemaMissing),
        ("postgresql://nobody@127.0.0.1:1/none", DatabaseUnavailable),
    ):
        client = Client(url, play.config())
        with pytest.raises(error):
            await client.start()
        assert not client.started
        await client.stop()


async def test_stop_waits_for_jobs(play: Playground) -> None:
    client, job_id = await at_work(play, worker := Hanging())
    later = await play.insert()
    await play.in_state(later, "running")
    stopping = asyncio.create_task(client.stop())
    await settled()
    unfetched = await play.insert()
    assert not stopping.done()
    worker.let_go.set()
    await stopping
    assert (await play.row(job_id))["state"] == "completed"
    assert (await play.row(later))["state"] == "completed"
    assert (await play.row(unfetched))["state"] == "available"


async def test_interrupted_jobs_get_their_attempt_back(play: Playground) -> None:
    worker = Hanging()
    play.worker(worker)
    client = await play.start()
    job_id = await play.insert(attempt=3, metadata={"a": 1})
    before = await play.row(job_id)
    await worker.begun.wait()
    await client.stop_and_cancel()
    row = await play.row(job_id)
    assert (row["state"], row["attempt"], row["errors"]) == ("available", 3, None)
    assert row["metadata"] == {"a": 1}
    assert row["scheduled_at"] > before["scheduled_at"]
    assert row["attempted_by"] == [client.id]
    assert (await play.event(job_id)).kind == "job_interrupted"


@pytest.mark.parametrize(
    ("then", "state", "errors"),
    [(fail(ValueError("x")), "available", 1), (lambda: None, "completed", 0)],
    ids=["error", "success"],
)
async def test_the_outcome_of_a_stopped_job_counts(
    play: Playground, then: Callable[[], Any], state: str, errors: int
) -> None:
    client, job_id = await at_work(play, Hanging(then))
    await client.stop_and_cancel()
    row = await play.row(job_id)
    assert (row["state"], row["attempt"], len(row["errors"] or ())) == (state, 1, errors)


async def test_soft_stop_timeout(play: Playground) -> None:
    client, job_id = await at_work(play, Hanging(), soft_stop_timeout=timedelta(milliseconds=30))
    await client.stop()
    assert (await play.row(job_id))["state"] == "available"


async def test_giving_up_waiting_does_not_stop_the_stop(play: Playground) -> None:
    client, job_id = await at_work(play, Hanging())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.stop(), 0.02)
    assert client.started
    await client.stop_and_cancel()
    assert not client.started
    assert (await play.row(job_id))["state"] == "available"


async def test_abandoned_jobs_are_left_running(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    client, job_id = await at_work(play, worker := Hanging(deaf=True))
    stopping = asyncio.create_task(client.stop_and_cancel())
    await worker.cancelled.wait()
    assert not stopping.done()
    await client.stop_and_abandon()
    await stopping
    assert not client.started
    assert (await play.row(job_id))["state"] == "running"
    assert "rescued" in caplog.text
    worker.let_go.set()


async def test_a_thread_that_never_returns_can_be_left_alone(play: Playground) -> None:
    let_go = threading.Event()
    play.worker(lambda job: let_go.wait() and None)
    client = await play.start()
    job_id = await play.insert()
    await play.in_state(job_id, "running")
    await client.stop_and_abandon()
    assert (await play.row(job_id))["state"] == "running"
    let_go.set()


async def test_jobs_that_arrive_while_stopping_are_worked_or_given_back(play: Playground) -> None:
    """A fetch is running when the client is stopped."""
    worker = Hanging()
    play.worker(worker)
    async with play.connection.transaction():
        # The fetch has to wait for this lock, in the middle of its statement.
        await play.connection.execute("lock table river_job in access exclusive mode")
        client = await play.start()
        await play.until_waited_for()
        stopping = asyncio.create_task(client.stop())
        job_id = await play.insert()
        await asyncio.sleep(0)
        assert not stopping.done()
        cancelling = asyncio.create_task(client.stop_and_cancel())
        await asyncio.sleep(0)
    await asyncio.gather(stopping, cancelling)
    row = await play.row(job_id)
    assert (row["state"], row["attempt"], row["errors"]) == ("available", 0, None)


async def test_signals_stop_in_three_phases(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.engine")
    left: list[int] = []
    deaf = Hanging(deaf=True)
    play.worker(deaf)
    client = play.make()
    serving = asyncio.create_task(
        serve(client, soft_stop=None, hard_stop=None, leave=lambda: left.append(1))
    )
    job_id = await play.insert()
    await deaf.begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await play.until(lambda: "stopping" in caplog.text)
    assert not deaf.cancelled.is_set()
    os.kill(os.getpid(), signal.SIGINT)
    await deaf.cancelled.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert left == [1]
    assert (await play.row(job_id))["state"] == "running"
    deaf.let_go.set()


async def test_time_moves_the_phases_on(play: Playground) -> None:
    left: list[int] = []
    deaf = Hanging(deaf=True)
    play.worker(deaf)
    client = play.make()
    moment = timedelta(milliseconds=30)
    serving = asyncio.create_task(
        serve(client, soft_stop=moment, hard_stop=moment, leave=lambda: left.append(1))
    )
    await play.insert()
    await deaf.begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert left == [1]
    deaf.let_go.set()


async def test_run_ends_with_its_jobs(play: Playground) -> None:
    worker = Hanging()
    play.worker(worker)
    client = play.make()
    running = asyncio.create_task(client.run())
    job_id = await play.insert()
    await worker.begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    worker.let_go.set()
    await running
    assert (await play.row(job_id))["state"] == "completed"
    assert not client.started


@pytest.mark.long
async def test_a_hundred_short_lives(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        pass

    play.worker(work)
    client = play.make(log_jobs=False)
    for _ in range(100):
        await client.start()
        await client.stop()

    async def alone() -> bool:
        others = (
            "select 1 from pg_stat_activity where datname = current_database() and pid <>"
            " pg_backend_pid()"
        )
        return not await play.rows(others)

    await play.until(alone)


def test_default_id_is_one_word() -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 11, 21, 9, 5, 3, 42, tzinfo=UTC)
    assert default_client_id("db.example.com", now) == "db_example_com_2026_11_21T09_05_03_000042"
    assert default_client_id("", now) == "unknown_host_2026_11_21T09_05_03_000042"
    assert len(default_client_id("é" * 100, now).encode()) <= 100
