"""Clients and pages on a server that lacks what YugabyteDB lacks."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import psycopg2
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

import riverui
from riverui import Client, ClientConfig, InsertOpts, QueueConfig, SyncClient, UniqueOpts, Workers
from riverui.actions.job_verbs import CANCEL
from riverui.domain.figures import Tally
from riverui.domain.rollups import RollupRow
from riverui.errors import NotSupported
from riverui.features.marks.store import MarkInsertParams
from riverui.features.marks.verbs import mark_insert
from riverui.storage.interface import EXPLANATIONS, LISTENING, ROLLUPS
from riverui.storage.migrations import migrate
from riverui.storage.postgres.products import Product
from riverui.storage.postgres.statements import PostgresQueries
from tests.databases.test_versions import Work, works_on
from tests.drivers import connect
from tests.interop.look import eventually, settled
from tests.own_tables import OWN_TABLES
from tests.scale import FULL
from tests.sequences import Line
from tests.web.stand_ins import browser
from tests.yugabyte import yugabyte

MINUTE = timedelta(minutes=1)
UNIQUE = InsertOpts(unique_opts=UniqueOpts(by_args=True))


@pytest.fixture
def url(database_url: str) -> Iterator[str]:
    """Yield a migrated database whose server sends no notifications."""
    with yugabyte(database_url) as found:
        yield found


@pytest.fixture
async def own_url(database_url: str, connection: AsyncConnection[DictRow]) -> AsyncIterator[str]:
    """Yield one with riverui's own tables, too."""
    await connection.execute(OWN_TABLES)
    with yugabyte(database_url) as found:
        yield found


@asynccontextmanager
async def worker(url: str) -> AsyncIterator[Client]:
    """Yield a client at work, on jobs that end when they are cancelled, but for n = 0."""
    workers = Workers()

    @workers.task(kind="work")
    async def work(n: int) -> None:
        if n:
            await asyncio.Event().wait()

    config = ClientConfig(
        fetch_poll_interval=timedelta(milliseconds=100),
        queues={"default": QueueConfig(max_workers=5)},
        workers=workers,
    )
    async with Client(url, config) as started:
        yield started


@pytest.mark.parametrize("listen_notify", [None, "off", "on"] if FULL else ["off"])
async def test_all_of_riverui_works(empty_database_url: str, listen_notify: str | None) -> None:
    with yugabyte(empty_database_url, listen_notify=listen_notify) as url:
        await works_on(url)


