"""Operations in `riverui_operation`: kept, held by one at a time, and forgotten."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.errors import SchemaMissing
from riverui.storage.interface.operations import (
    OPERATION_TABLE,
    OperationLease,
    OperationParams,
    OperationProgress,
    OperationRow,
)
from riverui.storage.interface.params import Count, CountKind, JobCursor, JobCutoff, JobOrder
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from tests.storage.conftest import Way

TERM = timedelta(seconds=30)
"""For which a dashboard holds an operation: longer than a test."""
NO_TERM = timedelta(seconds=-1)
"""One that is over already."""
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def driver(driver: PostgresDriver, own_tables: None) -> PostgresDriver:
    """With riverui's own tables."""
    return driver


def params(id: str = "one", **changes: Any) -> OperationParams:
    given: dict[str, Any] = {
        "id": id,
        "verb": "move",
        "parameters": {"queue": "slow", "priority": 2},
        "features": "",
        "username": "ada",
        "allowed": "jobs.move",
        "query": "state:retryable kind:“mail”",
        "order": JobOrder.TIME_DESC,
        "cutoff": JobCutoff(id=77, at=NOON),
        "total": Count(value=12, kind=CountKind.AT_LEAST),
    }
    return OperationParams(**given | changes)


async def insert(
    driver: PostgresDriver, given: OperationParams | None = None, *, term: timedelta = TERM
) -> OperationLease:
    async with driver.transaction() as db:
        row = await db.operation_insert(given or params(), holder="a", term=term, most=100)
    assert row is not None
    return OperationLease(id=row.params.id, fence=row.fence, term=term)


async def claim(
    driver: PostgresDriver, *, term: timedelta = TERM, features: str = ""
) -> OperationRow | None:
    async with driver.autocommit() as db:
        return await db.operation_claim(
            holder="b", verbs=["move", "retry"], features=[features], term=term
        )


async def test_what_was_asked_for_is_kept_as_it_was(driver: PostgresDriver) -> None:
    lease = await insert(driver)
    async with driver.reading() as db:
        row = await db.operation_get("one")
        assert await db.operation_get("two") is None
    assert row is not None
    assert row.params == params()
    assert row.progress == OperationProgress()
    assert (row.status, row.ended_at, row.stopped_by, row.error) == ("running", None, None, "")
    assert (row.holder, row.fence, row.held) == ("a", 1, True)
    for cursor in (JobCursor(at=None, id=-3), JobCursor(at=NOON, id=9)):
        progress = OperationProgress(
            changed=5, requested=1, skipped={"running": (2, (7, 8))}, cursor=cursor
        )
        async with driver.transaction() as db:
            assert await db.operation_save(lease, progress)
            found = await db.operation_get("one")
        assert found is not None
        assert found.progress == progress


async def test_one_id_is_one_operation_and_few_run_at_once(driver: PostgresDriver) -> None:
    async def begin(number: int) -> OperationRow | None:
        async with driver.transaction() as db:
            return await db.operation_insert(
                params(f"n{number % 4}"), holder=f"h{number}", term=TERM, most=3
            )

    rows = await asyncio.gather(*map(begin, range(8)))
    kept = [row for row in rows if row is not None]
    assert len({row.params.id for row in kept}) == 3
    assert all(row.fence == 1 for row in kept)
    async with driver.reading() as db:
        assert len(await db.operation_list(limit=10)) == 3
    # One that has ended makes room.
    lease = OperationLease(id=kept[0].params.id, fence=1, term=TERM)
    async with driver.transaction() as db:
        assert await db.operation_end(lease, status="done", error="")
        assert await db.operation_insert(params("new"), holder="a", term=TERM, most=3)


async def test_pages_are_newest_first(driver: PostgresDriver) -> None:
    for number in range(5):
        await insert(driver, params(str(number)))
    async with driver.reading() as db:
        first = await db.operation_list(limit=3)
        rest = await db.operation_list(limit=3, before=first[-1].params.id)
        assert await db.operation_list(limit=3, before="unknown") == []
    assert [row.params.id for row in [*first, *rest]] == ["4", "3", "2", "1", "0"]


