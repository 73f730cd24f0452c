"""Waiting for what comes first, and not too long."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from riverui.engine.waiting import backoff, between, until, wait, within
from tests.engine.ticking import Ticking, settled


def test_the_backoff_doubles_and_begins_again() -> None:
    seconds = [backoff(failures) for failures in range(1, 9)]
    assert seconds == [pytest.approx(each, rel=0.101) for each in (1, 2, 4, 8, 16, 32, 64, 1)]


def test_a_random_time_lies_between_its_ends() -> None:
    assert all(2 <= between(2, 3) <= 3 for _ in range(100))


async def test_what_is_done_in_time_gives_its_result_or_error() -> None:
    async def work(error: Exception | None = None) -> int:
        await asyncio.sleep(0)
        if error:
            raise error
        return 5

    assert await within(10, work()) == 5
    with pytest.raises(KeyError):
        await within(10, work(KeyError()))


async def test_what_cannot_be_stopped_is_not_waited_for() -> None:
    go_on = asyncio.Event()
    ended = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go_on.wait()
            ended.set()
            raise KeyError("nobody hears this") from None

    with pytest.raises(TimeoutError, match=r"0\.01 seconds"):
        await within(0.01, stubborn())
    assert not ended.is_set()
    go_on.set()
    await settled()
    assert ended.is_set()


async def test_a_cancelled_wait_cancels_the_work() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(within(10, work()))
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settled()
    assert cancelled.is_set()


@pytest.mark.parametrize("what", ["event", "time", "other"])
async def test_the_first_to_come_ends_the_waiting(what: str) -> None:
    clock = Ticking()
    event = asyncio.Event()
    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(wait(event, 5, other, sleep=clock.sleep))
    await settled()
    assert not task.done()
    if what == "event":
        event.set()
    elif what == "time":
        clock.advance(5)
    else:
        other.set_result(None)
    await settled()
    assert task.done()
    assert not clock.sleeping
    assert not other.cancelled()


async def test_the_wall_clock_is_read_regularly() -> None:
    clock = Ticking()
    at = clock.now() + timedelta(hours=1)
    task = asyncio.create_task(until(at, clock.now, clock.sleep))
    await settled()
    assert clock.soonest == 60
    # The clock is set.
    clock.set_by(59 * 60 + 30)
    clock.advance(29)
    await settled()
    assert not task.done()
    clock.advance(31)
    await settled()
    assert task.done()
