"""The shared counter: one query for many viewers, honest about what it does not know, never in the
way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from riverui.domain.jobs import JobState
from riverui.errors import DatabaseError, QueryTimeout
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, CountKind, JobFilter
from riverui.web.config import DashboardConfig
from riverui.web.http.counts import CountLimits, Counts, Snapshot
from tests.factory import Make

EXACT = Count(value=3)
MANY = Count(value=10_000, kind=CountKind.AT_LEAST)
ABOUT = Count(value=9_800_000, kind=CountKind.ESTIMATED)


class Tally:
    """A driver, its executor and that one's jobs, that counts how often it is asked."""

    def __init__(self, counts: Mapping[JobState, Count] | None = None) -> None:
        self.jobs = self
        self.counts = counts or dict.fromkeys(JobState, EXACT)
        self.asked: list[str] = []
        self.delay = 0.0
        self.exact = 9_980_095
        self.error: DatabaseError | None = None
        self.timeouts: list[timedelta | None] = []

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Any]:
        self.timeouts.append(timeout)
        return self._reading()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Tally]:
        yield self

    async def _answer(self, what: str) -> None:
        self.asked.append(what)
        await asyncio.sleep(self.delay)
        if self.error:
            raise self.error

    async def count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        await self._answer("states")
        return dict(self.counts)

    async def count_exact(self, state: JobState) -> Count:
        await self._answer(f"exact {state.value}")
        return Count(value=self.exact)

    async def count(self, filter: JobFilter, *, cap: int) -> Count:
        await self._answer("matching")
        return EXACT


@pytest.fixture
async def tally() -> Tally:
    return Tally()


def counter(
    tally: Tally, *, clock: Callable[[], float] = time.monotonic, **limits: float
) -> Counts:
    driver: Any = tally
    given: dict[str, Any] = limits
    return Counts(driver, DashboardConfig(), CountLimits(**given), clock=clock)


async def test_many_viewers_are_one_query(tally: Tally) -> None:
    tally.delay = 0.05
    counts = counter(tally)
    snapshots = await asyncio.gather(*(counts.get() for _ in range(50)))
    assert tally.asked == ["states"]
    assert all(snapshot.count(JobState.RUNNING) == EXACT for snapshot in snapshots)
    await counts.get()
    assert tally.asked == ["states"]


async def test_after_an_action_it_counts_anew(tally: Tally) -> None:
    counts = counter(tally)
    await counts.get()
    tally.counts = dict.fromkeys(JobState, Count(value=7))
    counts.expire()
    assert (await counts.get()).count(JobState.RUNNING) == Count(value=7)


async def test_a_slow_count_shows_the_last_one_meanwhile(tally: Tally) -> None:
    counts = counter(tally, wait_seconds=0.01)
    await counts.get()
    tally.delay = 5
    counts.expire()
    async with asyncio.timeout(1):
        assert (await counts.get()).count(JobState.RUNNING) == EXACT
    await counts.close()


async def test_failure_is_told_and_the_last_count_kept_for_a_while(tally: Tally) -> None:
    now = time.monotonic()
    counts = counter(tally, clock=lambda: now)
    tally.error = QueryTimeout()
    assert await counts.get() == Snapshot(error=tally.error)
    tally.error = None
    counts.expire()
    assert (await counts.get()).counts is not None
    tally.error = QueryTimeout()
    counts.expire()
    snapshot = await counts.get()
    assert snapshot.count(JobState.RUNNING) == EXACT
    assert snapshot.error is tally.error
    now += 61
    assert (await counts.get()).counts is None


async def test_one_viewer_who_leaves_does_not_stop_the_count(tally: Tally) -> None:
    tally.delay = 0.1
    counts = counter(tally)
    leaving = asyncio.create_task(counts.get())
    staying = asyncio.create_task(counts.get())
    await asyncio.sleep(0.02)
    leaving.cancel()
    assert (await staying).counts is not None
    assert tally.asked == ["states"]


async def test_big_states_are_counted_exactly_in_the_background(tally: Tally) -> None:
    tally.counts = {**tally.counts, JobState.COMPLETED: ABOUT, JobState.AVAILABLE: MANY}
    counts = counter(tally)
    first = await counts.get()
    assert (first.count(JobState.COMPLETED), first.count(JobState.AVAILABLE)) == (ABOUT, MANY)
    await asyncio.sleep(0.05)
    # One state at a time, and at its own pace.
    assert len([what for what in tally.asked if what.startswith("exact")]) == 1
    shown = (await counts.get()).counts or {}
    known = [count for count in shown.values() if count.at]
    assert [(count.value, count.kind) for count in known] == [(9_980_095, CountKind.EXACT)]
    assert max(timeout for timeout in tally.timeouts if timeout) == timedelta(seconds=30)
    await counts.close()


async def test_the_background_count_ends_when_nobody_looks(tally: Tally) -> None:
    tally.counts = {**tally.counts, JobState.COMPLETED: ABOUT}
    counts = counter(tally, watched_seconds=0.0)
    await counts.get()
    await asyncio.sleep(0.02)
    assert tally.asked == ["states"]


async def _exactly(counts: Counts, state: JobState) -> Count:
    """Return the count of a big state once it was counted in the background."""
    async with asyncio.timeout(5):
        while True:
            found = (await counts.get()).count(state)
            if found and found.at:
                return found
            await asyncio.sleep(0.01)


