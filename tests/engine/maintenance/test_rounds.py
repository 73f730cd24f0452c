"""MaintenanceService at an interval, and batches that shrink while the database is slow."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.service import BatchSize, Timing, in_batches, run_periodically
from riverui.errors import DatabaseUnavailable, LockTimeout, QueryTimeout
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.ticking import Ticking, settled

NO_PAUSE = Timing(pause_least=timedelta(0), pause_most=timedelta(0))


class Counting:
    name = "counting"
    interval = timedelta(seconds=30)

    def __init__(self) -> None:
        self.rounds = 0
        self.fails = False
        self.takes = 0.0
        self.clock = Ticking()

    async def run_once(self) -> None:
        self.rounds += 1
        self.clock.advance(self.takes)
        if self.fails:
            raise DatabaseUnavailable


def fail(size: BatchSize, error: Exception) -> None:
    with pytest.raises(type(error)), size.measured():
        raise error


def size_of(size: BatchSize) -> int:
    with size.measured() as most:
        return most


async def test_batches_go_on_while_they_are_full() -> None:
    found = [10, 10, 3, 99]
    asked: list[int] = []

    async def once(most: int) -> int:
        asked.append(most)
        return found[len(asked) - 1]

    assert await in_batches(BatchSize(10, 5), once, NO_PAUSE) == 23
    assert asked == [10, 10, 10]


def test_three_timeouts_in_a_row_reduce_the_batch_for_good() -> None:
    size = BatchSize(10, 5)
    for _ in range(3):
        assert not size.is_reduced
        fail(size, QueryTimeout())
    assert size_of(size) == 5
    assert size_of(size) == 5
    assert size.is_reduced


def test_a_success_ends_the_row_of_timeouts() -> None:
    size = BatchSize(10, 5)
    for _ in range(5):
        fail(size, QueryTimeout())
        fail(size, QueryTimeout())
        assert size_of(size) == 10


def test_timeouts_count_for_ten_minutes() -> None:
    clock = Ticking()
    size = BatchSize(10, 5, now=clock.steady)
    fail(size, QueryTimeout())
    fail(size, QueryTimeout())
    clock.advance(601)
    fail(size, QueryTimeout())
    assert not size.is_reduced
    fail(size, QueryTimeout())
    fail(size, QueryTimeout())
    assert size.is_reduced


def test_other_errors_do_not_count() -> None:
    size = BatchSize(10, 5)
    for error in (DatabaseUnavailable(), LockTimeout(), ValueError()):
        for _ in range(3):
            fail(size, error)
    assert not size.is_reduced


async def test_rounds_come_at_their_interval_whatever_becomes_of_them(
    service_parts: NewServiceParts,
    term: LeaderTerm,
    clock: Ticking,
    caplog: pytest.LogCaptureFixture,
) -> None:
    counting = Counting()
    counting.clock = clock
    term.trusted_until = 1_000_000
    task = asyncio.create_task(run_periodically(counting, term, service_parts().context))
    await settled()
    assert counting.rounds == 1
    counting.fails = True
    for expected in (2, 3):
        clock.advance(29)
        await settled()
        assert counting.rounds == expected - 1
        clock.advance(1)
        await settled()
        assert counting.rounds == expected
    assert caplog.text.count("counting: this round failed") == 2
    # One that takes longer than the interval is followed by the next at once, and by no more than
    # that.
    counting.takes = 100
    clock.advance(30)
    await settled()
    assert clock.soonest == 30 or counting.rounds > 4
    task.cancel()


async def test_no_round_begins_in_a_term_that_is_over(
    service_parts: NewServiceParts, term: LeaderTerm, clock: Ticking
) -> None:
    counting = Counting()
    task = asyncio.create_task(run_periodically(counting, term, service_parts().context))
    await settled()
    assert counting.rounds == 1
    # As after a stop of the whole process.
    clock.advance(60)
    await settled()
    assert counting.rounds == 1
    term.trusted_until = clock.steady() + 60
    clock.advance(30)
    await settled()
    assert counting.rounds == 2
    task.cancel()


async def test_each_service_begins_at_another_moment(
    service_parts: NewServiceParts, term: LeaderTerm, clock: Ticking
) -> None:
    context = service_parts().context
    timing = replace(context.timing, stagger=timedelta(seconds=1))
    staggered = replace(context, timing=timing)
    services = [Counting() for _ in range(3)]
    tasks = [asyncio.create_task(run_periodically(one, term, staggered)) for one in services]
    await settled()
    assert all(0 < wait <= 1 for wait in clock.sleeping)
    assert len(set(clock.sleeping)) == 3
    clock.advance(1)
    await settled()
    assert [one.rounds for one in services] == [1, 1, 1]
    for task in tasks:
        task.cancel()


async def test_a_swallowed_cancellation_still_ends_the_rounds(
    service_parts: NewServiceParts, term: LeaderTerm, clock: Ticking
) -> None:
    class Swallowing(Counting):
        async def run_once(self) -> None:
            self.rounds += 1
            # What asyncio.wait_for did before Python 3.12, when what it waited for came at that
            # moment.
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    swallowing = Swallowing()
    task = asyncio.create_task(run_periodically(swallowing, term, service_parts().context))
    await settled()
    task.cancel()
    await settled()
    assert task.cancelled()
    assert swallowing.rounds == 1
