"""Transactions under limits, on our own pool and on a host's; what goes wrong, in words;
recovery.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseMissing,
    DatabaseUnavailable,
    LockTimeout,
    LoginRefused,
    PermissionDenied,
    QueryTimeout,
    SchemaMissing,
    SchemaTooOld,
)
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Field, Op, Term
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.executor import PostgresExecutor
from riverui.storage.postgres.limits import PostgresLimits
from riverui.storage.stores.server import ServerStore
from tests import factory
from tests.conftest import drop_database
from tests.drivers import connect as connect_to
from tests.factory import Make
from tests.storage.conftest import limited, one_page
from tests.storage.tcp_proxy import tcp_proxy

SHORT = timedelta(milliseconds=100)
"""A time limit that is soon over."""

Connect = Callable[..., PostgresDriver]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Make drivers that are closed behind the test, whatever becomes of it."""
    async with AsyncExitStack() as opened:

        def connected(*args: Any, **options: Any) -> PostgresDriver:
            driver = connect_to(*args, **options)
            opened.push_async_callback(driver.close)
            return driver

        yield connected


async def _settings(executor: PostgresExecutor) -> dict[str, str]:
    """Return the session and transaction settings as the server sees them."""
    names = (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "transaction_read_only",
        "application_name",
        "timezone",
    )
    query = "select " + ", ".join(f"current_setting('{name}')" for name in names)
    return dict(zip(names, (await executor.ask("settings", query, ()))[0], strict=True))


@pytest.fixture
async def own(database_url: str) -> AsyncIterator[PostgresDriver]:
    """Return a driver with its own limits, to distinguish them."""
    driver = connect_to(
        database_url,
        page_timeout=timedelta(seconds=1.5),
        action_timeout=timedelta(seconds=7),
        lock_timeout=timedelta(seconds=2),
    )
    yield driver
    await driver.close()


async def test_limits_of_reading(own: PostgresDriver) -> None:
    async with own.reading() as executor:
        found = await _settings(executor)
    assert found == {
        "statement_timeout": "1500ms",
        "lock_timeout": "1500ms",
        "idle_in_transaction_session_timeout": "11500ms",
        "transaction_read_only": "on",
        "application_name": "riverui",
        "timezone": "UTC",
    }
    async with own.reading(timeout=timedelta(seconds=30)) as executor:
        assert (await _settings(executor))["statement_timeout"] == "30s"


async def test_limits_of_writing(own: PostgresDriver) -> None:
    async with own.transaction() as transaction:
        found = await _settings(transaction)
    assert (found["statement_timeout"], found["lock_timeout"]) == ("7s", "2s")
    assert found["transaction_read_only"] == "off"


async def test_slow_query_is_stopped(driver: PostgresDriver) -> None:
    started = time.monotonic()
    with pytest.raises(QueryTimeout):
        async with driver.reading(timeout=SHORT) as executor:
            await executor.ask("slow", "select pg_sleep(10)", ())
    assert time.monotonic() - started < 5
    await driver.ping()


async def test_locks_have_a_timeout(database_url: str, driver: PostgresDriver) -> None:
    async with await AsyncConnection.connect(database_url) as other:
        await other.execute("lock table river_queue")
        with pytest.raises((LockTimeout, QueryTimeout)):
            async with driver.reading(timeout=SHORT) as executor:
                await executor.queues.row_get("x")


async def test_cancelled_request_frees_its_connection(database_url: str, connect: Connect) -> None:
    driver = connect(database_url, max_size=1)

    async def slow() -> None:
        async with driver.reading() as executor:
            await executor.ask("slow", "select pg_sleep(60)", ())

    for _ in range(3):
        task = asyncio.create_task(slow())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await driver.ping()


async def test_first_use_at_the_same_time(database_url: str, connect: Connect) -> None:
    driver = connect(database_url, max_size=3)
    await asyncio.gather(*(driver.ping() for _ in range(20)))
    async with await AsyncConnection.connect(database_url, autocommit=True) as admin:
        cursor = await admin.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'riverui'"
        )
        (opened,) = await cursor.fetchone() or (0,)
    assert 1 <= opened <= 3
    await driver.close()


