"""Operations in `riverui_operation`: stored, held by one dashboard at a time, and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from riverui.errors import OperationLost
from riverui.features.operations.domain import Pace, Watch
from riverui.features.operations.store import Operation, OperationStatus, OperationStore
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.interface.params import Count, CountKind, JobCursor, JobCutoff, JobOrder
from tests.features.both import database, driver, driver_url, file, postgres_only

__all__ = ["database", "driver", "driver_url", "file"]

TERM = timedelta(seconds=30)
"""How long a dashboard holds an operation: longer than a test."""
NO_TERM = timedelta(seconds=-1)
"""One that is over already."""
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
VERBS = ["move", "retry"]


def operation(id: str = "one", **changes: Any) -> Operation:
    given: dict[str, Any] = {
        "id": id,
        "verb": "move",
        "parameters": {"queue": "slow", "priority": 2},
        "query": "state:retryable kind:“mail”",
        "order": JobOrder.TIME_DESC,
        "cutoff": JobCutoff(id=77, at=NOON),
        "total": Count(value=12, kind=CountKind.AT_LEAST),
        "user": "ada",
        "allowed": "jobs.move",
        "pace": Pace(canary=3),
        "watch": Watch(),
        "holder": "a",
    }
    return Operation(**given | changes)


@asynccontextmanager
async def stored(driver: Driver, term: timedelta = TERM) -> AsyncIterator[OperationStore]:
    async with driver.transaction() as transaction:
        yield OperationStore(transaction, term=term)


async def insert(
    driver: Driver, given: Operation | None = None, *, term: timedelta = TERM
) -> Operation:
    async with stored(driver, term) as store:
        return await store.operation_insert(given or operation())


async def claim(driver: Driver, *, features: str = "") -> Operation | None:
    async with stored(driver) as store:
        return await store.operation_claim(holder="b", verbs=VERBS, features=features)


async def test_an_operation_is_stored_as_it_is(driver: Driver) -> None:
    inserted = await insert(driver)
    started = replace(operation(), fence=1, started_at=inserted.started_at)
    assert inserted == started
    for cursor in (JobCursor(at=None, id=-3), JobCursor(at=NOON, id=9)):
        skipped = {SkipReason.RUNNING: (2, (7, 8))}
        watch = Watch(pending={4: 1}, outcomes="+-")
        after = replace(
            started, changed=5, requested=1, skipped=skipped, cursor=cursor, watch=watch
        )
        async with stored(driver) as store:
            assert await store.operation_save(after) is OperationStatus.RUNNING
            assert await store.operation_get("one") == after
            assert await store.operation_get("two") is None


async def test_they_are_added_one_at_a_time(driver: Driver) -> None:
    async def add(number: int) -> None:
        async with stored(driver) as store:
            await store.operation_turn()
            if await store.operation_unfinished_count() < 3:
                await store.operation_insert(operation(str(number)))

    await asyncio.gather(*map(add, range(8)))
    async with stored(driver) as store:
        assert await store.operation_unfinished_count() == 3
        kept = await store.operation_list(verbs=VERBS, limit=10)
        assert len(kept) == 3
        # One that has ended makes room.
        await store.operation_end(replace(kept[0], status=OperationStatus.DONE))
        assert await store.operation_unfinished_count() == 2


async def test_only_operations_without_holder_are_taken_over(driver: Driver) -> None:
    held = await insert(driver)
    assert await claim(driver) is None
    async with stored(driver) as store:
        await store.operation_release(held)
    assert await claim(driver, features="Retention") is None
    taken = await claim(driver)
    assert taken is not None
    assert (taken.holder, taken.fence, taken.held) == ("b", 2, True)
    assert await claim(driver) is None

    await insert(driver, operation("late"), term=NO_TERM)
    await insert(driver, operation("strange", verb="explode"), term=NO_TERM)
    await insert(driver, operation("later"), term=NO_TERM)
    found = [each and each.id for each in [await claim(driver) for _ in range(3)]]
    assert found == ["late", "later", None]


async def test_two_never_take_over_the_same(driver: Driver) -> None:
    for number in range(6):
        await insert(driver, operation(str(number)), term=NO_TERM)
    taken = await asyncio.gather(*(claim(driver) for _ in range(12)))
    assert sorted(each.id for each in taken if each) == [str(number) for number in range(6)]


async def test_whoever_lost_it_writes_nothing_more(driver: Driver) -> None:
    lost = await insert(driver, term=NO_TERM)
    ours = await claim(driver)
    assert ours is not None
    async with stored(driver) as store:
        for write in (
            store.operation_hold(lost),
            store.operation_save(replace(lost, changed=99)),
            store.operation_renew(lost),
            store.operation_end(replace(lost, status=OperationStatus.FAILED)),
        ):
            with pytest.raises(OperationLost):
                await write
        await store.operation_release(lost)
        assert await store.operation_get("one") == ours
        assert await store.operation_hold(ours) == ours
        assert await store.operation_renew(ours) is OperationStatus.RUNNING
        await store.operation_stop("one", user="eve")
        assert await store.operation_renew(ours) is OperationStatus.STOPPING
        await store.operation_end(replace(ours, status=OperationStatus.FAILED, error="x" * 5_000))
        with pytest.raises(OperationLost):
            await store.operation_hold(ours)
        found = await store.operation_get("one")
    assert found is not None
    assert (found.status, len(found.error)) == ("failed", 1_000)
    assert found.ended_at is not None


@postgres_only
async def test_during_a_chunk_it_is_not_taken_over(driver: Driver) -> None:
    held = await insert(driver, term=NO_TERM)
    async with driver.transaction() as transaction:
        await OperationStore(transaction).operation_hold(held)
        assert await claim(driver) is None
        idle = await transaction.ask("idle", "show idle_in_transaction_session_timeout", ())  # type: ignore[attr-defined]
        assert idle.value() == "5s"
    assert await claim(driver) is not None
