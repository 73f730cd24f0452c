"""A pair of servers for the tests of one file, and a database on both for each test."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.conftest import create_database, drop_database
from tests.databases.streaming import Servers, streaming

_FOLLOW_SECONDS = 60
"""For a standby to show what its primary has: it takes milliseconds on a machine at rest."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Yield a primary and a standby, which cancels queries that block replay at once."""
    with streaming(settings=["max_standby_streaming_delay = 100ms"]) as found:
        yield found


def caught_up(servers: Servers) -> None:
    """Wait until the standby shows all that its primary has written."""
    deadline = time.monotonic() + _FOLLOW_SECONDS
    with (
        psycopg.connect(servers.primary, autocommit=True) as primary,
        psycopg.connect(servers.standby, autocommit=True) as standby,
    ):
        primary.execute("select txid_current()")  # the commit waits for nothing: it is flushed soon
        row = primary.execute("select pg_current_wal_insert_lsn()").fetchone()
        assert row is not None
        while True:
            replayed = standby.execute(
                "select pg_last_wal_replay_lsn() >= %s::pg_lsn", [row[0]]
            ).fetchone()
            if replayed and replayed[0]:
                return
            assert time.monotonic() < deadline, "the standby does not follow"
            primary.execute("select txid_current()")
            time.sleep(0.01)


@pytest.fixture
async def database(servers: Servers) -> AsyncIterator[tuple[str, str]]:
    """Yield the addresses of a migrated database on the primary and on the standby."""
    name = create_database(servers.primary)
    primary, standby = servers.urls(name)
    driver = connect(primary)
    await migrate(driver, "up")
    await migrate(driver, "up", line="riverui")
    await driver.close()
    caught_up(servers)
    yield primary, standby
    servers.resume()
    drop_database(servers.primary, name)


@pytest.fixture
async def primary(database: tuple[str, str]) -> AsyncIterator[AsyncConnection[DictRow]]:
    """Yield a plain connection to that database on the primary."""
    async with await AsyncConnection.connect(
        database[0], autocommit=True, row_factory=dict_row
    ) as opened:
        yield opened
