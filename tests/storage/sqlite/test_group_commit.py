"""Tasks that write at the same time share commits, but neither errors nor time limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from riverui import Client, ClientConfig, JsonArgs
from riverui.errors import BadRequest, LockTimeout, QueryTimeout
from riverui.storage.connect import connect
from riverui.storage.interface.engine_params import JobInsertParams
from riverui.storage.migrations import migrate
from riverui.storage.sqlite.file import SqliteFile
from riverui.storage.sqlite.group_commit import GroupCommits, InGroups
from riverui.storage.sqlite.migrations import create_tables
from riverui.storage.sqlite.scopes import Limits
from riverui.storage.sqlite.waiting import InLoop
from riverui.testing import MemoryDatabase

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
_CLOCK = partial(datetime.now, UTC)
_SLOW = (
    "insert into river_queue (name, created_at, updated_at, metadata) with recursive n (i) as"
    " (select 1 union all select i + 1 from n where i < 10000000)"
    " select 'slow' || i, '', '', '' from n"
)
_QUICK = "insert into river_queue (name, created_at, updated_at, metadata) values (?, '', '', '')"


def commits(file: Path) -> Iterator[int]:
    """Yield the number of each frame with which a commit ends, of a file's log."""
    log = file.with_name(f"{file.name}-wal").read_bytes()
    size = int.from_bytes(log[8:12], "big")
    for place in range(32, len(log), 24 + size):
        # The pages of the database after the commit; 0 if none ends here.
        if int.from_bytes(log[place + 4 : place + 8], "big"):
            yield place


async def test_inserts_at_the_same_time_are_committed_together(tmp_path: Path) -> None:
    driver = connect(f"sqlite:///{tmp_path}/jobs.db")
    await migrate(driver)
    client = Client(driver, ClientConfig())
    await client.insert(JsonArgs("mail", {}))
    before = len(list(commits(tmp_path / "jobs.db")))
    inserted = await asyncio.gather(*(client.insert(JsonArgs("mail", {})) for _ in range(100)))
    assert len({result.job.id for result in inserted}) == 100
    assert len(list(commits(tmp_path / "jobs.db"))) - before < 50
    await driver.close()


async def test_an_error_is_its_own_callers() -> None:
    database = MemoryDatabase()

    async def insert(kind: str) -> None:
        async with database.autocommit() as executor:
            params = JobInsertParams(kind=kind, args="{}", created_at=NOW, scheduled_at=NOW)
            await executor.jobs.insert_many([params])

    kinds = [f"kind_{n}" if n % 5 else "nul\0" for n in range(50)]
    ended = await asyncio.gather(*map(insert, kinds), return_exceptions=True)
    assert [type(error) for error in ended] == [
        type(None) if n % 5 else BadRequest for n in range(50)
    ]
    async with database.reading() as executor:
        assert set(await executor.jobs.kind_list()) == {kind for kind in kinds if "\0" not in kind}


async def test_a_statement_that_is_stopped_takes_no_others_with_it() -> None:
    """SQLite undoes the whole transaction then."""
    file = SqliteFile(None, create_tables)
    group, waiting = GroupCommits(file), InLoop(file.threads)

    async def write(sql: str, *values: str, seconds: float = 10) -> None:
        scope = InGroups(group, _CLOCK, waiting, Limits(10, seconds))
        await scope.call(lambda: scope.connection.execute(sql, values), writes=True)

    stopped = asyncio.create_task(write(_SLOW, seconds=0.1))
    names = [f"quick_{n}" for n in range(20)]
    more = asyncio.gather(
        *(write(_QUICK, name) for name in names[:10]),
        write(_SLOW, seconds=0.1),
        *(write(_QUICK, name) for name in names[10:]),
        return_exceptions=True,
    )
    with pytest.raises(QueryTimeout):
        await stopped
    ended = await more
    assert isinstance(ended.pop(10), QueryTimeout)
    assert ended == [None] * 20
    connection = file.take()
    assert connection.execute("select name from river_queue order by rowid") == [
        (name,) for name in names
    ]
    connection.raw.close()


async def test_a_cancelled_task_that_waits_writes_nothing() -> None:
    database = MemoryDatabase(lock_timeout=timedelta(seconds=10))
    client = Client(database)
    async with database.transaction() as executor:
        await executor.jobs.insert_many([])
        kept, cancelled = (
            asyncio.create_task(client.insert(JsonArgs(kind, {}))) for kind in ("kept", "cancelled")
        )
        await executor.ping()
        cancelled.cancel()
        await executor.ping()
    await kept
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    async with database.reading() as reading:
        assert await reading.jobs.kind_list() == ["kept"]


async def test_all_are_told_that_another_transaction_writes_for_too_long() -> None:
    database = MemoryDatabase(lock_timeout=timedelta(milliseconds=50))
    client = Client(database)
    async with database.transaction() as executor:
        await executor.jobs.insert_many([])
        ended = await asyncio.gather(
            *(client.insert(JsonArgs("mail", {})) for _ in range(5)), return_exceptions=True
        )
    assert [type(error) for error in ended] == [LockTimeout] * 5
