"""Inserting through the client: rows, results, hooks, transactions and wake-ups, on a real
database.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.jobs import JobState
from riverui.engine.args.job_args import JsonArgs
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook, Middleware, Plugin
from riverui.engine.insert.insert_opts import (
    InsertManyParams,
    InsertOpts,
    InsertRequest,
    UniqueOpts,
)
from riverui.engine.limits import EngineLimits
from riverui.errors import ArgsError, DatabaseError, InsertError, UniqueConflict
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import InsertResult

Rows = Callable[[], Awaitable[list[DictRow]]]


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    strings: list[str]


UNIQUE = InsertOpts(unique_opts=UniqueOpts(by_args=True))


def unique(*strings: str) -> InsertManyParams:
    return InsertManyParams(Sort(list(strings)), UNIQUE)


@pytest.fixture
def client(driver: Driver) -> Client:
    return Client(driver)


@pytest.fixture
def rows(connection: AsyncConnection[DictRow]) -> Rows:
    async def read() -> list[DictRow]:
        return await (await connection.execute("select * from river_job order by id")).fetchall()

    return read


async def test_a_job_is_as_river_would_have_inserted_it(client: Client, rows: Rows) -> None:
    before = datetime.now(UTC)
    result = await client.insert(
        Sort(["b", "<a>"]),
        insert_opts=InsertOpts(metadata={"trace": "x"}, tags=["one", "two"], queue="words"),
    )

    [row] = await rows()
    assert before <= row["created_at"] == row["scheduled_at"] <= datetime.now(UTC)
    assert {name: value for name, value in row.items() if not name.endswith("_at")} == {
        "id": result.job.id,
        "state": "available",
        "attempt": 0,
        "max_attempts": 25,
        "priority": 1,
        "args": {"strings": ["b", "<a>"]},
        "attempted_by": None,
        "errors": None,
        "kind": "sort",
        "metadata": {"trace": "x"},
        "queue": "words",
        "tags": ["one", "two"],
        "unique_key": None,
        "unique_states": None,
    }
    assert not result.unique_skipped_as_duplicate
    job = result.job
    assert (job.kind, job.queue, job.tags, job.state) == (
        "sort",
        "words",
        ("one", "two"),
        JobState.AVAILABLE,
    )
    assert job.created_at == row["created_at"]
    assert json.loads(job.args) == row["args"]


async def test_results_come_in_order_with_duplicates_marked(client: Client, rows: Rows) -> None:
    there = (await client.insert(Sort(["there"]), UNIQUE)).job
    results = await client.insert_many(
        [Sort(["plain"]), unique("a"), unique("there"), unique("a"), InsertManyParams(Sort(["a"]))]
    )
    skipped = [False, False, True, True, False]
    assert [result.unique_skipped_as_duplicate for result in results] == skipped
    assert [result.unique_skipped_as_duplicated for result in results] == skipped
    assert results[2].job.id == there.id
    assert results[3].job.id == results[1].job.id
    assert len({result.job.id for result in results}) == 4
    assert [row["args"]["strings"] for row in await rows()] == [["there"], ["plain"], ["a"], ["a"]]


async def test_nothing_to_insert(client: Client) -> None:
    assert await client.insert_many([]) == []
    assert await client.insert_many_fast([]) == 0


async def test_a_batch_is_inserted_as_a_whole_or_not_at_all(
    driver: Driver, connection: AsyncConnection[DictRow], rows: Rows
) -> None:
    client = Client(driver, limits=EngineLimits(insert_rows=10))
    with pytest.raises(ArgsError):
        await client.insert_many([*(Sort([str(n)]) for n in range(50)), Sort([object()])])  # type: ignore[list-item]
    assert await rows() == []

    # What only the database refuses, in the last of several statements.
    await connection.execute("alter table river_job add constraint no_last check (kind <> 'last')")
    with pytest.raises(DatabaseError, match="no_last"):
        await client.insert_many([*(Sort([str(n)]) for n in range(50)), JsonArgs("last", {})])
    assert await rows() == []

    results = await client.insert_many(
        [unique("same"), *(Sort([str(n)]) for n in range(50)), unique("same")]
    )
    assert [result.unique_skipped_as_duplicate for result in results] == [False] * 51 + [True]
    assert results[51].job.id == results[0].job.id
    assert len(await rows()) == 51


async def test_copying_counts(client: Client, rows: Rows) -> None:
    count = await client.insert_many_fast([*(Sort([str(n)]) for n in range(20)), unique("a")])

    assert count == 21
    assert [row["args"]["strings"] for row in await rows()] == [
        *([str(n)] for n in range(20)),
        ["a"],
    ]
    words = re.escape('The first conflicting job is of kind sort, with the args {"strings":["a"]}.')
    with pytest.raises(UniqueConflict, match=words):
        await client.insert_many_fast([Sort([]), unique("b"), unique("a")])
    assert len(await rows()) == 21


@dataclass
class OfficialParams:
    """Stands for `riverqueue.InsertManyParams`."""

    args: object
    insert_opts: object = None


async def test_the_official_clients_jobs_with_options_are_inserted(
    client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "riverqueue", ModuleType("riverqueue"))
    monkeypatch.setattr("riverqueue.InsertManyParams", OfficialParams, raising=False)
    jobs: Any = [OfficialParams(Sort(["a"]), InsertOpts(queue="slow")), OfficialParams(Sort([]))]
    await client.insert_many(jobs)
    assert await client.insert_many_fast([*jobs, Sort(["c"])]) == 3
    assert [row["queue"] for row in await rows()].count("slow") == 2


class Recorder(Plugin):
    """Notes what it is called for."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    async def insert_begin(self, request: InsertRequest) -> None:
        await asyncio.sleep(0)
        self.notes.append(f"{self.name} begin {request.kind}")

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        self.notes.append(f"{self.name} before {len(requests)}")
        results = await do_inner(requests)
        self.notes.append(f"{self.name} after {len(results)}")
        return results


