"""What only SQLite has to prove: its one writer, the caller's own connections, other processes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from riverui import Client, ClientConfig, InsertOpts, JobListParams, SyncClient, UniqueOpts, Where
from riverui.domain.jobs import JobState, state_bits
from riverui.errors import (
    BadRequest,
    ConfigError,
    DatabaseError,
    DatabaseUnavailable,
    LockTimeout,
    QueryTimeout,
    ReadOnlyDatabase,
    SchemaMissing,
    UniqueConflict,
)
from riverui.storage.connect import connect
from riverui.storage.interface import LISTENING, MIGRATIONS, Driver
from riverui.storage.interface.engine_params import JobInsertParams, JobSelectParams
from riverui.storage.migrations import migrate, migration_status, validate
from riverui.storage.sqlite.json_binary import json_of
from riverui.testing import MemoryDatabase

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
UNIQUE = JobInsertParams(
    kind="mail",
    args="{}",
    created_at=NOW,
    scheduled_at=NOW,
    unique_key=bytes(32),
    unique_states=state_bits([JobState.AVAILABLE]),
)


@dataclass
class Mail:
    """The args of the jobs."""

    kind: ClassVar[str] = "mail"
    to: str = "ann"


@pytest.fixture
def database() -> MemoryDatabase:
    """Return an empty database."""
    return MemoryDatabase()


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """Return the URL of a file with River's tables."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    driver = connect(url)
    await migrate(driver)
    await driver.close()
    return url


async def kinds(driver: Driver) -> list[str]:
    """Return the kinds of all jobs."""
    async with driver.reading() as executor:
        return list(await executor.jobs.kind_list())


async def test_one_transaction_writes_at_a_time(database: MemoryDatabase) -> None:
    client = Client(database)
    async with database.transaction() as transaction:
        await transaction.jobs.insert_many([UNIQUE])
        other = asyncio.create_task(client.insert(Mail()))
        await asyncio.sleep(0.01)
        assert not other.done()
        # Readers do not wait.
        assert await kinds(database) == []
    await other
    assert len((await client.job_list()).jobs) == 2


async def test_who_waits_too_long_is_told() -> None:
    impatient = MemoryDatabase(lock_timeout=timedelta(milliseconds=5))
    async with impatient.transaction() as transaction:
        await transaction.jobs.insert_many([UNIQUE])
        with pytest.raises(LockTimeout, match="wrote to the SQLite file for too long"):
            await Client(impatient).insert(Mail())


async def test_a_statement_that_fails_changes_nothing(database: MemoryDatabase) -> None:
    async with database.transaction() as transaction:
        await transaction.jobs.insert_many([UNIQUE])
        with pytest.raises(UniqueConflict):
            await transaction.jobs.insert_many_fast([UNIQUE._replace(unique_key=b"2"), UNIQUE])
        await transaction.jobs.insert_many([UNIQUE._replace(kind="kept", unique_key=None)])
    assert len((await Client(database).job_list()).jobs) == 2


async def notify_and_fail(database: Driver) -> None:
    """Notify in a transaction that is rolled back."""
    async with database.transaction() as transaction:
        await transaction.notify_many("river_insert", ["lost"])
        raise ZeroDivisionError


async def test_notifications_come_with_the_commit(url: str) -> None:
    database, other = connect(url), connect(url)
    for driver in (database, other):
        listener = await LISTENING.on(driver).listener()
        heard = listener.notifications("river_insert")
        await listener.listen("river_insert")
        with pytest.raises(ZeroDivisionError):
            await notify_and_fail(database)
        async with database.transaction() as transaction:
            await transaction.notify_many("river_insert", ["once"])
            await transaction.notify_many("other", ["unheard"])
            await transaction.notify_many("river_insert", ["again"])
        assert [await anext(heard), await anext(heard)] == [
            ("river_insert", "once"),
            ("river_insert", "again"),
        ]
        await listener.close()
        await listener.close()
        assert await anext(heard, None) is None


async def test_its_clock_may_be_given() -> None:
    database = MemoryDatabase(clock=lambda: NOW)
    client = Client(database, clock=lambda: NOW)
    row = (await client.insert(Mail())).job
    assert row.scheduled_at == NOW
    assert (await client.job_cancel(row.id)).finalized_at == NOW


