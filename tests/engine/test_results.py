"""Waiting for jobs to end: by notifications and by looks, in one process and across several."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from bench.engine.wiretap import Wiretap, wiretap
from riverui.domain.jobs import JobRow, JobState
from riverui.engine.client import Client, client_from_context
from riverui.engine.config import ClientConfig
from riverui.engine.job_results import ids_of, payloads
from riverui.engine.limits import EngineLimits
from riverui.engine.notifier import JOB_ENDED, JOB_WANTED
from riverui.engine.work.context import record_output
from riverui.engine.work.wanted_ends import WantedEnds
from riverui.engine.work.worker import Job, JobCancel
from riverui.errors import (
    ConfigError,
    DatabaseUnavailable,
    JobGone,
    NotFound,
    RiveruiError,
    WaitTimeout,
)
from riverui.storage.interface import Driver
from tests.engine.conftest import LONGEST_WAIT, Playground, Task, until

LONG = timedelta(seconds=LONGEST_WAIT)
"""After which a test gives up waiting."""
ONCE = EngineLimits(results_most_seconds=3_600, results_least_seconds=3_600)
"""Polls once when a wait begins, and then only after a notification."""
OFTEN = EngineLimits(results_most_seconds=0.02, results_least_seconds=0.01)


@pytest.fixture
async def web(database_url: str) -> AsyncIterator[Client]:
    """Yield a client that works nothing, as in a web app."""
    client = Client(database_url, limits=OFTEN)
    yield client
    await client.stop()


async def act(job: Job[Task]) -> None:
    """Do what the job's args say."""
    if job.args.value == "cancel":
        raise JobCancel("enough")
    if job.args.value == "fail":
        raise ValueError("x")
    record_output({"number": job.args.number})


def looks(tap: Wiretap) -> int:
    """Return how often states of jobs were polled."""
    return sum(count for text, count in tap.statements.items() if "cardinality(j.errors)" in text)


async def waiting_for(client: Client, ids: list[int]) -> asyncio.Task[list[JobRow]]:
    """Return a task that waits for jobs, and has looked at them."""
    task = asyncio.create_task(client.wait_many(ids, timeout=LONG))
    waiting = client.results.waiting
    await until(lambda: bool(waiting) and all(each.looked for each in waiting))
    return task


@pytest.mark.parametrize("poll_only", [False, True])
async def test_a_job_that_another_client_works(
    play: Playground, web: Client, poll_only: bool
) -> None:
    play.worker(act)
    await play.start(poll_only=poll_only)
    done = await web.insert(Task(number=7))
    row = await web.wait(done.job.id, timeout=LONG)
    assert (row.state, row.output) == (JobState.COMPLETED, {"number": 7})
    assert row == await web.wait(done.job.id), "one that has ended already is there at once"
    cancelled = await web.insert(Task(value="cancel"))
    assert (await web.wait(cancelled.job.id, timeout=LONG)).state is JobState.CANCELLED
    failed = await web.insert(Task(value="fail"), max_attempts=1)
    assert (await web.wait(failed.job.id, timeout=LONG)).state is JobState.DISCARDED
    retried = await web.insert(Task(value="fail"), max_attempts=2)
    with pytest.raises(WaitTimeout, match=f"Job {retried.job.id} is still .* after 0.1 s"):
        await web.wait(retried.job.id, timeout=timedelta(seconds=0.1))


async def test_an_end_is_notified_to_waiting_clients(play: Playground, database_url: str) -> None:
    """None of the clients polls a second time."""
    let_go = asyncio.Event()

    async def work(job: Job[Task]) -> None:
        await let_go.wait()
        await act(job)

    play.worker(work)
    working = await play.start(limits=ONCE)
    web = Client(database_url, limits=ONCE)
    values = ("", "cancel", "fail")
    ids = [(await web.insert(Task(value=value), max_attempts=1)).job.id for value in values]
    tasks = [await waiting_for(client, ids) for client in (web, working)]
    wanted = working.runtime.runner.wanted  # type: ignore[union-attr]  # it runs
    await play.until(lambda: wanted.ids.keys() == set(ids))
    # The web app's own connection may open last: without it, it would not be notified.
    await play.until(lambda: all(client.results.listening for client in (web, working)))
    let_go.set()
    for task in tasks:
        assert [row.state for row in await task] == ["completed", "cancelled", "discarded"]
    assert not wanted.ids
    await web.stop()


