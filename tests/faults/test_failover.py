"""A standby that takes over: clients whose address names both servers go on, and what the standby
had not received is gone, jobs and the rows of their transactions alike.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

import riverui
from riverui import Client, ClientConfig, Job, QueueConfig, Workers
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.databases.conftest import caught_up
from tests.databases.streaming import Servers, streaming
from tests.interop.look import eventually

Connection = AsyncConnection[DictRow]
_TAKES_OVER = 60
"""Seconds for servers and clients to be where they should be, on a slow machine."""


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Yield a primary and its standby, of this test's own: neither is what it was afterwards."""
    with streaming() as found:
        yield found


def of_both(servers: Servers) -> str:
    """Return an address that leads to whichever of the two takes changes."""
    hosts = [parse_qs(urlsplit(url).query) for url in (servers.primary, servers.standby)]
    places = ",".join(quote(each["host"][0], safe="") for each in hosts)
    ports = ",".join(each["port"][0] for each in hosts)
    where = f"host={places}&port={ports}&target_session_attrs=read-write"
    return f"postgresql://riverui@/postgres?{where}"


def cut(servers: Servers) -> None:
    """Have the standby receive nothing more."""
    with psycopg.connect(servers.standby, autocommit=True) as standby:
        standby.execute("alter system set primary_conninfo = ''")
        standby.execute("select pg_reload_conf()")
        deadline = time.monotonic() + _TAKES_OVER
        while standby.execute("select 1 from pg_stat_wal_receiver").fetchone():
            assert time.monotonic() < deadline, "the standby goes on receiving"
            time.sleep(0.01)


def take_over(servers: Servers) -> None:
    """Kill the primary, and make the standby one."""
    with psycopg.connect(servers.primary) as primary:
        (folder,) = primary.execute("show data_directory").fetchone() or ("",)
    note = Path(folder, "postmaster.pid")
    os.kill(int(note.read_text().split("\n", 1)[0]), signal.SIGQUIT)
    with psycopg.connect(servers.standby, autocommit=True) as standby:
        assert standby.execute("select pg_promote()").fetchone() == (True,)


@dataclass
class Pay:
    kind: ClassVar[str] = "pay"

    order: int


async def paid(database: Connection) -> list[int]:
    """Return the orders that were paid, which are completed jobs as well."""
    cursor = await database.execute(
        """
        select
            array(select id from orders where paid order by id) as paid,
            array(
                select (args ->> 'order')::int from river_job where state = 'completed' order by 1
            ) as done
        """
    )
    row = await cursor.fetchone()
    assert row is not None
    assert row["done"] == row["paid"]
    found: list[int] = row["paid"]
    return found


async def test_jobs_and_rows_of_their_transactions_stay_in_step(servers: Servers) -> None:
    url = of_both(servers)
    driver = connect(url)
    await migrate(driver, "up")
    await driver.close()
    attempts: Counter[int] = Counter()
    workers = Workers()

    @workers.work(Pay)
    async def pay(job: Job[Pay]) -> None:
        attempts[job.args.order] += 1
        async with await AsyncConnection.connect(url) as connection:
            await connection.execute(
                "update orders set paid = true where id = %s", [job.args.order]
            )
            await riverui.job_complete_tx(connection, job)

    queues = {"now": QueueConfig(max_workers=5), "later": QueueConfig(max_workers=5)}
    client = Client(url, ClientConfig(queues=queues, workers=workers))

    async def order(number: int, queue: str, database: Connection) -> None:
        async with database.transaction():
            await database.execute("insert into orders values (%s, false)", [number])
            await client.insert_tx(database, Pay(number), queue=queue)

    async with client:
        async with await Connection.connect(url, autocommit=True, row_factory=dict_row) as database:
            await database.execute("create table orders (id int primary key, paid boolean)")
            await client.queue_pause("later")
            for number in (1, 2):
                await order(number, "now", database)
            await order(3, "later", database)
            await eventually(lambda: paid(database), fits=lambda ids: ids == [1, 2])
            caught_up(servers)

            cut(servers)
            await order(4, "now", database)
            await client.queue_resume("later")
            await eventually(lambda: paid(database), fits=lambda ids: ids == [1, 2, 3, 4])

        take_over(servers)

        async with await Connection.connect(url, autocommit=True, row_factory=dict_row) as database:
            # The fourth order and its job have never been; the third is still to be paid.
            cursor = await database.execute("select id from orders order by id")
            assert [row["id"] for row in await cursor.fetchall()] == [1, 2, 3]
            await client.queue_resume("later")
            await eventually(
                lambda: paid(database), fits=lambda ids: ids == [1, 2, 3], within=_TAKES_OVER
            )
            assert attempts == {1: 1, 2: 1, 3: 2, 4: 1}
            # Somebody leads again: only a leader makes scheduled jobs available.
            await database.execute("insert into orders values (5, false)")
            soon = datetime.now(UTC) + timedelta(seconds=2)
            await client.insert(Pay(5), queue="now", scheduled_at=soon)
            await eventually(
                lambda: paid(database), fits=lambda ids: ids == [1, 2, 3, 5], within=_TAKES_OVER
            )