async def test_only_what_nobody_holds_is_taken_over(driver: PostgresDriver) -> None:
    lease = await insert(driver)
    assert await claim(driver) is None
    async with driver.autocommit() as db:
        await db.operation_release(lease)
    assert await claim(driver, features="Retention") is None
    taken = await claim(driver)
    assert taken is not None
    assert (taken.holder, taken.fence, taken.held) == ("b", 2, True)
    assert await claim(driver) is None

    await insert(driver, params("late"), term=NO_TERM)
    await insert(driver, params("strange", verb="explode"), term=NO_TERM)
    await insert(driver, params("later"), term=NO_TERM)
    found = [row and row.params.id for row in [await claim(driver) for _ in range(3)]]
    assert found == ["late", "later", None]


async def test_two_never_take_over_the_same(driver: PostgresDriver) -> None:
    for number in range(6):
        await insert(driver, params(str(number)), term=NO_TERM)
    rows = await asyncio.gather(*(claim(driver) for _ in range(12)))
    taken = [row.params.id for row in rows if row is not None]
    assert sorted(taken) == [str(number) for number in range(6)]


async def test_who_lost_it_writes_nothing_more(driver: PostgresDriver) -> None:
    lost = await insert(driver, term=NO_TERM)
    taken = await claim(driver)
    assert taken is not None
    async with driver.transaction() as db:
        assert await db.operation_hold(lost) is None
        assert not await db.operation_save(lost, OperationProgress(changed=99))
        assert await db.operation_renew(lost) is None
        assert not await db.operation_end(lost, status="failed", error="late")
        await db.operation_release(lost)
        row = await db.operation_get("one")
    assert row is not None
    assert (row.progress.changed, row.status, row.held) == (0, "running", True)
    ours = OperationLease(id="one", fence=taken.fence, term=TERM)
    async with driver.transaction() as db:
        held = await db.operation_hold(ours)
        assert held is not None
        assert await db.operation_renew(ours) == "running"
        assert await db.operation_end(ours, status="failed", error="x" * 5_000)
        assert await db.operation_hold(ours) is None
        row = await db.operation_get("one")
    assert row is not None
    assert (row.status, len(row.error)) == ("failed", 1_000)
    assert row.ended_at is not None


async def test_while_a_batch_is_under_way_nobody_takes_it_over(
    driver: PostgresDriver, connection: AsyncConnection[Any]
) -> None:
    lease = await insert(driver, term=NO_TERM)
    async with driver.transaction() as db:
        assert await db.operation_hold(lease)
        assert await claim(driver) is None
        idle = await db.ask("idle", "show idle_in_transaction_session_timeout", ())
        assert idle.value() == "5s"
    assert await claim(driver) is not None


async def test_stopping_is_asked_for_once(driver: PostgresDriver) -> None:
    lease = await insert(driver)
    async with driver.transaction() as db:
        row = await db.operation_stop("one", username="eve")
        assert row is not None
        assert (row.status, row.stopped_by) == ("stopping", "eve")
        row = await db.operation_stop("one", username="bob")
        assert row is not None
        assert row.stopped_by == "eve"
        assert await db.operation_renew(lease) == "stopping"
        await db.operation_end(lease, status="stopped", error="")
        row = await db.operation_stop("one", username="bob")
        assert row is not None
        assert row.status == "stopped"
        assert await db.operation_stop("none", username="bob") is None


async def test_old_ones_are_forgotten_few_at_a_time(
    driver: PostgresDriver, connection: AsyncConnection[Any]
) -> None:
    for number in range(5):
        lease = await insert(driver, params(str(number)))
        if number:
            async with driver.transaction() as db:
                await db.operation_end(lease, status="done", error="")
    await connection.execute(
        "update riverui_operation set ended_at = ended_at - interval '31 d'"
        " where id in ('1', '2', '3')"
    )
    month = datetime.now(UTC) - timedelta(days=30)
    async with driver.transaction() as db:
        assert await db.operation_delete_before(month, limit=2) == 2
        assert await db.operation_delete_before(month, limit=2) == 1
        assert {row.params.id for row in await db.operation_list(limit=9)} == {"0", "4"}


async def test_whether_the_table_is_there_is_told(way: Way) -> None:
    """Through every way to a database, in the search path's schema and in another."""
    db = way.executor
    assert OPERATION_TABLE.name not in await db.own_table_list()
    async with way.driver.reading() as reading:
        with pytest.raises(SchemaMissing):
            await reading.operation_list(limit=1)
    await migrate(way.driver, "up", line="riverui")
    assert OPERATION_TABLE.name in await db.own_table_list()
    row = await db.operation_insert(params(), holder="a", term=TERM, most=3)
    assert row is not None
    assert row.params == params()
    assert await db.operation_list(limit=1) == [row]
