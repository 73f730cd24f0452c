"""Functions to wait: with backoff after errors, for the first of several events, with a time
limit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")

Backoff = Callable[[int], float]
"""Returns the seconds to wait after so many consecutive failures."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for that many seconds; tests replace it with their own clock."""

_RECHECK = 60.0
"""Seconds before the wall clock is read again: it may have been set, or the machine slept."""
_STEPS = 7
"""Failures after which the backoff restarts at a second: River's figure."""


def backoff(failures: int) -> float:
    """Return the seconds to wait after so many consecutive failures: 1, 2, 4 … 64, and 1 again; ±10
    % (River's).
    """
    return 2.0 ** ((failures - 1) % _STEPS) * between(0.9, 1.1)


def between(least: float, most: float) -> float:
    """Return a random number of seconds, so that clients do not act in step."""
    return random.uniform(least, most)  # noqa: S311


async def wait(
    event: asyncio.Event, seconds: float, *others: asyncio.Future[None], sleep: Sleep
) -> None:
    """Wait until the event is set, one of the others is done, or the time is over; the others are
    not cancelled.
    """
    if event.is_set() or any(other.done() for other in others):
        return
    own: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(event.wait()),
        asyncio.ensure_future(sleep(max(0.0, seconds))),
    ]
    try:
        await asyncio.wait([*own, *others], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in own:
            waiter.cancel()
        await asyncio.gather(*own, return_exceptions=True)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; raise TimeoutError on time, even if the work cannot be
    stopped.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(_forget)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            # asyncio.timeout would wait until a dead connection is given up.
            task.cancel()
    if not task.done():
        raise TimeoutError(f"no answer within {seconds:g} seconds")
    return task.result()


def _forget(task: asyncio.Future[Any]) -> None:
    """Retrieve the task's exception, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def pass_on_cancellation() -> None:
    """Raise CancelledError if the task's cancellation was swallowed; for loops that run until
    cancelled.

    Before Python 3.12 `asyncio.wait_for` swallows it if its result arrives at the same moment, and
    psycopg uses it to wait for connections and results.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def until(at: datetime, clock: Callable[[], datetime], sleep: Sleep) -> None:
    """Wait until a time of the wall clock, even if that clock is set or the machine sleeps in
    between.
    """
    while (remaining := (at - clock()).total_seconds()) > 0:
        await sleep(min(remaining, _RECHECK))
