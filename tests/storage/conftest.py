"""What the conformance tests need besides a driver: ways to put rows in and to look at them."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.jobs import JobListRow
from riverui.storage.interface import Driver
from riverui.storage.params import JobCursor, JobFilter, JobListParams, JobOrder, JobPage
from tests import factory


class Make:
    """Puts rows into River's tables behind the driver's back."""

    def __init__(self, connection: AsyncConnection[DictRow]) -> None:
        self.connection = connection

    async def job(self, state: str = "available", **columns: Any) -> int:
        """A job; see factory.job."""
        return await factory.job(self.connection, state, **columns)

    async def job_in(self, schema: str) -> int:
        """A plain job in another schema, given quoted."""
        statement = f"insert into {schema}.river_job (kind, args) values ('test_kind', '{{}}') returning id"
        (row,) = await self.rows(statement)
        return int(row["id"])

    async def queue(self, name: str = "default", **columns: Any) -> str:
        """A queue; see factory.queue."""
        return await factory.queue(self.connection, name, **columns)

    async def leader(self, leader_id: str = factory.WORKER, **columns: Any) -> str:
        """A leader; see factory.leader."""
        return await factory.leader(self.connection, leader_id, **columns)

    async def row(self, job_id: int) -> DictRow:
        """A job's columns as they stand in the database."""
        cursor = await self.connection.execute("select * from river_job where id = %s", [job_id])
        row = await cursor.fetchone()
        assert row is not None
        return row

    async def notify(self, topic: str, payload: str) -> None:
        """Sends a notification on River's channel for a topic."""
        await self.connection.execute("select pg_notify(current_schema() || '.' || %s, %s)", [topic, payload])

    async def rows(self, query: str) -> list[DictRow]:
        """Whatever a query gives."""
        return await (await self.connection.execute(query.encode())).fetchall()


@pytest.fixture
async def make(connection: AsyncConnection[DictRow]) -> Make:
    """Puts rows into this test's database."""
    return Make(connection)


async def one_page(driver: Driver, **params: Any) -> JobPage:
    """One page; `states` and `terms` may be given instead of a filter."""
    chosen = JobFilter(states=tuple(params.pop("states", ())), terms=tuple(params.pop("terms", ())))
    async with driver.reading() as executor:
        return await executor.job_list(JobListParams(filter=chosen, **params))


async def all_pages(driver: Driver, **params: Any) -> list[JobListRow]:
    """Every row, page after page, going on wherever a search stopped."""
    rows: list[JobListRow] = []
    by_id = params.get("order", JobOrder.ID_DESC) in (JobOrder.ID, JobOrder.ID_DESC)
    cursor: JobCursor | None = None
    for _ in range(1000):
        page = await one_page(driver, **params, cursor=cursor)
        rows += page.rows
        if page.searched is not None:
            cursor = page.searched.resume
        elif page.more:
            cursor = JobCursor(at=None if by_id else page.rows[-1].matters_at, id=page.rows[-1].id)
        else:
            return rows
    raise AssertionError("the list never ends")