async def test_clients_look_for_what_nobody_tells_them(
    url: str, connection: AsyncConnection[DictRow], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui")
    async with worker(url) as river:
        assert river.notifier is None
        running = (await river.insert(Work(1))).job
        await settled(connection, running.id, "running")
        async with Client(url) as other:
            await other.job_cancel(running.id)
            await settled(connection, running.id, "cancelled")
            ended = (await other.insert(Work(0))).job
            assert (await other.wait(ended.id, timeout=MINUTE)).state == "completed"
            await other.queue_pause("default")
    told = [record.message for record in caplog.records if record.levelno >= logging.INFO]
    assert "YugabyteDB is not tested with riverui: see docs/operate/databases.md" in told
    assert any(line.startswith("YugabyteDB sends no notifications") for line in told)
    assert f"not supported by YugabyteDB: {LISTENING.missing}" in told
    assert not any("reconnecting" in line for line in told)


async def test_notifications_are_heard_where_they_are_on(
    database_url: str, connection: AsyncConnection[DictRow]
) -> None:
    with yugabyte(database_url, listen_notify="on") as url:
        async with worker(url) as river:
            notifier = river.notifier
            assert notifier is not None
            assert notifier.listening
            job = (await river.insert(Work(0))).job
            await settled(connection, job.id, "completed")


@pytest.mark.parametrize("library", ["psycopg", "asyncpg"])
async def test_inserts_in_a_programs_transaction(url: str, library: str) -> None:
    # It is the first that the client sees of the server.
    client = Client(url)
    engine = create_async_engine(make_url(url).set(drivername=f"postgresql+{library}"))
    async with engine.begin() as transaction:
        first = await client.insert_tx(transaction, Work(1), UNIQUE)
        again = await client.insert_tx(transaction, Work(1), UNIQUE)
        many = await client.insert_many_tx(transaction, [Work(1), Work(2)])
    assert not first.unique_skipped_as_duplicate
    assert again.unique_skipped_as_duplicate
    assert again.job.id == first.job.id
    assert len(many) == 2
    await engine.dispose()
    await client.stop()


@pytest.mark.parametrize("library", [psycopg, psycopg2])
def test_synchronous_inserts_in_a_programs_transaction(url: str, library: object) -> None:
    with SyncClient(url) as client:
        connection = library.connect(url)  # type: ignore[attr-defined]
        first = client.insert_tx(connection, Work(1), UNIQUE)
        again = client.insert_tx(connection, Work(1), UNIQUE)
        connection.commit()
        connection.close()
        assert again.unique_skipped_as_duplicate
        assert client.insert(Work(1), UNIQUE).job.id == first.job.id
        assert client.insert_many_fast([Work(2), Work(3)]) == 2


async def test_one_insert_has_new_jobs_and_old_ones(url: str) -> None:
    async with Client(url) as client:
        old = (await client.insert(Work(1), UNIQUE)).job
        jobs = [riverui.InsertManyParams(Work(n), UNIQUE) for n in (1, 2, 2, 3)]
        found = await client.insert_many([*jobs, Work(1)])
        skipped = [each.unique_skipped_as_duplicate for each in found]
        assert skipped == [True, False, True, False, False]
        assert found[0].job.id == old.id
        # The nonce is River's, and stays; who is not unique has none.
        assert "river:unique_nonce" in (await client.job_get(found[1].job.id)).metadata
        assert found[1].job.metadata == found[2].job.metadata
        assert (await client.job_get(found[4].job.id)).metadata == "{}"


async def test_texts_have_a_version(url: str, connection: AsyncConnection[DictRow]) -> None:
    driver = connect(url)
    async with Client(driver) as client:
        job = (await client.insert(Work(1))).job
    async with driver.reading() as executor:
        pieces = [
            await executor.job_text_piece(job.id, "args", start=start, size=3)
            for start in (0, 3, 0)
        ]
        assert len({piece.version for piece in pieces if piece}) == 1
        await connection.execute("update river_job set priority = 2")
        changed = await executor.job_text_piece(job.id, "args", start=0, size=3)
        assert changed is not None
        assert pieces[0] is not None
        assert changed.version != pieces[0].version
        with pytest.raises(NotSupported, match="Locks on a job cannot be read"):
            await EXPLANATIONS.on(executor).job_lock_get(job.id)
    await driver.close()


async def test_rows_are_deleted_by_the_servers_own_name_for_them(
    own_url: str, connection: AsyncConnection[DictRow]
) -> None:
    driver = connect(own_url)
    at = datetime.now(UTC).replace(second=0, microsecond=0)
    rows = [RollupRow(at + n * MINUTE, "q", "k", 1, Tally(failed=1), None) for n in range(4)]
    async with driver.transaction() as transaction:
        rollups = ROLLUPS.on(transaction)
        await rollups.rollup_client_put("a client", rows)
        assert await rollups.rollup_delete_before(MINUTE, at + 2 * MINUTE, limit=10) == 2
        assert await rollups.rollup_delete_some(limit=1) == 1
        assert await rollups.rollup_delete_some(limit=10) == 1
    line = Line(driver, connection)
    ids = await line.make("available", "pending", "pending")
    await line.do(CANCEL, ids[0])
    assert await line.states(ids) == ["cancelled", "pending", "pending"]
    await driver.close()


async def test_without_advisory_locks_it_is_told_in_a_line(
    database_url: str, connection: AsyncConnection[DictRow]
) -> None:
    await connection.execute(OWN_TABLES)
    with yugabyte(database_url, advisory_locks=False) as url:
        driver = connect(url)
        words = "ysql_yb_enable_advisory_locks=true"
        with pytest.raises(NotSupported, match=words):
            await mark_insert(driver, MarkInsertParams(label="1.2"))
        with pytest.raises(NotSupported, match=words):
            await migrate(driver, "down", max_steps=1)
        async with worker(url) as river:
            job = (await river.insert(Work(0), UNIQUE)).job
            await settled(connection, job.id, "completed")
        app = riverui.create_app(url, no_auth=True)
        async with browser(app) as visitor:
            for path in ("/", "/jobs", "/errors", "/operations", "/metrics"):
                assert (await visitor.get(path)).status_code == 200, path
            answer = await visitor.post("/api/marks", json={"label": "1.2"})
            assert answer.status_code == 501, answer.text
            assert words in answer.text
        await app.state.dashboard.close()
        await driver.close()


async def test_transactions_that_are_not_read_committed_are_told(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with yugabyte(database_url, isolation="repeatable read") as url:
        async with Client(url) as client:
            await client.insert(Work(1))
    (told,) = [record.message for record in caplog.records if "repeatable read" in record.message]
    assert told.endswith("until its TServers have yb_enable_read_committed_isolation=true")


async def test_about_says_what_is_missing(url: str) -> None:
    app = riverui.create_app(url, no_auth=True)
    async with browser(app) as visitor:

        async def said() -> bool:
            text = (await visitor.get("/about")).text
            return "YugabyteDB" in text and LISTENING.missing in text

        await eventually(said)
    await app.state.dashboard.close()


def test_no_statement_asks_for_what_is_not_there() -> None:
    product = Product(name="YugabyteDB", notifies=False, system_columns=False)
    queries = PostgresQueries(None, product)
    lacks = re.compile(r"\b(?:pg_notify|txid_\w+|xmin|xmax|cmin|cmax|ctid)\b")
    found = {name for name in queries.names if lacks.search(queries.text(name))}
    # Those that are not sent, and the one that is sent with another term in that place.
    assert found == {"job_insert_many", "job_lock_get", "transaction_id", "transaction_status"}