async def test_exact_counts_stay_exact(
    tally: Tally,
) -> None:
    tally.counts = {**tally.counts, JobState.COMPLETED: ABOUT}
    counts = counter(tally, exact_rest_seconds=0.0)
    known = await _exactly(counts, JobState.COMPLETED)
    assert (known.value, known.kind) == (9_980_095, CountKind.EXACT)
    # The next exact count fails: the figure is as good as it was.
    tally.error = QueryTimeout()
    asked = len(tally.asked)
    async with asyncio.timeout(5):
        while "exact completed" not in tally.asked[asked:]:
            await counts.get()
            await asyncio.sleep(0.01)
    assert (await counts.get()).count(JobState.COMPLETED) == known
    # The database's own estimate has gone far from it: so have the jobs.
    tally.error = None
    tally.counts = {
        **tally.counts,
        JobState.COMPLETED: Count(value=6_000_000, kind=CountKind.ESTIMATED),
    }
    counts.expire()
    seen = (await counts.get()).count(JobState.COMPLETED)
    assert seen == Count(value=6_000_000, kind=CountKind.ESTIMATED)
    await counts.close()


async def test_matching_counts_are_shared_and_bounded(tally: Tally) -> None:
    tally.delay = 0.02
    counts = counter(tally)
    found = await asyncio.gather(*(counts.matching("kind:a", JobFilter()) for _ in range(20)))
    assert found == [EXACT] * 20
    assert tally.asked == ["matching"]
    # Only two different ones at a time: a page would rather do without.
    both = await asyncio.gather(*(counts.matching(f"kind:{n}", JobFilter()) for n in range(5)))
    assert [count is not None for count in both] == [True, True, False, False, False]


async def test_a_matching_count_that_fails_is_not_tried_again_at_once(tally: Tally) -> None:
    tally.error = QueryTimeout()
    counts = counter(tally)
    assert await counts.matching("x", JobFilter()) is None
    assert await counts.matching("x", JobFilter()) is None
    assert tally.asked == ["matching"]


def test_a_sum_is_as_trustworthy_as_its_worst_part() -> None:
    counts = dict.fromkeys(JobState, EXACT)
    assert Snapshot(counts=counts).total() == Count(value=24)
    assert Snapshot(counts=counts | {JobState.COMPLETED: ABOUT}).total() == Count(
        value=9_800_021, kind=CountKind.ESTIMATED
    )
    assert Snapshot(counts=counts | {JobState.RUNNING: MANY}).total(
        (JobState.RUNNING, JobState.PENDING)
    ) == Count(value=10_003, kind=CountKind.AT_LEAST)
    assert Snapshot().total() is None
    assert Snapshot().count(JobState.RUNNING) is None


async def test_on_a_real_database(driver: Driver, make: Make) -> None:
    for _ in range(3):
        await make.job("discarded")
    counts = Counts(driver, DashboardConfig(count_cap=2))
    assert (await counts.get()).count(JobState.DISCARDED) == Count(value=2, kind=CountKind.AT_LEAST)
    seen = Count(value=0)
    for _ in range(100):
        await asyncio.sleep(0.05)
        seen = (await counts.get()).count(JobState.DISCARDED) or seen
        if seen.kind is CountKind.EXACT:
            break
    assert (seen.value, seen.at is not None) == (3, True)
    await counts.close()


async def test_programs_get_the_figures_of_the_moment_and_share_the_counting(tally: Tally) -> None:
    counts = counter(tally)
    await counts.thorough()
    await counts.thorough()
    assert tally.asked == ["states"] * 2
    await asyncio.gather(*(counts.thorough() for _ in range(50)))
    assert len(tally.asked) <= 4
    # People's pages go on at their own pace.
    before = len(tally.asked)
    await counts.get()
    assert len(tally.asked) == before


async def test_a_count_that_costs_more_is_not_made_for_each_program(tally: Tally) -> None:
    tally.delay = 0.01
    counts = counter(tally, cheap_seconds=0.001)
    await counts.thorough()
    await asyncio.gather(*(counts.thorough() for _ in range(50)))
    assert tally.asked == ["states"]


async def test_of_many_jobs_programs_get_what_was_counted_last(tally: Tally) -> None:
    now = 1000.0
    counts = counter(tally, clock=lambda: now, cheap_jobs=10)
    first = await counts.thorough()
    assert await counts.thorough() is await counts.thorough()
    assert tally.asked == ["states"]
    # Until it is due again, somebody did something, or a big state was counted to its end.
    tally.counts = dict.fromkeys(JobState, Count(value=5))
    now += 3
    second = await counts.thorough()
    assert (first.count(JobState.RUNNING), second.count(JobState.RUNNING)) == (
        EXACT,
        Count(value=5),
    )
    tally.counts = dict.fromkeys(JobState, Count(value=6))
    counts.expire()
    assert (await counts.thorough()).count(JobState.RUNNING) == Count(value=6)
    tally.error = QueryTimeout()
    now += 70
    failed = await counts.thorough()
    assert (failed.counts, failed.error) == (None, tally.error)
    await counts.close()


async def test_a_failing_count_is_not_tried_for_each_program(tally: Tally) -> None:
    tally.error = QueryTimeout()
    counts = counter(tally)
    for _ in range(5):
        await counts.thorough()
    assert tally.asked == ["states"]
