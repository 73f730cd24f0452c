"""Actions on all matching jobs: they reach every job once, end, can be stopped, and tell what they
did.
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
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.errors import BadRequest, DatabaseUnavailable, QueryTimeout
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.params import Field, JobFilter, JobOrder, Op, Term
from riverui.web.config import DashboardConfig
from riverui.web.live.operations import (
    SAMPLES,
    Operation,
    OperationLimits,
    Operations,
    OperationStatus,
)

RETRYABLE = JobFilter(states=(JobState.RETRYABLE,))


HURRY = OperationLimits(pause=timedelta(0))
"""No pause between chunks."""


async def fill(
    connection: AsyncConnection[Any], number: int, state: str = "retryable", kind: str = "mail"
) -> None:
    """Many jobs, due a second after one another."""
    finalized = "now()" if state in ("cancelled", "completed", "discarded") else "null"
    await connection.execute(
        f"""insert into river_job (kind, args, state, scheduled_at, attempted_at, finalized_at,
        tags)
        select %s, '{{}}', %s::river_job_state, now() + n * interval '1 s', now() - interval '1 h',
          {finalized},
          case when n %% 2 = 0 then '{{even}}' else '{{odd}}' end::varchar[]
        from generate_series(1, %s) n""",
        [kind, state, number],
    )


async def count(connection: AsyncConnection[Any], state: str) -> int:
    rows = await connection.execute(
        "select count(*) as n from river_job where state::text = %s", [state]
    )
    row = await rows.fetchone()
    return int(row["n"]) if row else 0


async def start(
    registry: Operations,
    driver: Driver,
    verb: JobVerb,
    filter: JobFilter,
    *,
    id: str = "one",
    order: JobOrder = JobOrder.TIME,
) -> Operation:
    async with driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    return registry.start(
        verb, filter, id=id, cutoff=cutoff, filter_text="some jobs", order=order, user="ada"
    )


async def ended(operation: Operation) -> Operation:
    if operation.task:
        await asyncio.wait_for(asyncio.shield(operation.task), 30)
    return operation


async def test_every_matching_job_is_changed_and_no_later_one(
    driver: Driver, connection: AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.operations")
    await fill(connection, 2_500)
    await fill(connection, 5, "discarded")
    registry = Operations(driver, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    operation = await start(registry, driver, RETRY, RETRYABLE)
    await fill(connection, 3, kind="late")
    await ended(operation)
    assert (operation.status, operation.changed, operation.skipped) == (
        OperationStatus.DONE,
        2_500,
        {},
    )
    assert await count(connection, "available") == 2_500
    assert await count(connection, "retryable") == 3
    assert await count(connection, "discarded") == 5
    assert "'ada'" in caplog.text
    assert "2500 changed" in caplog.text


@pytest.mark.parametrize("order", list(JobOrder))
async def test_jobs_that_stay_in_the_filter_are_passed_once(
    order: JobOrder, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500, "running")
    registry = Operations(driver, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    everything = JobFilter(states=(JobState.RUNNING, JobState.SCHEDULED))
    operation = await ended(await start(registry, driver, CANCEL, everything, order=order))
    assert (operation.status, operation.requested) == (OperationStatus.DONE, 1_500)
    deleting = await ended(await start(registry, driver, DELETE, everything, id="two", order=order))
    assert (deleting.status, deleting.skipped) == (
        OperationStatus.DONE,
        {SkipReason.RUNNING: 1_500},
    )
    assert len(deleting.skipped_samples[SkipReason.RUNNING]) == SAMPLES


async def test_a_search_without_an_index_goes_on_to_the_end(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 6_000)
    registry = Operations(
        driver, DashboardConfig(search_window=1_100), limits=HURRY, pilot=plain_pilot()
    )
    tagged = JobFilter(
        states=(JobState.RETRYABLE,), terms=(Term(field=Field.TAG, op=Op.EQ, values=("even",)),)
    )
    operation = await ended(await start(registry, driver, DELETE, tagged))
    assert (operation.status, operation.changed) == (OperationStatus.DONE, 3_000)
    assert await count(connection, "retryable") == 3_000


async def test_it_stops_after_the_chunk_at_hand(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 3_000)
    limits = OperationLimits(pause=timedelta(milliseconds=500))
    registry = Operations(driver, DashboardConfig(), limits=limits, pilot=plain_pilot())
    operation = await start(registry, driver, CANCEL, RETRYABLE)
    registry.stop(operation, user="eve")
    assert operation.status.value == "stopping"
    await ended(operation)
    assert (operation.status.value, operation.changed) == ("stopped", 0)

    operation = await start(registry, driver, CANCEL, RETRYABLE, id="two")
    done, _ = await asyncio.wait({operation.task} if operation.task else (), timeout=0.4)
    assert not done
    registry.stop(operation, user="eve")
    await ended(operation)
    assert (operation.status.value, operation.changed) == ("stopped", 1_000)
    assert await count(connection, "cancelled") == 1_000
    registry.stop(operation)
    assert operation.status.value == "stopped"


async def test_what_was_worked_since_it_was_found_is_left_alone(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500)
    limits = OperationLimits(pause=timedelta(seconds=1))
    registry = Operations(driver, DashboardConfig(), limits=limits, pilot=plain_pilot())
    operation = await start(registry, driver, RETRY, RETRYABLE)
    async with asyncio.timeout(20):
        while operation.changed < 1_000:  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.01)
    await connection.execute(
        "update river_job set state = 'completed', finalized_at = created_at where state ="
        " 'retryable'"
    )
    await ended(operation)
    assert (operation.status, operation.changed, operation.skipped) == (
        OperationStatus.DONE,
        1_000,
        {},
    )
    assert await count(connection, "completed") == 500


async def test_sent_twice_it_starts_once_and_few_run_at_a_time(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500)
    limits = OperationLimits(pause=timedelta(minutes=10))
    registry = Operations(driver, DashboardConfig(), limits=limits, pilot=plain_pilot())
    first = await start(registry, driver, RETRY, RETRYABLE)
    assert await start(registry, driver, RETRY, RETRYABLE) is first
    for number in range(limits.running - 1):
        await start(registry, driver, RETRY, RETRYABLE, id=f"more {number}")
    with pytest.raises(BadRequest, match="wait for one, or stop one"):
        await start(registry, driver, RETRY, RETRYABLE, id="too many")
    assert [operation.id for operation in registry.list()] == ["more 1", "more 0", "one"]
    await registry.close()
    assert first.status is OperationStatus.FAILED
    assert first.error == "The dashboard was shut down."


async def test_ended_ones_are_remembered_up_to_a_number(
    driver: Driver,
) -> None:
    limits = OperationLimits(remembered=3, pause=timedelta(0))
    registry = Operations(driver, DashboardConfig(), limits=limits, pilot=plain_pilot())
    for number in range(6):
        await ended(await start(registry, driver, RETRY, RETRYABLE, id=str(number)))
    assert [operation.id for operation in registry.list()] == ["5", "4", "3", "2"]
    assert registry.get("0") is None


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
        self.reads = list(reads)
        self.writes = list(writes)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        return self._reading(timeout)

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        return self._writing(timeout)

    @asynccontextmanager
    async def _reading(self, limit: timedelta | None) -> AsyncIterator[Executor]:
        if self.reads and (error := self.reads.pop(0)):
            raise error
        async with self._driver.reading(timeout=limit) as executor:
            yield executor

    @asynccontextmanager
    async def _writing(self, limit: timedelta | None) -> AsyncIterator[Transaction]:
        if self.writes and (error := self.writes.pop(0)):
            raise error
        async with self._driver.transaction(timeout=limit) as transaction:
            yield transaction


async def test_timeouts_make_the_chunks_smaller(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 700)
    faulty: Any = Faulty(driver, reads=[QueryTimeout()], writes=[QueryTimeout(), QueryTimeout()])
    registry = Operations(faulty, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    operation = await ended(await start(registry, driver, RETRY, RETRYABLE))
    assert (operation.status, operation.changed) == (OperationStatus.DONE, 700)


async def test_it_gives_up_when_even_small_chunks_time_out(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 20)
    faulty: Any = Faulty(driver, writes=[QueryTimeout()] * 50)
    registry = Operations(faulty, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    operation = await ended(await start(registry, driver, RETRY, RETRYABLE))
    assert operation.status is OperationStatus.FAILED
    assert "even for" in operation.error


async def test_it_waits_for_a_database_that_is_away_for_a_while(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_200)
    away = DatabaseUnavailable()
    faulty: Any = Faulty(driver, reads=[None, away, away], writes=[None, away])
    registry = Operations(faulty, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    operation = await ended(await start(registry, driver, RETRY, RETRYABLE))
    assert (operation.status, operation.changed) == (OperationStatus.DONE, 1_200)


async def test_it_fails_with_words_when_the_database_stays_away(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_200)
    limits = OperationLimits(pause=timedelta(0), database_away=timedelta(milliseconds=300))
    faulty: Any = Faulty(driver, reads=[None] + [DatabaseUnavailable()] * 50)
    registry = Operations(faulty, DashboardConfig(), limits=limits, pilot=plain_pilot())
    operation = await ended(await start(registry, driver, RETRY, RETRYABLE))
    assert (operation.status, operation.changed) == (OperationStatus.FAILED, 1_000)
    assert "could not be reached" in operation.error


async def test_an_unexpected_error_is_logged_and_told(
    driver: Driver, connection: AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    await fill(connection, 1)
    faulty: Any = Faulty(driver, writes=[RuntimeError("secret")])
    registry = Operations(faulty, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    operation = await ended(await start(registry, driver, RETRY, RETRYABLE))
    assert operation.status is OperationStatus.FAILED
    assert "secret" not in operation.error
    assert "secret" in caplog.text


async def test_retry_leaves_a_job_alone_that_failed_again_meanwhile(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1)
    registry = Operations(driver, DashboardConfig(), limits=HURRY, pilot=plain_pilot())
    async with driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    await connection.execute("update river_job set attempted_at = now()")
    operation = registry.start(
        RETRY, RETRYABLE, id="x", cutoff=cutoff, filter_text="", order=JobOrder.TIME
    )
    await ended(operation)
    assert (operation.status, operation.seen) == (OperationStatus.DONE, 0)


def test_skips_are_counted_with_a_few_samples() -> None:
    operation = Operation(
        id="x",
        verb=DELETE,
        given={},
        filter=JobFilter(),
        filter_text="",
        order=JobOrder.ID,
        cutoff=None,  # type: ignore[arg-type]
        user="",
        total=None,  # type: ignore[arg-type]
        started_at=None,  # type: ignore[arg-type]
    )
    operation.note(
        JobChanges(changed=(1,), skipped=tuple((n, SkipReason.RUNNING) for n in range(30)))
    )
    operation.note(JobChanges(requested=(2, 3), skipped=((99, SkipReason.NOT_FOUND),)))
    assert (operation.changed, operation.requested, operation.seen) == (1, 2, 34)
    assert operation.skipped == {SkipReason.RUNNING: 30, SkipReason.NOT_FOUND: 1}
    assert operation.skipped_samples[SkipReason.RUNNING] == tuple(range(10))