NOTES: list[str] = []


@dataclass
class Noted:
    kind: ClassVar[str] = "noted"
    plugins: ClassVar[Sequence[Plugin]] = [Recorder("args", NOTES)]


async def test_middleware_is_wrapped_around_hooks(driver: Driver, rows: Rows) -> None:
    NOTES.clear()
    config = ClientConfig(
        hooks=[Recorder("hook", NOTES)],
        middleware=[Recorder("middleware", NOTES)],
        plugins=[Recorder("plugin", NOTES)],
    )
    results = await Client(driver, config).insert_many([Noted(), Sort([]), Noted()])

    assert NOTES == [
        "plugin before 3",
        "middleware before 3",
        "args before 3",
        "plugin begin noted",
        "hook begin noted",
        "args begin noted",
        "plugin begin sort",
        "hook begin sort",
        "plugin begin noted",
        "hook begin noted",
        "args begin noted",
        "args after 3",
        "middleware after 3",
        "plugin after 3",
    ]
    assert [result.job.id for result in results] == [row["id"] for row in await rows()]


async def test_plugins_of_the_args_work_alone(client: Client) -> None:
    NOTES.clear()
    await client.insert(Noted())
    assert NOTES == ["args before 1", "args begin noted", "args after 1"]

    NOTES.clear()
    assert await client.insert_many_fast([Noted(), Noted()]) == 2
    assert NOTES == ["args before 2", "args begin noted", "args begin noted", "args after 0"]


class Changing(Hook):
    def insert_begin(self, request: InsertRequest) -> None:
        request.metadata["seen"] = True
        request.queue = "changed"
        if request.encoded_args == '{"strings":["no"]}':
            raise PermissionError("not this one")


