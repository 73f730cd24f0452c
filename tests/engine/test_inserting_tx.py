"""Inserts in transactions of the caller's: visible after a commit, undone by a rollback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import sqlalchemy as sa
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from riverui.engine.client import Client
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.errors import UniqueConflict


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    strings: list[str]


UNIQUE = InsertOpts(unique_opts=UniqueOpts(by_args=True))
ALL = [["one"], ["many"], ["fast"]]
Seen = Callable[[], Awaitable[list[list[str]]]]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Yield a client that knows no database: it could not connect if it wanted."""
    async with Client("postgresql://nobody@127.0.0.1:9/nowhere") as client:
        yield client


@pytest.fixture
def seen(connection: AsyncConnection[DictRow]) -> Seen:
    """Return what others see of the jobs inserted so far."""

    async def read() -> list[list[str]]:
        rows = await connection.execute("select args from river_job order by id")
        return [row["args"]["strings"] for row in await rows.fetchall()]

    return read


async def in_transaction(client: Client, tx: object) -> None:
    """One insert of each sort."""
    assert (await client.insert_tx(tx, Sort(["one"]), UNIQUE)).job.id
    twin, other = await client.insert_many_tx(
        tx, [InsertManyParams(Sort(["one"]), UNIQUE), Sort(["many"])]
    )
    assert twin.unique_skipped_as_duplicate
    assert other.job.kind == "sort"
    assert await client.insert_many_fast_tx(tx, [Sort(["fast"])]) == 1


async def test_psycopg(client: Client, database_url: str, seen: Seen) -> None:
    async with await AsyncConnection.connect(database_url, row_factory=dict_row) as tx:
        await in_transaction(client, tx)
        assert await seen() == []
        await tx.rollback()
        assert await seen() == []
        await in_transaction(client, tx)
        await tx.commit()
        assert await seen() == ALL


async def test_psycopg_with_a_savepoint(client: Client, database_url: str, seen: Seen) -> None:
    async with await AsyncConnection.connect(database_url) as tx:
        await client.insert_tx(tx, Sort(["kept"]), UNIQUE)
        with pytest.raises(UniqueConflict):
            async with tx.transaction():
                await client.insert_many_fast_tx(
                    tx, [Sort(["lost"]), InsertManyParams(Sort(["kept"]), UNIQUE)]
                )
        await client.insert_tx(tx, Sort(["kept too"]))
    assert await seen() == [["kept"], ["kept too"]]


@pytest.fixture(params=["psycopg", "asyncpg"])
async def engine(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(
        sa.make_url(database_url).set(drivername=f"postgresql+{request.param}")
    )
    yield engine
    await engine.dispose()


async def test_sqlalchemy_sessions(client: Client, engine: AsyncEngine, seen: Seen) -> None:
    async with AsyncSession(engine) as session:
        await in_transaction(client, session)
        assert await session.scalar(sa.text("select count(*) from river_job")) == 3
        assert await seen() == []
        await session.rollback()
        assert await seen() == []
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(sa.text("select 1"))
        await in_transaction(client, session)
    assert await seen() == ALL


async def test_sqlalchemy_connections(client: Client, engine: AsyncEngine, seen: Seen) -> None:
    async with engine.connect() as connection:
        await in_transaction(client, connection)
        await connection.rollback()
        assert await seen() == []
    async with engine.begin() as connection:
        await in_transaction(client, connection)
        assert await seen() == []
    assert await seen() == ALL


async def test_what_is_no_transaction(client: Client) -> None:
    with pytest.raises(TypeError, match="psycopg AsyncConnection"):
        await client.insert_tx(object(), Sort([]))
