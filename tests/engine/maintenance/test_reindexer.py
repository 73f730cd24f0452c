"""Indexes are rebuilt by schedule; what a broken rebuild leaves behind is seen, and cleaned up on a
stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.engine.config import NO_LIMIT, ClientConfig
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.reindexer import INDEX_NAMES, Reindexer
from riverui.engine.lead.maintenance.service import ServiceContext
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.ticking import Ticking, eventually

ONE = "river_job_kind"


async def files(connection: AsyncConnection[Any]) -> dict[str, int]:
    """Each index and the number of its file, which a rebuild changes."""
    found = await connection.execute(
        "select relname, relfilenode from pg_class where relkind = 'i' and relname like"
        " 'river_job%'"
    )
    return {row["relname"]: row["relfilenode"] for row in await found.fetchall()}


@asynccontextmanager
async def table_in_use(url: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Yield a transaction that a rebuild has to wait for."""
    async with await AsyncConnection.connect(url) as other:
        await other.execute("lock table river_job in row exclusive mode")
        yield other


async def test_river_s_indexes_are_rebuilt(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = await files(connection)
    assert await Reindexer(*service_parts()).run_once() == list(INDEX_NAMES)
    after = await files(connection)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == set(INDEX_NAMES)
    assert not caplog.text


async def test_only_what_is_configured_is_rebuilt(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await connection.execute('create index "Own ""index" on river_job (queue)')
    before = await files(connection)
    names = [ONE, "not_there", 'Own "index', "nor_there"]
    settings = {"reindexer_index_names": names, "reindexer_timeout": NO_LIMIT}
    assert await Reindexer(*service_parts(**settings)).run_once() == [ONE, 'Own "index']
    after = await files(connection)
    assert {name for name in after if after[name] != before[name]} == {ONE}
    assert "index not found: not_there, nor_there" in caplog.text


async def test_an_empty_list_rebuilds_nothing(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    before = await files(connection)
    assert await Reindexer(*service_parts(reindexer_index_names=[])).run_once() == []
    assert await files(connection) == before


@pytest.mark.parametrize(
    "artefact", [f"{ONE}_ccnew", f"{ONE}_ccold", f"{ONE}_ccnew3", f"{ONE}_ccold12"]
)
async def test_an_index_whose_last_rebuild_broke_off_is_left_out(
    artefact: str,
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await connection.execute(f"create index {artefact} on river_job (kind)".encode())
    parts = service_parts(reindexer_index_names=[ONE, "river_job_pkey"])
    assert await Reindexer(*parts).run_once() == ["river_job_pkey"]
    assert f"drop {artefact}" in caplog.text
    assert artefact in await files(connection)


async def test_other_names_are_no_artefacts(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for name in (f"{ONE}_ccnew_x", f"{ONE}_ccnewer", f"{ONE}s_ccnew", "river_job_ki_ccnew"):
        await connection.execute(f"create index {name} on river_job (kind)".encode())
    assert await Reindexer(*service_parts(reindexer_index_names=[ONE])).run_once() == [ONE]


async def test_the_artefact_of_a_long_name_is_known_though_postgres_cuts_it(
    service_parts: NewServiceParts, connection: AsyncConnection[Any], database_url: str
) -> None:
    name = "river_job_" + "n" * 53
    await connection.execute(f"create index {name} on river_job (kind)".encode())
    settings = {"reindexer_index_names": [name], "reindexer_timeout": timedelta(milliseconds=100)}
    async with table_in_use(database_url):
        assert await Reindexer(*service_parts(**settings)).run_once() == []
    (artefact,) = [other for other in await files(connection) if "_ccnew" in other]
    assert not artefact.startswith(name)
    assert await Reindexer(*service_parts(reindexer_index_names=[name])).run_once() == []


async def test_a_rebuild_has_a_time_limit_and_the_next_index_its_turn(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"reindexer_timeout": timedelta(milliseconds=100)}
    async with table_in_use(database_url):
        names = [ONE, "river_queue_pkey"]
        parts = service_parts(reindexer_index_names=names, **settings)
        assert await Reindexer(*parts).run_once() == ["river_queue_pkey"]
    assert f"{ONE} could not be rebuilt" in caplog.text
    assert f"{ONE}_ccnew" in await files(connection)


async def test_a_stop_in_the_middle_leaves_nothing_behind(
    service_parts: NewServiceParts, connection: AsyncConnection[Any], database_url: str
) -> None:
    before = await files(connection)
    async with table_in_use(database_url) as other:
        task = asyncio.create_task(
            Reindexer(*service_parts(reindexer_index_names=[ONE])).run_once()
        )

        async def under_way() -> bool:
            return f"{ONE}_ccnew" in await files(connection)

        await eventually(under_way)
        task.cancel()
        await asyncio.sleep(0)
        await other.rollback()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await files(connection)).keys() == before.keys()
    assert await Reindexer(*service_parts(reindexer_index_names=[ONE])).run_once() == [ONE]


class Reporting(Reindexer):
    """Notes the times of its rounds."""

    def __init__(self, context: ServiceContext, config: ClientConfig, clock: Ticking) -> None:
        super().__init__(context, config)
        self.clock = clock
        self.rounds: list[datetime] = []

    async def run_once(self) -> list[str]:
        self.rounds.append(self.clock.now())
        if len(self.rounds) == 1:
            raise RuntimeError("the indexes cannot be listed")
        return []


async def test_rounds_come_at_midnight_even_after_one_that_failed(
    service_parts: NewServiceParts,
    clock: Ticking,
    term: LeaderTerm,
    caplog: pytest.LogCaptureFixture,
) -> None:
    term.trusted_until = 1e9
    reindexer = Reporting(*service_parts(), clock)
    midnight = (clock.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    task = asyncio.create_task(reindexer.run(term))
    while len(reindexer.rounds) < 3:
        await eventually(lambda: clock.sleeping or len(reindexer.rounds) == 3)
        assert not clock.sleeping or clock.soonest <= 60.1
        clock.advance(clock.soonest)
        await asyncio.sleep(0)
    assert reindexer.rounds == [midnight + timedelta(days=number) for number in range(3)]
    assert caplog.text.count("this round failed") == 1
    # A machine that slept for a week has one night to make up for, not seven.
    await eventually(lambda: clock.sleeping)
    clock.advance(7.5 * 86400)
    await eventually(lambda: clock.sleeping)
    assert len(reindexer.rounds) == 4
    task.cancel()


async def test_a_broken_schedule_keeps_nothing_else_from_running(
    service_parts: NewServiceParts,
    clock: Ticking,
    term: LeaderTerm,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def next(self, after: datetime) -> datetime:
            return after

    reindexer = Reporting(*service_parts(reindexer_schedule=Broken()), clock)
    task = asyncio.create_task(reindexer.run(term))
    await eventually(lambda: clock.sleeping)
    assert "its schedule failed" in caplog.text
    assert not reindexer.rounds
    task.cancel()