async def test_a_hook_may_change_a_job_or_end_the_insert(driver: Driver, rows: Rows) -> None:
    client = Client(driver, ClientConfig(hooks=[Changing()]))
    await client.insert(Sort(["yes"]))
    with pytest.raises(PermissionError):
        await client.insert_many([Sort(["yes"]), Sort(["no"])])

    [row] = await rows()
    assert row["metadata"] == {"seen": True}
    assert row["queue"] == "changed"


class Choosing(Middleware):
    """Inserts only some."""

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        return await do_inner([request for request in requests if "keep" in request.encoded_args])


async def test_a_middleware_may_leave_jobs_out(driver: Driver, rows: Rows) -> None:
    client = Client(driver, ClientConfig(middleware=[Choosing()]))

    assert len(await client.insert_many([Sort(["keep"]), Sort(["drop"])])) == 1
    assert await client.insert_many([Sort(["drop"])]) == []
    with pytest.raises(InsertError, match="0 results for one job"):
        await client.insert(Sort(["drop"]))
    assert len(await rows()) == 1


async def test_requests_are_inserted_as_they_were_changed(client: Client, rows: Rows) -> None:
    planned = datetime.now(UTC) + timedelta(milliseconds=50)
    request = client.prepare_insert(Sort([]), InsertOpts(unique_opts=UniqueOpts(by_period=60)))
    request.scheduled_at = planned
    request.metadata["periodic"] = True
    [result] = await client.insert_requests([request])

    [row] = await rows()
    assert (row["state"], row["scheduled_at"], row["metadata"]) == (
        "available",
        planned,
        {"periodic": True},
    )
    assert result.job.id == row["id"]


@pytest.fixture
async def heard(database_url: str) -> AsyncIterator[Callable[[], Awaitable[list[Any]]]]:
    """Yield the payloads on `river_insert` up to now."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as listening:
        await listening.execute('listen "public.river_insert"')

        async def read() -> list[Any]:
            async with await AsyncConnection.connect(database_url, autocommit=True) as sending:
                await sending.execute("select pg_notify('public.river_insert', 'end')")
            payloads = []
            async for notification in listening.notifies(timeout=30):
                if notification.payload == "end":
                    break
                payloads.append(json.loads(notification.payload))
            return payloads

        yield read


SLOW = ClientConfig(fetch_cooldown=timedelta(minutes=1), fetch_poll_interval=timedelta(minutes=2))


async def test_workers_are_woken_once_for_each_queue(
    driver: Driver, heard: Callable[[], Awaitable[list[Any]]]
) -> None:
    client = Client(driver, limits=EngineLimits(insert_rows=2))
    params = [
        InsertManyParams(Sort([]), InsertOpts(queue=queue, scheduled_at=at))
        for queue, at in [
            *((name, None) for name in "aba"),
            ("later", datetime.now(UTC)),
            ("b", None),
        ]
    ]
    await client.insert_many(params)
    assert await heard() == [{"queue": "a"}, {"queue": "b"}]


async def test_workers_are_not_woken_all_the_time(
    driver: Driver, heard: Callable[[], Awaitable[list[Any]]]
) -> None:
    client = Client(driver, SLOW)
    for _ in range(3):
        await client.insert(Sort([]))
        await client.insert_many_fast([Sort([])])
    assert await heard() == [{"queue": "default"}]

    async with driver.transaction() as tx:
        await client.notify_inserts(tx, ["default", "other", "other"])
    assert await heard() == [{"queue": "other"}]


async def test_a_wake_up_that_failed_is_not_counted(
    driver: Driver, heard: Callable[[], Awaitable[list[Any]]]
) -> None:
    client = Client(driver, SLOW)
    await client.insert_many_fast([replace(unique("a"), insert_opts=replace(UNIQUE, queue="once"))])
    with pytest.raises(UniqueConflict):
        await client.insert_many_fast([unique("a")])
    await client.insert(Sort([]))
    assert await heard() == [{"queue": "once"}, {"queue": "default"}]
