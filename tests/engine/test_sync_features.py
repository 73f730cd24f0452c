"""Features work in the client without asyncio as in the asyncio client: jobs that wait for a job
are moved with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection, sql

from riverui import InsertManyParams, InsertOpts, SequenceOpts, SyncClient
from riverui.features.workflows.waits.domain import SignalTerm, Wait
from tests.engine.test_sync_admin import (
    Call,
    asking,
    asyncio_client,
    asyncio_client_tx,
    by_client,
    by_guest,
    comparable,
    compare,
    prepared,  # noqa: F401  # a fixture
)

OF_A_KIND = InsertOpts(sequence=SequenceOpts(continue_on_cancelled=True))


@dataclass
class Step:
    kind: ClassVar[str] = "step"
    name: str


def chain(id: str) -> list[InsertManyParams]:
    """Return a workflow of three jobs, each of which waits for the one before."""
    flow = SyncClient().workflows.new("chain", id=id)
    flow.add("a", Step("a"))
    flow.add("b", Step("b"), deps=["a"])
    flow.add("c", Step("c"), deps=["b"])
    return list(flow.prepare())


def waiting(id: str) -> list[InsertManyParams]:
    """Return a workflow of a job that waits for a signal."""
    flow = SyncClient().workflows.new("waiting", id=id)
    flow.add("w", Step("w"), wait=Wait("go", [SignalTerm("go", "go", "payload.amount > 2", "go")]))
    return list(flow.prepare())


async def story(call: Call) -> list[Any]:
    """Do what moves other jobs; return all answers."""
    answers, ask = asking(call)
    for number in range(3):
        await ask("insert_many", chain(f"w{number}"))
    await ask("job_cancel", 1)
    assert (await ask("job_get", 3)).state == "cancelled"
    await ask("job_delete", 4)
    assert (await ask("job_get", 6)).state == "cancelled"
    await ask("job_cancel", 8)
    for number in range(3):
        await ask("workflows.retry", f"w{number}")
        await ask("workflows.cancel", f"w{number}")
        await ask("workflows.retry", f"w{number}", "failed_only", reset_history=True)
    await ask("job_retry", 2)
    await ask("workflows.cancel", "nowhere")
    await ask("insert_many", waiting("s"))
    await ask("workflows.signal", "s", "go", {"amount": 1}, idempotency_key="k")
    await ask("workflows.signal", "s", "go", {"amount": 1}, idempotency_key="k")
    await ask("workflows.signal", "s", "go", {"amount": 2}, idempotency_key="k")
    await ask("insert_many", [InsertManyParams(Step(name), OF_A_KIND) for name in "abcd"])
    first = 11
    assert (await ask("job_get", first + 1)).state == "pending"
    await ask("job_cancel", first)
    assert (await ask("job_get", first + 1)).state == "available"
    await ask("job_delete", first + 1)
    assert (await ask("job_get", first + 2)).state == "available"
    await ask("job_retry", first)
    await ask("insert", Step("e"), OF_A_KIND)
    return answers


async def tables(connection: AsyncConnection[Any]) -> list[str]:
    """Return the names of all tables of River's and riverui's rows."""
    cursor = await connection.execute(
        "select string_agg(relname, ' ' order by relname) as names from pg_class"
        " where relkind = 'r' and relname similar to 'riverui_%|river_job|river_queue'"
    )
    (row,) = await cursor.fetchall()
    return str(row["names"]).split()


async def clean(connection: AsyncConnection[Any]) -> None:
    """Empty all tables that there are."""
    every = sql.SQL(", ").join(map(sql.Identifier, await tables(connection)))
    await connection.execute(sql.SQL("truncate {} restart identity").format(every))


async def stored(connection: AsyncConnection[Any]) -> list[Any]:
    """Return what is in the tables."""
    rows = []
    for name in await tables(connection):
        table = sql.Identifier(name)
        cursor = await connection.execute(
            sql.SQL("select to_jsonb(t) as row from {} t order by to_jsonb(t)::text").format(table)
        )
        for row in await cursor.fetchall():
            rows.append((name, timeless(row["row"])))
    return sorted(rows, key=str)


def timeless(value: Any) -> Any:
    """Return stored JSON without its times."""
    if isinstance(value, dict):
        return {
            key: "a time" if key.endswith("_at") and each else timeless(each)
            for key, each in value.items()
        }
    return [timeless(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("expected", "by"),
    [
        *((asyncio_client, by_client(kind)) for kind in ("url", "engine psycopg2")),
        *(
            (asyncio_client_tx, by_guest(kind))
            for kind in ("psycopg", "django", "sqlalchemy session psycopg2")
        ),
    ],
)
async def test_the_same_story(
    expected: Any,
    by: Any,
    prepared: AsyncConnection[Any],  # noqa: F811
    database_url: str,
) -> None:
    await compare(database_url, prepared, expected, by, story=story, seed=clean, stored=stored)


async def test_how_far_a_wait_is(
    prepared: AsyncConnection[Any],  # noqa: F811
    database_url: str,
) -> None:
    with SyncClient(database_url) as client:
        client.insert_many(waiting("s"))
        client.workflows.signal("s", "go", {"amount": 1})
        async with asyncio_client(database_url) as call:
            for name, args in (
                ("workflows.diagnose_wait", ("s", "w")),
                ("workflows.signal_list", ("s", "w")),
                ("workflows.signal_latest", ("s", "w", "go")),
            ):
                ours, theirs = attrgetter(name)(client)(*args), await call(name, *args)
                assert comparable(ours) == comparable(theirs)
        assert not client.workflows.diagnose_wait("s", "w").results["go"].satisfied