async def test_what_others_end_is_found_by_polling(play: Playground, web: Client) -> None:
    """As Go does, or a person."""
    go, person, deleted, retried = [await play.insert() for _ in range(4)]
    waits = [
        asyncio.create_task(web.wait(job_id, timeout=LONG)) for job_id in (go, person, deleted)
    ]
    task = await waiting_for(web, [go, person, deleted])
    await play.connection.execute(
        "update river_job set state = 'completed', finalized_at = now() where id = %s", [go]
    )
    await web.job_cancel(person)
    assert (await waits[0]).state == "completed"
    assert (await waits[1]).state == "cancelled"
    await web.job_delete(deleted)
    with pytest.raises(JobGone, match=f"Job not found: {deleted}"):
        await waits[2]
    with pytest.raises(JobGone):
        await task
    assert issubclass(JobGone, NotFound)
    assert (await web.job_get(retried)).state == "available"


async def test_jobs_that_are_not_there(web: Client) -> None:
    for nobody in (4_711, -1, 2**70):
        with pytest.raises(NotFound, match=f"Job not found: {nobody}") as raised:
            await web.wait(nobody)
        assert not isinstance(raised.value, JobGone)


async def test_an_ephemeral_job_vanishes(play: Playground, web: Client) -> None:
    let_go = asyncio.Event()

    async def work(job: Job[Task]) -> None:
        await let_go.wait()

    play.workers.work(Task, ephemeral=True)(work)
    await play.start()
    task = await waiting_for(web, [(await web.insert(Task())).job.id])
    let_go.set()
    with pytest.raises(JobGone):
        await task


async def test_a_timeout_names_the_jobs_states(play: Playground, web: Client) -> None:
    ended = await play.insert(state="completed")
    left = [await play.insert(), await play.insert(), await play.insert(state="retryable")]
    with pytest.raises(WaitTimeout) as raised:
        await web.wait_many([ended, *left], timeout=timedelta(0))
    assert str(raised.value) == "3 jobs have not ended (2 available, 1 retryable) after 0 s."
    assert raised.value.states == dict(
        zip(left, ["available", "available", "retryable"], strict=True)
    )
    assert isinstance(raised.value, TimeoutError)
    words = r"timeout must be a timedelta, such as timedelta\(seconds=10\), not 5"
    with pytest.raises(ConfigError, match=words):
        await web.wait(ended, timeout=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"by their ids, such as result\.job\.id, not by InsertR"):
        await web.wait(await web.insert(Task()))  # type: ignore[arg-type]


async def test_many_jobs_in_the_order_asked_for_and_as_they_end(
    play: Playground, web: Client
) -> None:
    play.worker(act)
    ids = [await play.insert() for _ in range(30)]
    assert await web.wait_many([]) == []
    async with aclosing(web.wait_each(ids, timeout=LONG)) as each:
        await play.start()
        ended = [row.id async for row in each]
    assert sorted(ended) == ids
    asked = [ids[7], ids[3], ids[7]]
    assert [row.id for row in await web.wait_many(asked)] == asked


