"""The small parts: backoff, waking up, threads, time limits."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from weakref import ref

import pytest

from riverui.domain.jobs import AttemptError, JobRow
from riverui.domain.retries import default_retry, retry_delay
from riverui.engine.service import WakeUp, keep_running
from riverui.engine.work.attempt import Attempt, Slots
from riverui.engine.work.deadlines import Deadlines
from riverui.engine.work.threads import WorkerThreads
from riverui.errors import RiveruiError
from tests.engine.conftest import until
from tests.factory import job_row

LOG = logging.getLogger("riverui.engine")
NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


ERROR = AttemptError(at=NOW, attempt=1, error="x", trace="")


def row(errors: int = 0) -> JobRow:
    """Return a running job that has failed so often."""
    return job_row(attempted_at=NOW, errors=(ERROR,) * errors)


@pytest.mark.parametrize(("errors", "seconds"), [(0, 1), (1, 16), (2, 81), (24, 390_625)])
def test_default_retry(errors: int, seconds: int) -> None:
    for _ in range(20):
        delay = (default_retry(row(errors), now=NOW) - NOW).total_seconds()
        assert seconds * 0.9 <= delay <= seconds * 1.1


def test_default_retry_is_capped() -> None:
    century = timedelta(days=36_525)
    assert 2.9 * century < retry_delay(310) == retry_delay(10_000) < 3 * century


async def test_keep_running_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("a bug")
        if len(runs) == 2:
            raise RiveruiError("the database")

    await keep_running("something", run, LOG, backoff=lambda failures: failures / 1000)
    assert len(runs) == 3
    first, second = caplog.records
    assert first.exc_info is not None, "a bug comes with its traceback"
    assert not second.exc_info


async def test_wake_up() -> None:
    wake_up = WakeUp()
    assert not await wake_up.wait(0)
    assert not await wake_up.wait(0.001)
    wake_up.set()
    wake_up.set()
    assert await wake_up.wait(0)
    assert not await wake_up.wait(0)
    waiting = asyncio.create_task(wake_up.wait())
    await asyncio.sleep(0)
    wake_up.set()
    assert await waiting
    given_up = asyncio.create_task(wake_up.wait(60))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    wake_up.set()
    assert await wake_up.wait()


async def test_threads_are_made_when_they_are_needed() -> None:
    threads = WorkerThreads(2)
    before = threading.active_count()
    for _ in range(5):
        assert await threads.call(str, 7) == "7"
    assert threading.active_count() == before + 1
    gate = threading.Event()
    calls = [asyncio.create_task(threads.call(gate.wait)) for _ in range(5)]
    await asyncio.sleep(0)
    assert threading.active_count() == before + 2
    gate.set()
    assert await asyncio.gather(*calls) == [True] * 5
    threads.close()
    await until(lambda: threading.active_count() == before)


async def test_cancelled_call_ends_with_its_function() -> None:
    threads = WorkerThreads(1)
    begun, gate = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        gate.wait()
        return "done"

    first = asyncio.create_task(threads.call(work))
    second = asyncio.create_task(threads.call(work))
    await until(begun.is_set)
    first.cancel()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    first.cancel()
    await asyncio.sleep(0)
    assert not first.done()
    gate.set()
    assert await first == "done"
    threads.close()


class Forgettable(Attempt):
    """An attempt for which a test can check that nothing references it any more."""

    __slots__ = ("__weakref__",)


class NoSlots:
    def release(self, attempt: Attempt) -> None: ...
    def stuck(self, attempt: Attempt) -> None: ...


async def test_time_limits_fire_in_their_order_and_forget_the_ended() -> None:
    stuck: list[Attempt] = []
    deadlines = Deadlines(0.01, stuck.append, few=8)
    slots: Slots = NoSlots()
    slow = [Attempt(row(), None, slots) for _ in range(3)]
    for attempt in slow:
        deadlines.watch(attempt, 0.02)
    ended = []
    for _ in range(97):
        attempt = Forgettable(row(), None, slots)
        deadlines.watch(attempt, 1000)
        attempt.done = True
        ended.append(ref(attempt))
    assert sum(held() is not None for held in ended) < 17, "those of ended ones are cleared away"
    late = Attempt(row(), None, slots)
    # However long the lines above have taken.
    deadlines.watch(late, -1)
    await until(lambda: len(stuck) == 4)
    assert stuck == [late, *slow]
    assert all(attempt.timed_out for attempt in stuck)
    deadlines.close()
