"""Operations reach every job once, end, can be stopped, and say what they did: wherever they are
kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.errors import BadRequest, DatabaseUnavailable, QueryTimeout
from riverui.features.operations.run import OperationLimits, OperationRun
from riverui.features.operations.store import SAMPLES, OperationStatus
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.interface.params import Count, Field, JobFilter, JobOrder, Op, Term
from riverui.web.config import DashboardConfig
from tests.features.operations.conftest import Begin
from tests.operations import count, ended, fill, reach, start, without_tables

Connection = AsyncConnection[Any]
DONE, STOPPED, FAILED = OperationStatus.DONE, OperationStatus.STOPPED, OperationStatus.FAILED
SLOW = {"pause": timedelta(minutes=10)}
"""After the first chunk nothing more happens while the test looks."""


async def test_every_matching_job_is_changed_and_no_later_one(
    dashboards: Begin, keeping: Driver, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.operations")
    await fill(connection, 2_500)
    await fill(connection, 5, "discarded")
    operations = dashboards(keeping)
    started = await start(operations, keeping)
    assert (started.status, started.user, started.total) == ("running", "ada", Count(value=7))
    await fill(connection, 3, kind="late")
    found = await ended(operations)
    assert (found.status, found.changed, found.skipped, found.error) == (DONE, 2_500, {}, "")
    assert await count(connection, "available") == 2_500
    assert await count(connection, "retryable") == 3
    assert await count(connection, "discarded") == 5
    assert "'ada'" in caplog.text
    assert "2500 changed" in caplog.text


@pytest.mark.parametrize("order", list(JobOrder))
async def test_jobs_that_stay_in_the_filter_are_passed_once(
    order: JobOrder, dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 1_500, "running")
    operations = dashboards()
    everything = JobFilter(states=(JobState.SCHEDULED, JobState.RUNNING))
    await start(operations, driver, CANCEL, everything, order=order)
    found = await ended(operations)
    assert (found.status, found.requested) == (DONE, 1_500)
    await start(operations, driver, DELETE, everything, id="two", order=order)
    found = await ended(operations, "two")
    number, ids = found.skipped[SkipReason.RUNNING]
    assert (found.status, number, len(set(ids))) == (DONE, 1_500, SAMPLES)


async def test_a_search_without_an_index_goes_on_to_the_end(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 6_000)
    operations = dashboards(config=DashboardConfig(search_window=1_100))
    even = Term(field=Field.TAG, op=Op.EQ, values=("even",))
    await start(operations, driver, DELETE, JobFilter(states=(JobState.RETRYABLE,), terms=(even,)))
    found = await ended(operations)
    assert (found.status, found.changed) == (DONE, 3_000)
    assert await count(connection, "retryable") == 3_000


async def test_it_stops_after_the_current_chunk(
    dashboards: Begin, keeping: Driver, connection: Connection
) -> None:
    await fill(connection, 3_000)
    operations = dashboards(keeping, limits={"pause": timedelta(milliseconds=500)})
    started = await start(operations, keeping, CANCEL)
    await reach(operations, lambda found: found.changed)
    stopping = await operations.stop(started, user="eve")
    assert (stopping.status, stopping.stopped_by) == (OperationStatus.STOPPING, "eve")
    found = await ended(operations)
    assert (found.status, found.changed) == (STOPPED, 1_000)
    assert await count(connection, "cancelled") == 1_000
    again = await operations.stop(found, user="bob")
    assert (again.status, again.stopped_by) == (STOPPED, "eve")


async def test_what_was_worked_since_it_was_found_is_left_alone(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 1_500)
    operations = dashboards(limits={"pause": timedelta(seconds=1)})
    await start(operations, driver)
    await reach(operations, lambda found: found.changed)
    await connection.execute(
        "update river_job set state = 'completed', finalized_at = created_at where state ="
        " 'retryable'"
    )
    found = await ended(operations)
    assert (found.status, found.changed, found.skipped) == (DONE, 1_000, {})
    assert await count(connection, "completed") == 500


async def test_retry_leaves_a_job_alone_that_failed_again_meanwhile(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 1)
    operations = dashboards()
    async with driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
    await connection.execute("update river_job set attempted_at = now()")
    await start(operations, driver, cutoff=cutoff)
    found = await ended(operations)
    assert (found.status, found.processed) == (DONE, 0)


async def test_sent_twice_it_starts_once_and_few_run_at_a_time(
    dashboards: Begin, keeping: Driver, connection: Connection, kept: str
) -> None:
    await fill(connection, 1_500)
    one, other = dashboards(keeping, limits=SLOW), dashboards(keeping, limits=SLOW)
    if kept == "process":
        other = one
    await asyncio.gather(*(start(each, keeping) for each in (one, other, one, other)))
    await start(one, keeping, id="two")
    await start(other, keeping, id="three")
    with pytest.raises(BadRequest, match="wait for one, or stop one"):
        await start(other, keeping, id="too many")
    assert [found.id for found in await one.list(limit=2)] == ["three", "two"]
    assert [found.id for found in await one.list(limit=2, before="two")] == ["one"]
    assert await one.list(limit=2, before="unknown") == []
    assert {*one.held, *other.held} == {"one", "two", "three"}


async def test_of_a_process_alone_few_are_remembered_and_they_end_with_it(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    operations = dashboards(without_tables(driver), limits={"remembered": 3})
    for number in range(6):
        await start(operations, driver, id=str(number))
        await ended(operations, str(number))
    assert [found.id for found in await operations.list(limit=9)] == ["5", "4", "3", "2"]
    assert await operations.get("0") is None

    await fill(connection, 1_500)
    operations = dashboards(without_tables(driver), limits=SLOW)
    await start(operations, driver)
    await operations.close()
    found = await ended(operations)
    assert (found.status, found.error) == (FAILED, "The dashboard was shut down.")


class Faulty:
    """A driver whose calls fail in the given order, and work where there is None and after that."""

    def __init__(
        self,
        driver: Driver,
        *,
        reads: Sequence[Exception | None] = (),
        writes: Sequence[Exception | None] = (),
    ):
        self._driver = driver
        self.capabilities = driver.capabilities
        self.reads = list(reads)
        self.writes = list(writes)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        if timeout is None:
            # Looks for riverui's tables.
            return without_tables(self._driver).reading()
        return self._lend(self.reads, self._driver.reading(timeout=timeout))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        return self._lend(self.writes, self._driver.transaction(timeout=timeout))

    @asynccontextmanager
    async def _lend(
        self, faults: list[Exception | None], lent: AbstractAsyncContextManager[Any]
    ) -> AsyncIterator[Any]:
        if faults and (error := faults.pop(0)):
            raise error
        async with lent as executor:
            yield executor


async def test_a_request_to_stop_that_comes_too_late_changes_nothing(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    operation = await start(dashboards(), driver)
    run = OperationRun(
        driver,
        DashboardConfig(),
        operation,
        limits=OperationLimits(),
        pilot=plain_pilot(),
        in_process=None,
    )
    for status, after in (("running", "stopping"), ("done", "done"), ("failed", "failed")):
        operation.status = OperationStatus(status)
        run.note(OperationStatus.STOPPING)
        assert operation.status.value == after


AWAY = DatabaseUnavailable()


@pytest.mark.parametrize(
    ("jobs", "reads", "writes", "limits", "status", "changed", "error"),
    [
        # Chunks become smaller.
        (700, [QueryTimeout()], [QueryTimeout(), QueryTimeout()], {}, DONE, 700, ""),
        (20, [], [QueryTimeout()] * 50, {}, FAILED, 0, "even for"),
        # It waits for a database that is away for a while.
        (1_200, [None, AWAY, AWAY], [None, AWAY], {}, DONE, 1_200, ""),
        (
            1_200,
            [None] + [AWAY] * 50,
            [],
            {"database_away": timedelta(milliseconds=300)},
            FAILED,
            1_000,
            "could not be reached",
        ),
        (1, [], [RuntimeError("secret")], {}, FAILED, 0, "Something went wrong"),
    ],
    ids=["slow", "too slow", "away", "away for long", "unexpected"],
)
async def test_errors_on_the_way(
    jobs: int,
    reads: Sequence[Exception | None],
    writes: Sequence[Exception | None],
    limits: dict[str, Any],
    status: OperationStatus,
    changed: int,
    error: str,
    dashboards: Begin,
    driver: Driver,
    connection: Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(connection, jobs)
    operations = dashboards(Faulty(driver, reads=reads, writes=writes), limits=limits)
    await start(operations, driver, RETRY)
    found = await ended(operations)
    assert (found.status, found.changed) == (status, changed)
    assert error in found.error
    assert "secret" not in found.error
    assert ("secret" in caplog.text) == (error == "Something went wrong")