async def test_all_connections_busy(database_url: str, connect: Connect) -> None:
    driver = connect(database_url, max_size=1, pool_timeout=SHORT)
    async with driver.reading():
        with pytest.raises(DatabaseUnavailable, match="free"):
            await driver.ping()
    await driver.ping()
    await driver.close()


# What goes wrong while connecting


def _url(url: str, **parts: Any) -> str:
    return make_conninfo(**{**conninfo_to_dict(url), **parts})


async def _raises_quickly(driver: Driver, kind: type[DatabaseUnavailable]) -> str:
    started = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as caught:
        await driver.ping()
    assert type(caught.value) is kind
    assert time.monotonic() - started < 4
    return str(caught.value)


async def _recovers(driver: Driver, *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while True:
            with suppress(DatabaseUnavailable):
                return await driver.ping()
            await asyncio.sleep(0.05)


async def test_no_server_listens(tmp_path: Any, connect: Connect) -> None:
    for host, port in (("127.0.0.1", 1), (str(tmp_path), 5432), ("no-such-host.invalid", 5432)):
        driver = connect(_url("", host=host, port=port, dbname="x", user="y"))
        await _raises_quickly(driver, DatabaseUnavailable)
        # The answer is remembered for a moment, so that a crowd does not wait in turns.
        started = time.monotonic()
        results = await asyncio.gather(*(driver.ping() for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {DatabaseUnavailable}
        assert time.monotonic() - started < 4


async def test_no_such_database(admin_url: str, connect: Connect) -> None:
    driver = connect(_url(admin_url, dbname="riverui_no_such_database"))
    await _raises_quickly(driver, DatabaseMissing)


async def test_no_such_user(admin_url: str, connect: Connect) -> None:
    driver = connect(_url(admin_url, user="riverui_no_such_user"))
    words = await _raises_quickly(driver, LoginRefused)
    assert "password" in words


async def test_secrets_are_not_in_messages(admin_url: str, connect: Connect) -> None:
    driver = connect(
        _url(admin_url, user="riverui_no_such_user", password="hunter2", port=1, host="127.0.0.1")
    )
    words = await _raises_quickly(driver, DatabaseUnavailable)
    assert "hunter2" not in words


async def _lost(url: str) -> None:
    """End every other connection to the database."""
    async with await AsyncConnection.connect(url, autocommit=True) as admin:
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname ="
            " current_database() and pid <> pg_backend_pid() and application_name = 'riverui'"
        )
    await asyncio.sleep(0.05)


async def test_lost_idle_connections_are_not_noticed(database_url: str, connect: Connect) -> None:
    driver = connect(database_url, max_size=4)
    for _ in range(3):
        await asyncio.gather(*(driver.ping() for _ in range(4)))
        await _lost(database_url)
        await driver.ping()
        async with driver.transaction() as transaction:
            await transaction.queues.pause("*")


async def test_a_lost_connection_fails_once(database_url: str, connect: Connect) -> None:
    driver = connect(database_url)

    async def use() -> None:
        async with driver.reading() as executor:
            await executor.ask("ping", "select 1", ())
            await _lost(database_url)
            await executor.ask("ping", "select 1", ())

    with pytest.raises(DatabaseUnavailable):
        await use()
    await driver.ping()


async def test_recovery_when_the_database_comes_back(database_url: str, connect: Connect) -> None:
    shown = {"open": False}
    async with tcp_proxy(database_url, let_in=lambda: shown["open"]) as url:
        driver = connect(url)
        await _raises_quickly(driver, DatabaseUnavailable)
        for _ in range(2):
            shown["open"] = True
            await _recovers(driver, seconds=2.5)
            await asyncio.gather(*(driver.ping() for _ in range(8)))
            shown["open"] = False
            await _lost(database_url)
            await _raises_quickly(driver, DatabaseUnavailable)
            await _raises_quickly(driver, DatabaseUnavailable)


@pytest.mark.parametrize("connections", [1, 2])
async def test_a_silent_server_times_out(database_url: str, connections: int) -> None:
    """A frozen host or a network that swallows packets: nothing says that a connection is dead."""
    passing = asyncio.Event()
    async with (
        tcp_proxy(database_url, passing=passing) as url,
        limited(
            url,
            PostgresLimits(grace_seconds=0.3),
            connect_timeout=timedelta(seconds=2),
            max_size=2,
            page_timeout=SHORT,
        ) as driver,
    ):
        passing.set()
        async with AsyncExitStack() as together:
            for _ in range(connections):
                await together.enter_async_context(driver.reading())

        # In the middle of a transaction, and at its beginning on a connection out of the pool.
        async def interrupted() -> None:
            async with driver.reading() as executor:
                passing.clear()
                await executor.ask("ping", "select 1", ())

        started = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            await interrupted()
        assert time.monotonic() - started < 2
        await _raises_quickly(driver, DatabaseUnavailable)

        passing.set()
        await _recovers(driver, seconds=5)


async def test_a_late_cancel_request_is_harmless(database_url: str, connect: Connect) -> None:
    """Such a request comes on its own connection, which may be slower than the statement."""
    open_way = asyncio.Event()
    open_way.set()
    async with tcp_proxy(database_url, begin=open_way.wait) as url:
        driver = connect(url, max_size=1)
        async with driver.autocommit(timeout=SHORT) as executor:
            open_way.clear()
            asyncio.get_running_loop().call_later(0.6, open_way.set)
            await executor.ask("slow", "select pg_sleep(0.3)", ())
        async with driver.autocommit(timeout=timedelta(seconds=5)) as executor:
            await executor.ask("slow", "select pg_sleep(0.6)", ())


# What goes wrong in the database


async def test_no_tables(empty_database_url: str, connect: Connect) -> None:
    driver = connect(empty_database_url)
    for attempt in ("jobs.cutoff", "leader.get"):
        with pytest.raises(SchemaMissing, match="migrate-up") as caught:
            async with driver.reading() as executor:
                await attrgetter(attempt)(executor)()
        assert type(caught.value) is SchemaMissing
    with pytest.raises(SchemaMissing):
        await one_page(driver)
    with pytest.raises(SchemaMissing):
        async with driver.reading() as executor:
            await executor.jobs.count_by_state(cap=10)
    async with driver.reading() as executor:
        assert await ServerStore(executor).migration_list() == []


async def test_no_such_schema(database_url: str, connect: Connect) -> None:
    driver = connect(database_url, schema="nowhere")
    with pytest.raises(SchemaMissing):
        await one_page(driver)
    with pytest.raises(SchemaMissing):
        async with driver.reading() as executor:
            await executor.jobs.count_by_state(cap=10)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_tables_from_before_version_5(
    empty_database_url: str, version: int, connect: Connect
) -> None:
    driver = connect(empty_database_url)
    await migrate(driver, "up", target_version=version)
    with pytest.raises(SchemaMissing) as caught:
        async with driver.reading() as executor:
            await executor.jobs.get(1)
    assert type(caught.value) is (SchemaMissing if version == 1 else SchemaTooOld)
    with pytest.raises(type(caught.value)):
        await one_page(driver)
    async with driver.reading() as executor:
        assert [row.version for row in await ServerStore(executor).migration_list()] == list(
            range(1, version + 1)
        )


async def test_missing_tables_are_reported_at_once(database_url: str, connect: Connect) -> None:
    driver = connect(database_url, page_timeout=SHORT)
    async with await AsyncConnection.connect(database_url) as migrating:
        await migrating.execute("drop table river_leader")
        await migrating.commit()
        await migrating.execute("lock table river_migration in access exclusive mode")
        started = time.monotonic()
        with pytest.raises(SchemaMissing):
            async with driver.reading() as executor:
                await executor.leader.get()
        assert time.monotonic() - started < 2


@pytest.fixture
async def stranger(database_url: str, make: Make) -> AsyncIterator[str]:
    """Yield the URL of a user without any right to River's tables."""
    name = f"riverui_stranger_{time.monotonic_ns()}"
    await make.connection.execute(
        sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name))
    )
    yield _url(database_url, user=name, password="secret")
    await make.connection.execute(
        sql.SQL("drop owned by {n}; drop role {n}").format(n=sql.Identifier(name))
    )


