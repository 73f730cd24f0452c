"""Waiting for jobs without asyncio: threads that share their looks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from bench.engine.wiretap import wiretap
from riverui.domain.jobs import JobState
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import InsertManyParams
from riverui.engine.job_lists import JobListParams
from riverui.engine.limits import EngineLimits
from riverui.engine.sync_client import SyncClient
from riverui.engine.sync_results import SyncJobResults
from riverui.engine.work.context import record_output
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError, DatabaseUnavailable, JobGone, NotFound, WaitTimeout
from riverui.storage.connect import connect_sync
from tests.engine.conftest import LONGEST_WAIT, Playground, Task
from tests.engine.test_results import ONCE, looks

LONG = timedelta(seconds=LONGEST_WAIT)
"""After which a test gives up waiting."""


@pytest.fixture
def client(database_url: str) -> Iterator[SyncClient]:
    with SyncClient(database_url) as client:
        yield client


async def act(job: Job[Task]) -> None:
    """Do what the job's args say."""
    if job.args.value == "fail":
        raise ValueError("x")
    record_output(job.args.number)


async def test_a_thread_waits_for_a_job(play: Playground, client: SyncClient) -> None:
    play.worker(act)
    await play.start()

    def view() -> list[Any]:
        done = client.insert(Task(number=7))
        failed = client.insert(Task(value="fail"), max_attempts=1)
        row = client.wait(done.job.id, timeout=LONG)
        return [row.output, client.wait(failed.job.id).state, client.wait_many([])]

    assert await asyncio.to_thread(view) == [7, "discarded", []]


async def test_a_thread_waits_for_all_that_match(play: Playground, client: SyncClient) -> None:
    play.worker(act)
    await play.start()

    def view() -> list[Any]:
        many = [InsertManyParams(Task(number=n), tags=["batch"]) for n in range(30)]
        client.insert_many_fast([*many, Task(value="other")])
        batch = JobListParams(tags_all=["batch"])
        done = client.wait_all(batch, timeout=LONG)
        client.insert(Task(), tags=["late"], queue="nobody")
        with pytest.raises(WaitTimeout, match=r"^1 job has not ended \(1 available\) after 0 s\.$"):
            client.wait_all(JobListParams(tags_any=["late"]), timeout=timedelta(0))
        return [done[JobState.COMPLETED], sum(done.values()), client.job_count(batch) == done]

    assert await asyncio.to_thread(view) == [30, 30, True]


async def test_many_threads_share_one_poll(play: Playground, database_url: str) -> None:
    ids = [await play.insert() for _ in range(16)]
    stop = threading.Event()
    async with wiretap(database_url) as (url, tap):
        client = SyncClient(url)

        def wait(job_id: int) -> object:
            try:
                return client.wait(job_id, timeout=LONG).id
            finally:
                stop.set()

        loop = asyncio.get_running_loop()
        began = loop.time()
        with ThreadPoolExecutor(16) as pool:
            waits = [loop.run_in_executor(pool, wait, job_id) for job_id in ids]
            await play.until(lambda: looks(tap) >= 6)
            # The first, and another when notifications are heard.
            assert looks(tap) <= (loop.time() - began) / 0.05 + 2
            assert not stop.is_set()
            await play.connection.execute(
                "update river_job set state = 'completed', finalized_at = now()"
            )
            assert await asyncio.gather(*waits) == ids
        client.close()


async def test_an_end_is_notified_to_a_thread(play: Playground, database_url: str) -> None:
    """It does not poll a second time by itself, except when it starts listening."""
    let_go = asyncio.Event()

    async def work(job: Job[Task]) -> None:
        await let_go.wait()

    play.worker(work)
    working = await play.start()
    driver = connect_sync(database_url)
    results = SyncJobResults(driver, ONCE)
    job_id = await play.insert()
    task = asyncio.create_task(asyncio.to_thread(lambda: list(results.ended([job_id], None))))
    assert working.runtime is not None
    wanted = working.runtime.runner.wanted
    await play.until(lambda: list(wanted.ids) == [job_id])
    let_go.set()
    assert [row.state for row in await task] == ["completed"]
    assert results.notifier is not None
    assert results.notifier.listening
    results.close()
    assert not results.notifier.listening
    results.close()
    driver.close()


async def test_a_thread_without_notifications_polls(play: Playground, database_url: str) -> None:
    play.worker(act)
    await play.start()
    with (
        SyncClient(database_url) as own,
        SyncClient(database_url, ClientConfig(poll_only=True)) as polling,
        ConnectionPool(database_url, min_size=1, open=True) as pool,
        SyncClient(pool) as lent,
    ):
        for client in (polling, lent, own):
            job = await asyncio.to_thread(client.insert, Task(number=3))
            found = await asyncio.to_thread(client.wait, job.job.id, timeout=LONG)
            assert found.output == 3
        job_id = await play.insert(queue="nobody")
        task = asyncio.create_task(asyncio.to_thread(own.wait, job_id, timeout=LONG))
        await play.until(lambda: _listens(play))
        await play.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query like 'listen%%ended%%'"
        )
        await play.client.job_cancel(job_id)
        assert (await task).state == "cancelled"


async def _listens(play: Playground) -> bool:
    return bool(
        await play.rows(
            "select from pg_stat_activity"
            " where datname = current_database() and query like 'listen%%ended%%'"
        )
    )


async def test_the_notifier_closes_after_the_last_wait(play: Playground, database_url: str) -> None:
    driver = connect_sync(database_url)
    results = SyncJobResults(driver, EngineLimits(results_linger_seconds=0))
    job_id = await play.insert()
    with pytest.raises(WaitTimeout):
        await asyncio.to_thread(lambda: list(results.ended([job_id], 0.1)))
    await play.until(lambda: not [t for t in threading.enumerate() if t.name == "riverui results"])
    results.close()
    driver.close()


async def test_what_goes_wrong(play: Playground, client: SyncClient) -> None:
    waiting, deleted = [await play.insert() for _ in range(2)]
    ended = await play.insert(state="completed")
    with pytest.raises(WaitTimeout, match=f"Job {waiting} is still available after 0 s") as raised:
        client.wait(waiting, timeout=timedelta(0))
    assert raised.value.states == {waiting: "available"}
    with pytest.raises(NotFound, match="Job not found: 4711"):
        client.wait(4711)
    with pytest.raises(ConfigError, match="timeout must be a timedelta"):
        client.wait(waiting, timeout=5)  # type: ignore[arg-type]
    each = client.wait_each([deleted, ended], timeout=LONG)
    # It has looked at both by now.
    assert (await asyncio.to_thread(next, each)).id == ended
    await play.connection.execute("delete from river_job where id = %s", [deleted])
    with pytest.raises(JobGone, match=f"Job not found: {deleted}"):
        await asyncio.to_thread(next, each)
    with (
        SyncClient("postgresql://nobody@127.0.0.1:9/nowhere") as nowhere,
        pytest.raises(DatabaseUnavailable),
    ):
        nowhere.wait(waiting)


async def test_jobs_as_they_end(play: Playground, client: SyncClient) -> None:
    first, second = [await play.insert() for _ in range(2)]
    each = client.wait_each([second, first], timeout=LONG)

    async def end(job_id: int) -> None:
        await play.connection.execute(
            "update river_job set state = 'cancelled', finalized_at = now() where id = %s", [job_id]
        )

    await end(first)
    assert (await asyncio.to_thread(next, each)).id == first
    await end(second)
    assert (await asyncio.to_thread(next, each)).id == second
    assert await asyncio.to_thread(next, each, None) is None