async def test_a_job_may_wait_for_another(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        if job.args.value:
            client = client_from_context()
            child = await client.insert(Task(number=3))
            record_output((await client.wait(child.job.id, timeout=LONG)).output["number"] + 1)
        else:
            await act(job)

    play.worker(work)
    row = await play.work(args=Task(value="parent"))
    assert row["metadata"]["output"] == 4


async def test_two_hundred_waits_share_their_polls(play: Playground, database_url: str) -> None:
    ids = [await play.insert() for _ in range(200)]
    async with wiretap(database_url) as (url, tap):
        config = ClientConfig(poll_only=True)
        client = Client(url, config, limits=EngineLimits(results_least_seconds=0.2))
        waits = [asyncio.create_task(client.wait(job_id)) for job_id in ids]
        await waiting_for(client, ids[:1])
        tap.clear()
        began = asyncio.get_running_loop().time()
        await play.until(lambda: looks(tap) >= 5)
        assert looks(tap) <= (asyncio.get_running_loop().time() - began) / 0.2 + 2
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await client.stop()


async def test_a_wait_outlives_a_lost_database_but_does_not_begin_without_one(
    play: Playground, web: Client
) -> None:
    job_id = await play.insert()
    task = await waiting_for(web, [job_id])
    for _ in range(3):
        await play.until(lambda: _cut(play))
    await web.job_cancel(job_id)
    assert (await task)[0].state == "cancelled"
    nowhere = Client("postgresql://nobody@127.0.0.1:9/nowhere")
    with pytest.raises(DatabaseUnavailable):
        await nowhere.wait(job_id)
    await nowhere.stop()


async def test_a_stop_ends_all_waits(play: Playground, database_url: str) -> None:
    client = Client(database_url)
    task = await waiting_for(client, [await play.insert()])
    await client.stop()
    with pytest.raises(RiveruiError, match="stopped during a wait"):
        await task


async def test_nothing_is_left_after_the_last_wait(play: Playground, database_url: str) -> None:
    job_id = await play.insert()
    client = Client(database_url, limits=EngineLimits(results_linger_seconds=0.01))
    with pytest.raises(WaitTimeout):
        await client.wait(job_id, timeout=timedelta(seconds=0.1))
    await play.until(lambda: client.results.at_rest)
    listening = "select from pg_stat_activity where query ilike 'listen%%' and datname ="
    await play.until(
        lambda: _none(play.rows(f"{listening} current_database() and pid <> pg_backend_pid()"))
    )
    with pytest.raises(WaitTimeout):
        await client.wait(job_id, timeout=timedelta(0))
    await client.stop()


async def _cut(play: Playground) -> bool:
    return await play.cut_connections() > 0


async def _none(rows: Any) -> bool:
    return not await rows


async def test_through_a_pooler_it_polls(play: Playground, bouncer_url: str) -> None:
    play.worker(act)
    await play.start()
    client = Client(bouncer_url, ClientConfig(poll_only=True), limits=OFTEN)
    job = await client.insert(Task(number=5))
    assert (await client.wait(job.job.id, timeout=LONG)).output == {"number": 5}
    await client.stop()


async def test_notifications_of_other_programs(play: Playground, web: Client) -> None:
    play.worker(act)
    client = await play.start()
    assert client.runtime is not None
    for odd in ('{"ids": 5}', '{"ids": [null, "x", true, {}]}', "[]", '{"id": 1}'):
        await play.notify(JOB_WANTED, odd)
        await play.notify(JOB_ENDED, odd)
    await play.notify(JOB_WANTED, '{"ids": [9223372036854775807]}')
    wanted = client.runtime.runner.wanted
    await play.until(lambda: list(wanted.ids) == [9223372036854775807])
    row = await web.wait((await web.insert(Task())).job.id, timeout=LONG)
    assert row.state == "completed"


async def test_what_is_waited_for_is_forgotten(driver: Driver) -> None:
    now = [0.0]
    wanted = WantedEnds(driver, logging.getLogger("test"), clock=lambda: now[0])
    wanted.want({"ids": [1, 2]})
    now[0] = 40
    wanted.want({"ids": [2, 3]})
    now[0] = 70
    wanted.ended([])
    assert list(wanted.ids) == [2, 3]
    wanted.want({"ids": list(range(100, 30_000))})
    assert len(wanted.ids) == 10_000
    now[0] = 200
    wanted.ended([2, 29_999])
    assert not wanted.ids
    await wanted.close()


def test_notifications_fit() -> None:
    ids = [2**63 - 1 - number for number in range(1_000)]
    made = payloads(ids)
    assert all(len(payload) < 8_000 for payload in made)
    assert [each for payload in made for each in ids_of(json.loads(payload))] == ids
