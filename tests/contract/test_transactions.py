"""Transactions, and what a driver reports about itself."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from riverui.errors import DatabaseError
from riverui.storage.interface import (
    CAPABILITIES,
    LISTENING,
    MIGRATIONS,
    WORKING,
    Driver,
    Executor,
    Transaction,
    WorkingDriver,
)
from tests.contract.conftest import with_synchronous
from tests.contract.seeds import insert, job

pytestmark = with_synchronous


async def kinds(driver: Driver) -> list[str]:
    """Return the kinds of all jobs."""
    async with driver.reading() as executor:
        return list(await executor.jobs.kind_list())


async def insert_and_fail(opened: AbstractAsyncContextManager[Executor], kind: str) -> None:
    """Insert a job of that kind, and leave with an exception."""
    async with opened as executor:
        await executor.jobs.insert_many([job(kind)])
        raise ZeroDivisionError


async def test_it_is_lost_as_one(driver: Driver) -> None:
    with pytest.raises(ZeroDivisionError):
        await insert_and_fail(driver.transaction(), "lost")
    assert await kinds(driver) == []


async def fail_inside(transaction: Transaction) -> None:
    """Insert a job in a savepoint, and leave it with an exception."""
    async with transaction.savepoint():
        await transaction.jobs.insert_many([job("lost")])
        raise ZeroDivisionError


async def test_a_savepoint_fails_alone(driver: Driver) -> None:
    async with driver.transaction() as transaction:
        await transaction.jobs.insert_many([job("before")])
        with pytest.raises(ZeroDivisionError):
            await fail_inside(transaction)
        async with transaction.savepoint():
            await transaction.jobs.insert_many([job("inside")])
    assert await kinds(driver) == ["before", "inside"]


async def test_others_see_it_once_it_is_kept(driver: Driver) -> None:
    async with driver.transaction() as transaction:
        await transaction.jobs.insert_many([job("mine")])
        assert await kinds(driver) == []
    assert await kinds(driver) == ["mine"]


async def test_reading_writes_nothing(driver: Driver) -> None:
    with pytest.raises(DatabaseError):
        async with driver.reading() as executor:
            await executor.jobs.insert_many([job()])
    assert await kinds(driver) == []


async def test_what_is_cancelled_is_lost(driver: Driver) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with driver.transaction() as transaction:
            await transaction.jobs.insert_many([job("lost")])
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await kinds(driver) == []


async def test_a_session_commits_each_call(driver: WorkingDriver) -> None:
    with pytest.raises(ZeroDivisionError):
        await insert_and_fail(driver.session(timeout=timedelta(seconds=10)), "kept")
    assert await kinds(driver) == ["kept"]


async def test_another_loop_has_a_driver_of_its_own(driver: WorkingDriver) -> None:
    await insert(driver, job("kept"))
    apart = driver.apart()
    assert await asyncio.to_thread(lambda: asyncio.run(kinds(apart))) == ["kept"]


async def test_it_says_which_database_it_is(driver: Driver) -> None:
    assert driver.database == ""
    await driver.ping()
    assert driver.database
    assert driver.schema in (None, driver.schema_in_use)
    assert driver.schema_in_use
    assert driver.read_only == ""
    assert driver.product
    assert all(driver.library)


async def test_it_can_be_closed_twice_and_used_again(driver: Driver) -> None:
    await driver.close()
    await driver.close()
    await driver.ping()


async def test_what_is_no_transaction_is_refused(driver: Driver) -> None:
    with pytest.raises(TypeError):
        await driver.adopt(object())


async def test_driver_and_executors_tell_the_same_capabilities(driver: Driver) -> None:
    own = frozenset(driver.capabilities)
    assert own <= frozenset(CAPABILITIES)
    async with driver.reading() as executor, driver.transaction() as transaction:
        for each in (executor, transaction):
            assert frozenset(each.capabilities) == own - {LISTENING, MIGRATIONS, WORKING}
