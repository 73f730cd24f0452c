"""Jobs that block the event loop: what they delay, and what they must not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.lead.elector import ElectionTimes, Elector, LeaderTerm
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.storage.connect import connect
from tests.engine.conftest import LONGEST_WAIT, Playground, Task, until


@pytest.mark.long
async def test_many_busy_jobs_leave_turns_of_the_loop_to_others(play: Playground) -> None:
    count, each = 100, 0.02
    ended = 0

    async def busy(job: Job[Task]) -> None:
        nonlocal ended
        time.sleep(each)  # noqa: ASYNC251 (work that does not await)
        ended += 1

    play.worker(busy)
    for _ in range(count):
        await play.insert()
    longest = 0.0
    before = time.perf_counter()
    await play.start(queues={"default": QueueConfig(max_workers=count)})
    while ended < count:
        await asyncio.sleep(0)
        longest, before = max(longest, time.perf_counter() - before), time.perf_counter()
    # All in one turn would hold the loop up for two seconds; a busy machine does for a part of one.
    assert longest < count * each * 0.75


QUICK = ElectionTimes(
    interval=timedelta(milliseconds=50),
    jitter=timedelta(0),
    padding=timedelta(milliseconds=450),
    margin=timedelta(milliseconds=100),
)
"""ElectionTimes of half a second."""


class Rival:
    """A client in a thread of its own, that would lead as soon as it can."""

    def __init__(self, database_url: str) -> None:
        self.led = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(database_url)))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self, database_url: str) -> None:
        async def lead(term: LeaderTerm) -> None:
            self.led = True
            await asyncio.Event().wait()

        driver = connect(database_url)
        elector = asyncio.create_task(Elector(driver, "rival", lead, terms=QUICK).run())
        await asyncio.to_thread(self._stop.wait)
        elector.cancel()
        await asyncio.gather(elector, return_exceptions=True)
        await driver.close()


@pytest.fixture
def rival(database_url: str) -> Iterator[Callable[[], Rival]]:
    """Start another candidate."""
    rivals: list[Rival] = []

    def start() -> Rival:
        rivals.append(Rival(database_url))
        return rivals[-1]

    yield start
    for one in rivals:
        one.stop()


async def leading(play: Playground, terms: ElectionTimes) -> Client:
    """Return a client with these terms, that leads."""
    client = Client(play.database_url, play.config(leader_election_disabled=False), terms=terms)
    await client.start()
    await play.until(lambda: client.is_leader)
    return client


async def leader_row(play: Playground) -> tuple[object, object]:
    (row,) = await play.rows("select leader_id, elected_at from river_leader")
    return row["leader_id"], row["elected_at"]


async def test_a_job_that_blocks_the_loop_does_not_cost_the_term(
    play: Playground, rival: Callable[[], Rival]
) -> None:
    worked: list[int] = []

    async def block(job: Job[Task]) -> None:
        # Three terms.
        time.sleep(1.5)  # noqa: ASYNC251
        worked.append(job.id)

    play.worker(block)
    client = await leading(play, QUICK)
    try:
        other = rival()
        before = await leader_row(play)
        job_id = await play.insert()
        await play.in_state(job_id, "completed")
        assert worked == [job_id]
        assert client.is_leader
        assert not other.led
        assert await leader_row(play) == before
    finally:
        await client.stop()
    await play.until(lambda: other.led)


async def test_a_loop_that_is_blocked_for_too_long_leaves_leading_to_others(
    play: Playground, rival: Callable[[], Rival], caplog: pytest.LogCaptureFixture
) -> None:
    took_over: list[bool] = []

    async def block(job: Job[Task]) -> None:
        end = time.monotonic() + LONGEST_WAIT
        while not other.led and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251
        took_over.append(other.led)

    play.worker(block)
    client = await leading(play, replace(QUICK, silence=timedelta(milliseconds=300)))
    try:
        other = rival()
        await play.in_state(await play.insert(), "completed")
        assert took_over == [True]
        await play.until(lambda: not client.is_leader)
        assert (await leader_row(play))[0] == "rival"
        assert "leaves leadership to others" in caplog.text
    finally:
        await client.stop()


async def test_the_thread_of_a_candidate_ends_with_it_and_others_have_none(
    play: Playground,
) -> None:
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "riverui-leader"]

    await play.start()
    assert not threads()
    client = await leading(play, ElectionTimes())
    assert len(threads()) == 1
    await client.stop()
    assert not threads()
    assert not await play.rows("select from river_leader")


def test_a_program_that_ends_without_a_stop_leaves_no_leader_behind(database_url: str) -> None:
    async def lead() -> None:
        workers = Workers()

        @workers.work(Task)
        async def work(job: Job[Task]) -> None: ...

        config = ClientConfig(
            queues={"default": QueueConfig(max_workers=1)},
            workers=workers,
            # This process goes on, and its logging shall be as before.
            log_jobs=False,
        )
        client = Client(database_url, config, terms=QUICK)
        await client.start()
        await until(lambda: client.is_leader)

    asyncio.run(lead())
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from river_leader").fetchone() == (0,)
