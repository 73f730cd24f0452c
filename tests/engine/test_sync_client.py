"""The synchronous client, in transactions of all supported libraries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook, Plugin
from riverui.engine.insert.insert_opts import (
    InsertManyParams,
    InsertOpts,
    InsertRequest,
    UniqueOpts,
)
from riverui.engine.sync_client import SyncClient
from riverui.errors import ArgsError, DatabaseUnavailable, InsertError, UniqueConflict
from riverui.storage.connect import connect_sync
from riverui.storage.interface.engine_params import InsertResult
from tests.guests import GUESTS


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    strings: list[str]


UNIQUE = InsertOpts(unique_opts=UniqueOpts(by_args=True))
Seen = Callable[[], list[list[str]]]


@pytest.fixture
def client(database_url: str) -> Iterator[SyncClient]:
    with SyncClient(database_url) as client:
        yield client


@pytest.fixture
def inside() -> Iterator[SyncClient]:
    """Yield a client that knows no database: it could not connect if it wanted."""
    with SyncClient("postgresql://nobody@127.0.0.1:9/nowhere") as client:
        yield client


@pytest.fixture
def seen(database_url: str) -> Iterator[Seen]:
    """Yield what others see of the jobs inserted so far."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield lambda: [
            row["args"]["strings"]
            for row in connection.execute("select args from river_job order by id").fetchall()
        ]


def test_inserting_without_a_transaction(client: SyncClient, seen: Seen) -> None:
    result = client.insert(
        Sort(["b"]), insert_opts=InsertOpts(queue="slow", unique_opts=UniqueOpts(by_queue=True))
    )
    assert (result.job.kind, result.job.queue) == ("sort", "slow")
    twin = client.insert(
        Sort(["c"]), InsertOpts(queue="slow", unique_opts=UniqueOpts(by_queue=True))
    )
    assert twin.unique_skipped_as_duplicated
    assert twin.job.id == result.job.id

    results = client.insert_many(
        [Sort(["1"]), InsertManyParams(Sort(["2"]), UNIQUE), InsertManyParams(Sort(["2"]), UNIQUE)]
    )
    assert [result.unique_skipped_as_duplicate for result in results] == [False, False, True]
    assert client.insert_many_fast([Sort(["3"]), Sort(["4"])]) == 2
    assert client.insert_many([]) == []
    assert seen() == [["b"], ["1"], ["2"], ["3"], ["4"]]


def test_all_or_nothing(client: SyncClient, seen: Seen) -> None:
    client.insert(Sort(["there"]), UNIQUE)
    with pytest.raises(UniqueConflict):
        client.insert_many_fast([Sort(["new"]), InsertManyParams(Sort(["there"]), UNIQUE)])
    with pytest.raises(ArgsError):
        client.insert_many([Sort(["new"]), Sort([object()])])  # type: ignore[list-item]
    assert seen() == [["there"]]


def test_more_jobs_than_one_statement_takes(client: SyncClient) -> None:
    results = client.insert_many(Sort([str(n)]) for n in range(12_345))
    assert [result.job.args for result in results] == [
        f'{{"strings":["{n}"]}}' for n in range(12_345)
    ]
    assert len({result.job.id for result in results}) == 12_345


def test_a_pool_or_a_driver_of_the_program(database_url: str, seen: Seen) -> None:
    with ConnectionPool(database_url, min_size=1, open=True) as pool:
        with SyncClient(pool) as client:
            client.insert(Sort(["pool"]))
        driver = connect_sync(pool=pool)
        with SyncClient(driver) as client:
            client.insert(Sort(["driver"]))
        assert not pool.closed
    assert seen() == [["pool"], ["driver"]]


def test_there_is_no_database(inside: SyncClient) -> None:
    with pytest.raises(DatabaseUnavailable):
        inside.insert(Sort([]))


def in_transaction(client: SyncClient, tx: object) -> None:
    """One insert of each sort."""
    assert client.insert_tx(tx, Sort(["one"]), UNIQUE).job.id
    twin, other = client.insert_many_tx(
        tx, [InsertManyParams(Sort(["one"]), UNIQUE), Sort(["many"])]
    )
    assert twin.unique_skipped_as_duplicate
    assert other.job.kind == "sort"
    assert client.insert_many_fast_tx(tx, [Sort(["fast"])]) == 1


@pytest.mark.parametrize("kind", GUESTS)
def test_inserts_are_part_of_the_callers_transaction(
    kind: str, inside: SyncClient, database_url: str, seen: Seen
) -> None:
    begin = GUESTS[kind](database_url)
    for keep in (False, True):
        with begin(keep) as tx:
            in_transaction(inside, tx)
            assert seen() == []
        assert seen() == ([["one"], ["many"], ["fast"]] if keep else [])


def test_what_is_no_transaction(inside: SyncClient) -> None:
    with pytest.raises(TypeError, match="psycopg Connection"):
        inside.insert_tx(object(), Sort([]))


class Patient(Plugin):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def insert_begin(self, request: InsertRequest) -> None:
        request.metadata["hooked"] = True
        self.notes.append("begin")

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        self.notes.append("before")
        results = await do_inner(requests)
        self.notes.append("after")
        return results


def test_hooks_and_middleware(database_url: str) -> None:
    plugin = Patient()
    with SyncClient(database_url, ClientConfig(plugins=[plugin])) as client:
        assert client.insert(Sort([])).job.metadata == '{"hooked":true}'
    assert plugin.notes == ["before", "begin", "after"]


@pytest.mark.parametrize("seconds", [0, 0.01])
async def test_a_hook_that_waits_is_rejected(database_url: str, seen: Seen, seconds: float) -> None:
    """Where a loop runs as well as where none does."""

    class Waiting(Hook):
        async def insert_begin(self, request: InsertRequest) -> None:
            await asyncio.sleep(seconds)

    def insert() -> None:
        with (
            SyncClient(database_url, ClientConfig(hooks=[Waiting()])) as client,
            pytest.raises(InsertError, match="awaits something"),
        ):
            client.insert(Sort([]))

    insert()
    await asyncio.to_thread(insert)
    assert seen() == []


async def test_it_works_where_a_loop_runs(client: SyncClient, seen: Seen) -> None:
    client.insert(Sort(["x"]))
    assert seen() == [["x"]]