async def test_what_postgres_refuses_is_refused(database: MemoryDatabase) -> None:
    async with database.autocommit() as executor:
        for args in ("{", '{"a": "\\u0000"}', '{"a": "\\ud800"}'):
            with pytest.raises(BadRequest):
                await executor.jobs.insert_many([UNIQUE._replace(args=args)])
        assert (await executor.jobs.count_exact(JobState.AVAILABLE)).value == 0


async def test_what_it_cannot_do_is_told_in_words(database: MemoryDatabase, tmp_path: Path) -> None:
    client = Client(database)
    with pytest.raises(TypeError, match=r"a sqlite3\.Connection, a SQLAlchemy Session"):
        await client.insert_tx(object(), Mail())
    with pytest.raises(TypeError, match=r"a sqlite3\.Connection, a SQLAlchemy Session"):
        SyncClient(database).insert_tx(object(), Mail())
    with pytest.raises(ConfigError, match="schema"):
        Client(database, ClientConfig(schema="river"))
    with pytest.raises(ConfigError, match="no schemas"):
        connect("sqlite:///jobs.db", schema="river")
    with pytest.raises(ConfigError, match="no parameters"):
        connect("sqlite:///jobs.db?mode=ro")
    with pytest.raises(SchemaMissing, match=r"no file .*absent\.db: run `riverui migrate-up`"):
        await Client(f"sqlite:///{tmp_path}/absent.db").job_list()
    assert not (tmp_path / "absent.db").exists()
    (tmp_path / "empty.db").touch()
    with pytest.raises(SchemaMissing, match="migrate-up"):
        await Client(f"sqlite:///{tmp_path}/empty.db").job_list()
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        await Client(f"sqlite:///{tmp_path}").job_list()
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        await migrate(connect(f"sqlite:///{tmp_path}/no/folder.db"))
    (tmp_path / "text.db").write_text("This is not a database, but a text.\n" * 100)
    with pytest.raises(DatabaseUnavailable, match="not a SQLite database"):
        await Client(f"sqlite:///{tmp_path}/text.db").job_list()


async def test_conditions_are_in_the_sql_of_sqlite(database: MemoryDatabase) -> None:
    client = Client(database)
    await client.insert_many([Mail("ann"), Mail("bob")])
    where = Where("json(args) ->> 'to' = @to", {"to": "bob"})
    if sqlite3.sqlite_version_info < (3, 45):
        where = Where("args ->> 'to' = @to", {"to": "bob"})
    found = await client.job_list(JobListParams(where=where))
    assert [row.args_dict for row in found.jobs] == [{"to": "bob"}]


async def test_a_long_read_is_stopped(database: MemoryDatabase) -> None:
    slow = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    async with database.reading(timeout=timedelta(milliseconds=20)) as executor:
        with pytest.raises(QueryTimeout):
            await executor.jobs.row_list(JobSelectParams(where=(Where(f"id = ({slow})"),)))


