"""Clients on the program's SQLAlchemy engine, like River's own Python client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg import AsyncConnection
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

import riverui
from riverui.engine.client import AsyncClient, Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError, DatabaseUnavailable, InsertError, SchemaMissing


@dataclass
class SortArgs:
    """Args as that client's documentation has them."""

    strings: list[str]

    kind: str = "sort"

    def to_json(self) -> str:
        return json.dumps({"strings": self.strings})


class Driver:
    """Stands for `riverqueue.driver.riversqlalchemy.Driver`, which holds the engine under this
    name.
    """

    def __init__(self, conn: Any) -> None:
        self.conn = conn


Driver.__module__ = "riverqueue.driver.riversqlalchemy.sql_alchemy_driver"

ANIMALS = SortArgs(strings=["whale", "tiger", "bear"])


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, database_url: str) -> Iterator[Engine]:
    engine = create_engine(
        database_url.replace("postgresql://", f"postgresql+{request.param}://", 1)
    )
    yield engine
    engine.dispose()


@pytest.fixture(params=["psycopg", "asyncpg"])
async def async_engine(
    request: pytest.FixtureRequest, database_url: str
) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(
        database_url.replace("postgresql://", f"postgresql+{request.param}://", 1)
    )
    yield engine
    await engine.dispose()


async def kinds(connection: AsyncConnection[Any]) -> list[tuple[str, str]]:
    rows = await connection.execute("select kind, queue from river_job order by id")
    return [(row["kind"], row["queue"]) for row in await rows.fetchall()]


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_official_clients_own_examples(
    engine: Engine, connection: AsyncConnection[Any], wrapped: bool
) -> None:
    client = SyncClient(Driver(engine) if wrapped else engine)  # type: ignore[arg-type]
    result = client.insert(ANIMALS)
    assert result.job.args_dict == {"strings": ["whale", "tiger", "bear"]}
    assert not result.unique_skipped_as_duplicated
    client.insert(
        ANIMALS,
        insert_opts=InsertOpts(max_attempts=17, priority=3, queue="my_queue", tags=["custom"]),
    )
    unique = InsertOpts(unique_opts=UniqueOpts(by_args=True, by_period=15 * 60, by_queue=True))
    first, second = (
        client.insert(ANIMALS, insert_opts=unique),
        client.insert(ANIMALS, insert_opts=unique),
    )
    assert second.unique_skipped_as_duplicated
    assert second.job.id == first.job.id
    assert (
        len(
            client.insert_many(
                [ANIMALS, InsertManyParams(args=ANIMALS, insert_opts=InsertOpts(queue="high"))]
            )
        )
        == 2
    )
    assert client.insert_many_fast([ANIMALS]) == 1
    with engine.begin() as session:
        client.insert_tx(session, ANIMALS)
    with engine.connect() as session:
        client.insert_tx(session, ANIMALS)
        session.rollback()
    found = await kinds(connection)
    assert [queue for _, queue in found] == [
        "default",
        "my_queue",
        "default",
        "default",
        "high",
        "default",
        "default",
    ]
    client.close()
    client.insert(ANIMALS)


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_official_asynchronous_clients_own_examples(
    async_engine: AsyncEngine, connection: AsyncConnection[Any], wrapped: bool
) -> None:
    async with AsyncClient(Driver(async_engine) if wrapped else async_engine) as client:  # type: ignore[arg-type]
        result = await client.insert(ANIMALS)
        async with async_engine.begin() as session:
            await client.insert_tx(session, ANIMALS)
        await client.insert_many([ANIMALS, ANIMALS])
        assert await client.insert_many_fast([ANIMALS]) == 1
        assert (await client.job_cancel(result.job.id)).state == "cancelled"
        assert len((await client.job_list()).jobs) == 5
        assert repr(client.driver).startswith("<EngineDriver riverui_test_")
    assert len(await kinds(connection)) == 5


async def test_a_failed_insert_leaves_nothing(
    engine: Engine, connection: AsyncConnection[Any]
) -> None:
    await connection.execute("alter table river_job add constraint small check (priority < 3)")
    with pytest.raises(riverui.errors.DatabaseError, match="small"):
        SyncClient(engine).insert_many([ANIMALS, InsertManyParams(ANIMALS, InsertOpts(priority=3))])
    assert await kinds(connection) == []
    await connection.execute("drop table river_job")
    with pytest.raises(SchemaMissing):
        SyncClient(engine).insert(ANIMALS)


async def test_a_connection_stays_its_owners_to_commit(
    engine: Engine, connection: AsyncConnection[Any]
) -> None:
    with engine.connect() as mine:
        SyncClient(Driver(mine)).insert(ANIMALS)  # type: ignore[arg-type]
        assert await kinds(connection) == []
        mine.commit()
    assert await kinds(connection) == [("sort", "default")]


def test_a_shorter_list_of_states_is_refused_with_the_reason() -> None:
    """River's own rule: a job that leaves these states and comes back would collide with
    another.
    """
    with pytest.raises(InsertError, match="by_state must have pending, running, scheduled as well"):
        SyncClient("postgresql://nowhere").insert(
            ANIMALS, InsertOpts(unique_opts=UniqueOpts(by_state=[riverui.JobState.AVAILABLE]))
        )


def test_an_engine_whose_database_is_away() -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        SyncClient(create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")).insert(ANIMALS)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_an_asynchronous_engine_whose_database_is_away(driver: str) -> None:
    engine = create_async_engine(f"postgresql+{driver}://nobody@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        await Client(engine).insert(ANIMALS)


def test_what_is_no_database_is_refused_at_once() -> None:
    given: Any
    for given in (object(), 7, Workers()):
        with pytest.raises(ConfigError, match="is not a database: give a URL"):
            SyncClient(given)
        with pytest.raises(ConfigError, match="is not a database: give a URL"):
            Client(given)
    engine: Any = create_engine("postgresql+psycopg://")
    with pytest.raises(ConfigError, match="give it to a SyncClient"):
        Client(engine)
    async_engine: Any = create_async_engine("postgresql+psycopg://")
    with pytest.raises(ConfigError, match="give it to a Client"):
        SyncClient(async_engine)
    with pytest.raises(ConfigError, match="sqlite"):
        SyncClient(create_engine("sqlite://"))


async def test_an_engine_works_no_jobs(async_engine: AsyncEngine) -> None:
    workers = Workers()
    config = ClientConfig(queues={"default": QueueConfig(max_workers=1)}, workers=workers)
    with pytest.raises(ConfigError, match="to work them, give a URL"):
        Client(async_engine, config)
