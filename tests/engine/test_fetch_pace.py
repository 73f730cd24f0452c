"""When a queue is fetched with default settings, by hand, and how often at most."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from riverui.engine.config import QueueConfig
from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import BatchWorker, Job
from riverui.engine.work.workers import Workers
from riverui.storage.connect import connect
from tests.engine.conftest import Playground, Task

NEVER = timedelta(hours=1)
"""Time between two polls."""


class Counted:
    """A client with default settings, its statements that fetch, and its jobs."""

    def __init__(self, play: Playground) -> None:
        self.play = play
        self.fetches = 0
        self.worked: Counter[str] = Counter()
        self.since = 0.0
        play.worker(self.work)

    async def work(self, job: Job[Task]) -> None:
        self.worked[job.args.value] += 1

    async def start(self, **settings: Any) -> None:
        driver = connect(self.play.database_url, watch=lambda name, *_: self._saw(name))
        given = {
            "fetch_cooldown": None,
            "fetch_poll_interval": NEVER,
            "queues": {"default": QueueConfig(max_workers=4)},
        }
        await self.play.start(database=driver, **(given | settings))
        # The first fetch finds nothing that is inserted from now on.
        await self.play.until(lambda: self.play.client.last_fetched_at is not None)

    async def insert(self, jobs: int, value: str = "", queue: str = "default") -> None:
        await self.play.rows(
            "insert into river_job (kind, args, max_attempts, queue)"
            " select 'task', jsonb_build_object('value', %s::text), 25, %s"
            " from generate_series(1, %s) returning 1",
            value,
            queue,
            jobs,
        )

    async def announce(self) -> None:
        await self.play.notify("river_insert", '{"queue": "default"}')

    async def seconds(self, condition: Callable[[], bool]) -> float:
        """Return how long something takes to become true."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.play.until(condition)
        return loop.time() - began

    def _saw(self, statement: str) -> None:
        self.fetches += statement == "job_get_available"


async def test_free_slots_are_filled_at_once_while_jobs_wait(play: Playground) -> None:
    counted = Counted(play)
    await counted.insert(400)
    await counted.start()
    # With a fetch of four jobs in each tenth of a second it would be ten seconds.
    assert await counted.seconds(lambda: counted.worked.total() == 400) < 5
    # A fetch begins when the first slot is free, and none finds nothing but the last ones.
    assert counted.fetches <= 402


async def test_a_cooldown_that_is_set_separates_all_fetches(play: Playground) -> None:
    counted = Counted(play)
    await counted.insert(16)
    queue = QueueConfig(max_workers=4, fetch_cooldown=timedelta(milliseconds=100))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await counted.start(queues={"default": queue})
    await play.until(lambda: counted.worked.total() == 16)
    assert loop.time() - began >= 0.3


async def test_fetches_of_all_queues_keep_to_a_ceiling(play: Playground) -> None:
    counted = Counted(play)
    names = [f"queue_{number}" for number in range(3)]
    for name in names:
        await counted.insert(20, value=name, queue=name)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await counted.start(
        queues={name: QueueConfig(max_workers=1) for name in names},
        limits=EngineLimits(fetches_per_second=50),
    )
    await play.until(lambda: len(counted.worked) == 3 and counted.worked.total() >= 30)
    assert counted.fetches <= 50 * (loop.time() - began) + 2
    assert min(counted.worked.values()) >= 5, "the queues take turns"


async def test_the_second_fetch_of_a_backlog_keeps_to_the_ceiling_too(play: Playground) -> None:
    counted = Counted(play)
    await counted.insert(600)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await counted.start(
        queues={"default": QueueConfig(max_workers=30)},
        limits=EngineLimits(fetch_rows=5, fetches_per_second=50),
    )
    await play.until(lambda: counted.worked.total() >= 300)
    assert counted.fetches <= 50 * (loop.time() - began) + 2


class Together(BatchWorker[Task]):
    """Looks a hundred times a second for jobs with the same value."""

    by_args = True
    max_delay = timedelta(seconds=1)
    poll_interval = timedelta(milliseconds=10)

    def __init__(self) -> None:
        self.worked = 0

    async def work_many(self, jobs: Sequence[Job[Task]]) -> None:
        """Count the jobs."""
        self.worked += len(jobs)


async def test_fetches_of_batches_keep_to_the_ceiling_too(play: Playground) -> None:
    counted, together = Counted(play), Together()
    play.workers = Workers()
    play.worker(together)
    for value in "abcd":
        await counted.insert(1, value)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await counted.start(limits=EngineLimits(fetches_per_second=50))
    await play.until(lambda: together.worked == 4)
    assert 10 < counted.fetches <= 50 * (loop.time() - began) + 2


async def test_an_empty_queue_is_fetched_once_per_cooldown_however_often_it_is_announced(
    play: Playground,
) -> None:
    counted = Counted(play)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await counted.start()
    while loop.time() < began + 1:
        await counted.announce()
    assert counted.fetches <= 10 * (loop.time() - began) + 2


async def test_more_jobs_are_looked_for_where_several_were_found(play: Playground) -> None:
    counted = Counted(play)
    await counted.start()
    await counted.insert(1, "alone")
    await counted.announce()
    await play.until(lambda: counted.worked["alone"] == 1)
    assert counted.fetches == 2
    await counted.insert(2, "two")
    await counted.announce()
    await play.until(lambda: counted.worked["two"] == 2)
    # One more statement looks for those that were not announced; it is the last.
    await play.until(lambda: counted.fetches == 4)
    await counted.insert(1, "last")
    await counted.announce()
    await play.until(lambda: counted.worked["last"] == 1)
    assert counted.fetches <= 5