def test_synchronous_clients_in_many_threads_share_it(database: MemoryDatabase) -> None:
    once = InsertOpts(unique_opts=UniqueOpts(by_args=True))

    def insert(number: int) -> bool:
        with SyncClient(database) as client:
            client.insert(Mail(f"each {number}"))
            return client.insert(Mail("once"), once).unique_skipped_as_duplicate

    with ThreadPoolExecutor(8) as threads:
        skipped = list(threads.map(insert, range(40)))
    assert skipped.count(False) == 1
    client = SyncClient(database)

    def insert_and_fail() -> None:
        with database.sync_transaction() as transaction:
            client.insert_tx(transaction, Mail("lost"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        insert_and_fail()
    with database.sync_transaction() as transaction:
        client.insert_many_tx(transaction, [Mail("kept"), Mail("kept")])
        client.insert_many_fast_tx(transaction, [Mail("fast")])
    assert len(client.job_list(JobListParams(first=100)).jobs) == 44


def test_a_synchronous_client_waits_for_a_job(database: MemoryDatabase) -> None:
    client = SyncClient(database)
    job_id = client.insert(Mail()).job.id
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(client.wait, job_id, timeout=timedelta(seconds=20))
        client.job_cancel(job_id)
        assert waiting.result(20).state is JobState.CANCELLED


async def test_jobs_are_inserted_in_the_callers_transaction(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    own = sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES)
    own.row_factory = sqlite3.Row
    own.execute("create table orders (id integer primary key)")
    once = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    client, sync = Client(url), SyncClient(url)
    for commits in (False, True):
        own.execute("insert into orders default values")
        await client.insert_tx(own, Mail("async"), once)
        again = sync.insert_tx(own, Mail("async"), once)
        assert again.unique_skipped_as_duplicate
        assert again.job.created_at.tzinfo is UTC
        assert (await client.job_list()).jobs == []
        own.commit() if commits else own.rollback()
    # A transaction is begun if the caller's was not, and is the caller's to end.
    sync.insert_tx(own, Mail("second"))
    assert own.in_transaction
    assert len((await client.job_list()).jobs) == 1
    own.commit()
    # One that commits each statement has inserted it then.
    each = sqlite3.connect(path, isolation_level=None)
    sync.insert_tx(each, Mail("each"))
    assert len((await client.job_list()).jobs) == 3
    with create_engine(url).connect() as connection, Session(connection) as session:
        sync.insert_tx(session, Mail("third"))
        assert len(sync.job_list().jobs) == 3
        session.commit()
        connection.commit()
    assert len(sync.job_list().jobs) == 4
    own.close()
    each.close()


async def test_a_callers_transaction_that_has_read_older_rows_fails_at_once(url: str) -> None:
    client = SyncClient(url)
    client.insert(Mail())
    own = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    own.execute("begin")
    own.execute("select count(*) from river_job").fetchall()
    client.insert(Mail("bob"))
    with pytest.raises(DatabaseError, match="use BEGIN IMMEDIATE"):
        client.insert_tx(own, Mail("late"))
    own.close()


async def test_a_file_that_cannot_be_written_is_told(url: str) -> None:
    driver = connect(url)
    async with driver.reading() as executor:
        with pytest.raises(ReadOnlyDatabase):
            await executor.jobs.insert_many([UNIQUE])


async def test_migrations_go_up_and_down(tmp_path: Path) -> None:
    driver = connect(f"sqlite:///{tmp_path}/jobs.db")
    assert len(await validate(driver)) == len(await migrate(driver)) == 8
    temporary = MemoryDatabase()
    assert [applied for _, _, applied in await migration_status(temporary)] == [True] * 8
    await Client(driver).insert(Mail())
    for version in range(7, 5, -1):
        await migrate(driver, "down")
        assert await validate(driver) == list(range(version + 1, 9))
    await migrate(driver)
    assert [row.args_dict for row in (await Client(driver).job_list()).jobs] == [{"to": "ann"}]
    await migrate(driver, "down", target_version=-1)
    async with MIGRATIONS.on(driver).migrating() as migrations:
        assert await migrations.versions("main") == []
    await migrate(driver)


def test_jsonb_is_read() -> None:
    for blob, text in (
        ("0c", "{}"),
        ("0b", "[]"),
        ("4c17611331", '{"a":1}'),
        ("ab35312e350001022a7122", '[1.5,null,true,false,"q\\""]'),
        (f"c70d{'61' * 13}", f'"{"a" * 13}"'),
    ):
        assert json_of(bytes.fromhex(blob)) == text
    for blob in ("", "17", "7c17", "0f"):
        with pytest.raises((ValueError, IndexError)):
            json_of(bytes.fromhex(blob))


_DIES = """
import os, signal, sys
from riverui import SyncClient, JsonArgs
client = SyncClient(sys.argv[1])
driver = client.driver
print(client.insert(JsonArgs("kept", {})).job.id, flush=True)
import sqlite3
own = sqlite3.connect(sys.argv[1].removeprefix("sqlite:///"))
client.insert_tx(own, JsonArgs("lost", {}))
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_what_was_committed_survives_the_process(url: str) -> None:
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", _DIES, url], capture_output=True, check=False
    )
    assert died.stdout.strip() == b"1", died.stderr.decode()
    assert await kinds(connect(url)) == ["kept"]