async def test_missing_privilege(stranger: str, connect: Connect) -> None:
    driver = connect(stranger)
    with pytest.raises(PermissionDenied, match="river_job"):
        await one_page(driver)


async def test_a_user_who_may_only_read(stranger: str, make: Make, connect: Connect) -> None:
    job_id = await make.job("scheduled")
    user = sql.Identifier(str(conninfo_to_dict(stranger)["user"]))
    await make.connection.execute(
        sql.SQL("grant select on all tables in schema public to {}").format(user)
    )
    driver = connect(stranger)
    assert [row.id for row in (await one_page(driver)).rows] == [job_id]
    async with driver.reading() as executor:
        await executor.jobs.count_by_state(cap=0)
        await ServerStore(executor).server_get()
        await executor.queues.list(cap=10)
    with pytest.raises(PermissionDenied):
        async with driver.transaction() as transaction:
            await transaction.jobs.delete_many([job_id])


@pytest.mark.parametrize("style", ["SQL, DMY", "German", "Postgres, MDY"])
async def test_server_with_other_habits(
    database_url: str, make: Make, style: str, connect: Connect
) -> None:
    name = sql.Identifier(urlsplit(database_url).path[1:])
    for setting, value in (
        ("datestyle", style),
        ("timezone", "Asia/Kathmandu"),
        ("bytea_output", "escape"),
    ):
        await make.connection.execute(
            sql.SQL("alter database {} set {} = {}").format(
                name, sql.SQL(setting), sql.Literal(value)
            )
        )
    job_id = await make.job("completed", unique_key=b"\x00\xff'")
    driver = connect(database_url)
    async with driver.reading() as executor:
        job = await executor.jobs.get(job_id)
        assert job is not None
        assert job.unique_key == b"\x00\xff'"
        assert job.finalized_at == (await make.row(job_id))["finalized_at"]
        assert job.finalized_at is not None
        assert job.finalized_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_database_in_another_encoding(
    admin_url: str, encoding: str, connect: Connect
) -> None:
    name = f"riverui_test_{encoding.lower()}_{time.monotonic_ns()}"
    async with await AsyncConnection.connect(admin_url, autocommit=True) as admin:
        await admin.execute(
            sql.SQL("create database {} template template0 encoding {} locale 'C'").format(
                sql.Identifier(name), sql.Literal(encoding)
            )
        )
    driver = connect(_url(admin_url, dbname=name))
    await migrate(driver, "up")
    async with await AsyncConnection.connect(
        _url(admin_url, dbname=name), autocommit=True
    ) as connection:
        await connection.execute("set client_encoding = 'UTF8'")
        job_id = await factory.job(connection, kind="grün")
    page = await one_page(driver, terms=[Term(field=Field.KIND, op=Op.EQ, values=("grün",))])
    assert [(row.id, row.kind) for row in page.rows] == [(job_id, "grün")]
    euro = one_page(driver, terms=[Term(field=Field.KIND, op=Op.EQ, values=("€",))])
    if encoding == "LATIN1":
        with pytest.raises(BadRequest):
            await euro
    else:
        assert (await euro).rows == ()
    await driver.close()
    drop_database(admin_url, name)


