"""Jobs that keep the event loop to themselves: what they hold up, and what they must not."""

from __future__ import annotations

import asyncio
import time

from riverui.engine.config import QueueConfig
from riverui.engine.worker import Job
from tests.engine.conftest import Playground, Task


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
    # All in one turn would hold the loop up for two seconds.
    assert longest < count * each / 4
