"""Inside other people's transactions, asynchronously."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection, Connection
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncConnection as AlchemyConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from riverui.domain.jobs import JobState
from riverui.errors import SchemaMissing, UniqueConflict
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobFetchParams, JobSetStateParams
from tests.factory import Make
from tests.storage.conftest import NOW, hearing, insert_params

UNIQUE = insert_params(unique_key=b"k", unique_states=245)


class Base(DeclarativeBase):
    """The host app's tables."""


class Order(Base):
    """One of them."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]


@pytest.fixture(params=["psycopg", "asyncpg"])
async def engine(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[AsyncEngine]:
    """Yield the host app's engine, and its table."""
    engine = create_async_engine(
        database_url.replace("postgresql://", f"postgresql+{request.param}://", 1)
    )
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield engine
    await engine.dispose()


async def _count(make: Make, table: str = "river_job") -> int:
    return int((await make.rows(f"select count(*) as n from {table}"))[0]["n"])


async def test_psycopg(driver: Driver, make: Make, database_url: str) -> None:
    async with (
        hearing(driver, "river_insert") as heard,
        await AsyncConnection.connect(database_url) as connection,
    ):
        executor = await driver.adopt(connection)
        (inserted,) = await executor.jobs.insert_many([insert_params()], notify=["default"])
        assert await executor.jobs.row_get(inserted.job.id) is not None
        assert await executor.jobs.insert_many_fast([insert_params()], notify=["default"]) == 1
        assert (await executor.jobs.cancel_many([inserted.job.id])).changed
        assert (await _count(make), heard) == (0, [])
        await connection.rollback()
        assert await executor.jobs.row_get(inserted.job.id) is None
        await executor.jobs.insert_many([insert_params()], notify=["kept"])
        await connection.commit()
    assert await _count(make) == 1
    assert [json.loads(payload) for _, payload in heard] == [{"queue": "kept"}]


async def test_psycopg_with_its_own_rows(driver: Driver, make: Make, database_url: str) -> None:
    from psycopg.rows import dict_row

    async with await AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row, prepare_threshold=1
    ) as connection:
        executor = await driver.adopt(connection)
        async with connection.transaction():
            await executor.jobs.insert_many([insert_params()])
            assert await _count(make) == 0
        assert await _count(make) == 1
        await executor.jobs.insert_many([insert_params()])
        assert await _count(make) == 2, "without a transaction each statement is its own"


async def test_an_error_spoils_only_a_savepoint(
    driver: Driver, make: Make, database_url: str
) -> None:
    async with await AsyncConnection.connect(database_url) as connection:
        executor = await driver.adopt(connection)
        await executor.jobs.insert_many([UNIQUE])
        with pytest.raises(UniqueConflict):
            async with connection.transaction():
                await executor.jobs.insert_many_fast([UNIQUE])
        await executor.jobs.insert_many([insert_params()])
    assert await _count(make) == 2


async def test_a_conflict_of_an_action_spoils_nothing(
    driver: Driver, make: Make, database_url: str, engine: AsyncEngine
) -> None:
    unique = {"unique_key": b"k", "unique_states": "11110101"}
    await make.job("available", **unique)
    ended = await make.job("cancelled", **unique)
    async with (
        await AsyncConnection.connect(database_url) as connection,
        engine.connect() as sqlalchemy,
    ):
        transactions: list[Any] = [connection, sqlalchemy]
        for transaction in transactions:
            executor = await driver.adopt(transaction)
            await executor.jobs.insert_many([insert_params()])
            with pytest.raises(UniqueConflict):
                await executor.jobs.retry_many([ended])
            assert (await executor.jobs.delete_many([ended])).changed == (ended,)
            await transaction.rollback()


async def test_sqlalchemy_session(driver: Driver, make: Make, engine: AsyncEngine) -> None:
    """The ORM's changes and the jobs are kept or lost as one."""
    for keep in (False, True):
        async with hearing(driver, "river_insert") as heard, AsyncSession(engine) as session:
            session.add(Order(id=1, note="pending in the session"))
            executor = await driver.adopt(session)
            (inserted,) = await executor.jobs.insert_many([insert_params()], notify=["default"])
            await session.flush()
            # Each sees the other's work: it is one transaction.
            assert (await session.execute(text("select count(*) from river_job"))).scalar_one() == 1
            assert await executor.jobs.row_get(inserted.job.id) is not None
            assert await _count(make) == 0
            await (session.commit() if keep else session.rollback())
        assert await _count(make) == await _count(make, "orders") == (1 if keep else 0)
        assert len(heard) == (1 if keep else 0)