async def test_another_isolation_level(database_url: str, make: Make, connect: Connect) -> None:
    """An action waits for a row and sees what became of it, whatever the database's default."""
    (row,) = await make.rows("select quote_ident(current_database()) as name")
    await make.connection.execute(
        f"alter database {row['name']} set default_transaction_isolation = 'serializable'".encode()
    )
    job_id = await make.job("available")
    driver = connect(database_url)
    async with await AsyncConnection.connect(database_url) as other:
        await other.execute("update river_job set state = 'running' where id = %s", [job_id])

        async def cancel() -> Any:
            async with driver.transaction() as transaction:
                return await transaction.jobs.cancel_many([job_id])

        acting = asyncio.create_task(cancel())
        await asyncio.sleep(0.2)
        await other.commit()
        assert (await acting).requested == (job_id,)
    await driver.close()


# The host app's pool


@asynccontextmanager
async def _pool(url: str, **options: Any) -> AsyncIterator[AsyncConnectionPool[Any]]:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url, open=False, min_size=1, max_size=2, **options
    )
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.mark.parametrize("autocommit", [False, True])
async def test_hosts_connections_come_back_as_they_were(
    database_url: str, make: Make, autocommit: bool, connect: Connect
) -> None:
    job_id = await make.job("scheduled")
    kwargs = {"autocommit": autocommit, "row_factory": dict_row, "prepare_threshold": 0}
    async with _pool(database_url, kwargs=kwargs) as pool:
        driver = connect(pool=pool)
        for _ in range(3):
            assert [row.id for row in (await one_page(driver)).rows] == [job_id]
            async with driver.reading() as executor:
                assert (await _settings(executor))["transaction_read_only"] == "on"
            async with driver.transaction() as transaction:
                await transaction.jobs.cancel_many([job_id])
                await transaction.jobs.retry_many([job_id])
            with pytest.raises(DatabaseError):
                async with driver.reading() as executor:
                    await executor.ask("broken", "select 1/0", ())
        async with pool.connection() as connection:
            assert connection.autocommit is autocommit
            cursor = await connection.execute(
                "select current_setting('statement_timeout') as t,"
                " current_setting('enable_seqscan') as s, (select count(*) from"
                " pg_prepared_statements where statement like '%river_job%') as p",
                prepare=False,
            )
            assert await cursor.fetchone() == {"t": "0", "s": "on", "p": 0}
        await driver.close()
        assert not pool.closed


