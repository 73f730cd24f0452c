"""Starts operations on many jobs, and waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
from psycopg import AsyncConnection

from riverui.actions.job_verbs import RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.features.operations.runner import Operations
from riverui.features.operations.store import Operation
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, JobFilter, JobOrder
from riverui.web.search import query

RETRYABLE = JobFilter(states=(JobState.RETRYABLE,))


class _WithoutTables:
    """A driver whose executors do not see riverui's own tables."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    @asynccontextmanager
    async def reading(self, **given: Any) -> AsyncIterator[Any]:
        async with self._driver.reading(**given) as executor:
            yield _SeesNone(executor)


class _SeesNone:
    """An executor and its statements that does not see these tables."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.sql = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    async def tables(self) -> frozenset[str]:
        return frozenset()


def without_tables(driver: Driver) -> Driver:
    """Return the driver without riverui's own tables: operations are kept in the process."""
    return cast("Driver", _WithoutTables(driver))


async def fill(
    connection: AsyncConnection[Any], number: int, state: str = "retryable", kind: str = "mail"
) -> None:
    """Insert many jobs, due a second after one another, every other with the tag `even`."""
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
    """Return how many jobs are in the state."""
    rows = await connection.execute(
        "select count(*) as n from river_job where state::text = %s", [state]
    )
    row = await rows.fetchone()
    return int(row["n"]) if row else 0


async def start(
    operations: Operations,
    driver: Driver,
    verb: JobVerb = RETRY,
    matching: JobFilter = RETRYABLE,
    **given: Any,
) -> Operation:
    """Start an operation with the id `one`, or what else is given."""
    async with driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
    asked: dict[str, Any] = {
        "id": "one",
        "verb": verb.name,
        "query": query.format(matching),
        "order": JobOrder.TIME,
        "cutoff": cutoff,
        "total": Count(value=7),
        "user": "ada",
        "allowed": verb.right,
    }
    return await operations.start(Operation(**asked | given))


async def idle(operations: Operations) -> None:
    """Wait until these operations work on nothing."""
    while tasks := set(operations.held.values()):
        done, _ = await asyncio.wait(tasks, timeout=60)
        assert done


async def ended(operations: Operations, id: str = "one") -> Operation:
    """Return the operation as it is once its own dashboard has ended its work."""
    await idle(operations)
    found = await operations.get(id)
    assert found is not None
    return found


async def reach(
    operations: Operations, fits: Callable[[Operation], object], *, id: str = "one"
) -> Operation:
    """Return the operation once it is as wanted, as one dashboard sees it."""
    async with asyncio.timeout(30):
        while True:
            found = await operations.get(id)
            if found is not None and fits(found):
                return found
            await asyncio.sleep(0.02)


async def until_operation(
    client: httpx2.AsyncClient,
    address: str,
    fits: Callable[[dict[str, Any]], object] = lambda found: found["ended_at"],
) -> dict[str, Any]:
    """Return the API's answer about an operation once it fits; by default once it has ended."""
    async with asyncio.timeout(30):
        while True:
            found: dict[str, Any] = (await client.get(address)).json()["operation"]
            if fits(found):
                return found
            await asyncio.sleep(0.01)