async def test_an_unused_sqlalchemy_session(
    driver: Driver, make: Make, engine: AsyncEngine
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await (await driver.adopt(session)).jobs.insert_many([insert_params()])
        assert await _count(make) == 0
    assert await _count(make) == 1
    async with AsyncSession(engine) as session:
        await (await driver.adopt(session)).jobs.insert_many([insert_params()])
    assert await _count(make) == 1, "a session that is closed without a commit rolls back"


async def test_sqlalchemy_scoped_session(driver: Driver, make: Make, engine: AsyncEngine) -> None:
    scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
    await (await driver.adopt(scoped)).jobs.insert_many([insert_params()])
    await scoped.commit()
    await scoped.remove()
    assert await _count(make) == 1


async def test_sqlalchemy_connection(driver: Driver, make: Make, engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await (await driver.adopt(connection)).jobs.insert_many([insert_params()])
        assert await _count(make) == 0
    assert await _count(make) == 1
    async with engine.connect() as connection:
        executor = await driver.adopt(connection)
        await executor.jobs.insert_many([insert_params()])
        await connection.rollback()
        await (await driver.adopt(connection)).jobs.insert_many([insert_params()])
        await connection.commit()
    assert await _count(make) == 2


async def test_sqlalchemy_savepoint(driver: Driver, make: Make, engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await (await driver.adopt(session)).jobs.insert_many([UNIQUE])
        nested = await session.begin_nested()
        with pytest.raises(UniqueConflict):
            # The session makes its savepoint when its connection is requested.
            await (await driver.adopt(session)).jobs.insert_many_fast([UNIQUE])
        await nested.rollback()
        assert (await (await driver.adopt(session)).jobs.insert_many([UNIQUE]))[
            0
        ].unique_skipped_as_duplicate
    assert await _count(make) == 1


async def test_a_whole_life_in_sqlalchemy(driver: Driver, make: Make, engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        executor = await driver.adopt(connection)
        inserted = await executor.jobs.insert_many([UNIQUE, UNIQUE, insert_params()])
        ids = [one.job.id for one in inserted]
        assert ids[0] == ids[1] != ids[2]
        found = await executor.work.get_available(JobFetchParams("me", "default", 10))
        assert sorted(row.id for row in found) == ids[1:]
        (row,) = await executor.work.set_state_many(
            [
                JobSetStateParams(
                    ids[0], JobState.COMPLETED, finalized_at=NOW, metadata='{"output": 1}'
                )
            ]
        )
        assert row.state is JobState.COMPLETED
        assert list(await executor.work.complete_many([ids[2]], [NOW])) == [ids[2]]
        assert (await executor.jobs.retry_many([ids[2]])).changed == (ids[2],)
    assert [
        row["state"] for row in await make.rows("select state::text from river_job order by id")
    ] == [
        "completed",
        "available",
    ]


async def test_errors_through_sqlalchemy(engine: AsyncEngine, database_url: str) -> None:
    driver = connect(database_url, schema="nowhere")
    async with engine.connect() as connection:
        with pytest.raises(SchemaMissing):
            await (await driver.adopt(connection)).jobs.row_get(1)
    await driver.close()


async def test_what_is_no_transaction(
    driver: Driver, database_url: str, engine: AsyncEngine
) -> None:
    sync_engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    with Connection.connect(database_url) as sync, Session(sync_engine) as session:
        things: list[Any] = [None, 5, "postgresql://", sync, session, sync_engine, engine, driver]
        for thing in things:
            with pytest.raises(TypeError, match="is needed") as refused:
                await driver.adopt(thing)
            assert ("use it with a SyncClient" in str(refused.value)) == (thing in (sync, session))
    sync_engine.dispose()


def test_sqlalchemys_connection_has_what_is_used_of_it() -> None:
    for name in ("exec_driver_sql", "get_raw_connection", "in_transaction", "begin", "dialect"):
        assert hasattr(AlchemyConnection, name)