async def test_listener_beside_a_hosts_pool(database_url: str, connect: Connect) -> None:
    async with _pool(database_url, kwargs={"row_factory": dict_row}) as pool:
        driver = connect(pool=pool)
        listener = await driver.listener()
        heard = asyncio.ensure_future(anext(listener.notifications("river_control")))
        async with driver.transaction() as transaction:
            while not heard.done():
                await asyncio.sleep(0.02)
                async with await AsyncConnection.connect(database_url, autocommit=True) as other:
                    await other.execute(
                        """select pg_notify('public.river_control', '{"action":"x"}')"""
                    )
            await transaction.ask("ping", "select 1", ())
        assert await heard == ("river_control", '{"action":"x"}')
        await listener.close()


async def test_hosts_pool_that_is_not_open(database_url: str, connect: Connect) -> None:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(database_url, open=False)
    with pytest.raises(DatabaseUnavailable, match="never opened"):
        await connect(pool=pool).ping()


async def test_hosts_pool_on_a_database_that_is_not_there(admin_url: str, connect: Connect) -> None:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        _url(admin_url, dbname="riverui_no_such_database"), open=False, min_size=0, max_size=2
    )
    await pool.open()
    driver = connect(pool=pool, pool_timeout=SHORT)
    await _raises_quickly(driver, DatabaseMissing)
    await pool.close()


async def test_hosts_pool_that_is_used_up(database_url: str, connect: Connect) -> None:
    async with _pool(database_url) as pool, pool.connection(), pool.connection():
        driver = connect(pool=pool, pool_timeout=SHORT)
        with pytest.raises(DatabaseUnavailable, match="free"):
            await driver.ping()


async def test_hosts_pool_with_lost_connections(database_url: str, connect: Connect) -> None:
    async with _pool(_url(database_url, application_name="riverui")) as pool:
        driver = connect(pool=pool)
        await asyncio.gather(driver.ping(), driver.ping())
        await _lost(database_url)
        await driver.ping()


async def test_two_drivers_on_one_database(database_url: str, make: Make, connect: Connect) -> None:
    await make.connection.execute("create schema second")
    second = connect(database_url, schema="second")
    await migrate(second, "up")
    first = connect(database_url)
    job_id = await make.job()
    assert [row.id for row in (await one_page(first)).rows] == [job_id]
    assert (await one_page(second)).rows == ()
    assert (first.schema, second.schema) == (None, "second")
    await first.close()
    await second.close()


def test_url_of_this_database_keeps_its_parts() -> None:
    parts = urlsplit("postgresql://u:p@h:1/db?sslmode=disable")
    assert urlunsplit(parts._replace(path="/other")) == "postgresql://u:p@h:1/other?sslmode=disable"


def test_errors_of_psycopg_do_not_get_through() -> None:
    assert not issubclass(DatabaseError, psycopg.Error)
