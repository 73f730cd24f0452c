"""`examples/outbox`: both relays promise the same, so both are held to it by the same tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from examples.outbox import plain_relay, river_relay
from examples.outbox.knowledge import KnowledgeInMemory
from examples.outbox.observations import Connection, Observations, bodies, create_tables
from examples.outbox.plain_relay import Drained, OutboxRelay, Pool, RelayOptions
from riverui.engine.client import Client
from riverui.testing import drain
from tests.worker.conftest import wait_for

ROOT = Path(__file__).parents[2]
WAITS = [2, 4, 8, 16, 32, 60, 60, 60, 60]
"""Seconds after the first to ninth failure."""


class Relay(Protocol):
    """What both have in common, for these tests."""

    def publish(self, connection: Connection, scope: str) -> None: ...
    def drain(self) -> int: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def hurry(self) -> None: ...


class Plain:
    """The relay by hand."""

    def __init__(self, url: str, pool: Pool, knowledge: KnowledgeInMemory) -> None:
        self.relay = OutboxRelay(pool, knowledge)
        self.pool = pool

    def publish(self, connection: Connection, scope: str) -> None:
        plain_relay.publish(connection, scope)

    def drain(self) -> int:
        return self.relay.drain_once().claimed

    def rows(self) -> list[dict[str, Any]]:
        return selected(
            self.pool,
            """
            select scope, attempt, coalesce(claimed_by = 'POISON', false) as dead,
                next_attempt_at as again_at
            from observations_outbox order by id
            """,
        )

    def hurry(self) -> None:
        with self.pool.connection() as connection:
            connection.execute("update observations_outbox set next_attempt_at = now()")


class OnRiver:
    """The relay of jobs."""

    def __init__(self, url: str, pool: Pool, knowledge: KnowledgeInMemory) -> None:
        self.pool = pool
        self._url = url
        self._knowledge = knowledge

    def publish(self, connection: Connection, scope: str) -> None:
        river_relay.publish(connection, scope)

    def drain(self) -> int:
        async def drained() -> int:
            client: Client = river_relay.new_client(self._url, self.pool, self._knowledge)
            try:
                return len((await drain(client)).results)
            finally:
                await client.stop()

        return asyncio.run(drained())

    def rows(self) -> list[dict[str, Any]]:
        return selected(
            self.pool,
            """
            select args->>'scope' as scope, attempt, state = 'discarded' as dead,
                scheduled_at as again_at
            from river_job where state <> 'completed' order by id
            """,
        )

    def hurry(self) -> None:
        with self.pool.connection() as connection:
            connection.execute(
                "update river_job set state = 'available', scheduled_at = now()"
                " where state in ('retryable', 'available')"
            )


def selected(pool: Pool, query: Any) -> list[dict[str, Any]]:
    with pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows: list[dict[str, Any]] = cursor.execute(query).fetchall()
        return rows


def now(pool: Pool) -> datetime:
    at: datetime = selected(pool, "select clock_timestamp() as at")[0]["at"]
    return at


@pytest.fixture
def pool(database_url: str) -> Iterator[Pool]:
    with ConnectionPool(database_url, open=True) as pool:
        with pool.connection() as connection:
            create_tables(connection)
        yield pool


@pytest.fixture
def knowledge() -> KnowledgeInMemory:
    return KnowledgeInMemory()


@pytest.fixture(params=[Plain, OnRiver])
def relay(
    request: pytest.FixtureRequest, database_url: str, pool: Pool, knowledge: KnowledgeInMemory
) -> Relay:
    made: Relay = request.param(database_url, pool, knowledge)
    return made


def test_a_change_arrives_once_it_is_committed(
    relay: Relay, pool: Pool, knowledge: KnowledgeInMemory
) -> None:
    observations = Observations(relay.publish)
    with pool.connection() as connection:
        pond = observations.save(connection, "garden", "the pond is frozen")
        observations.save(connection, "house", "the door is open")
        assert relay.drain() == 0, "nothing is committed yet"
    assert relay.drain() == 2
    assert knowledge.documents == {
        "garden": ["the pond is frozen"],
        "house": ["the door is open"],
    }
    with pool.connection() as connection:
        tree = observations.save(connection, "garden", "the tree is bare")
        observations.merge(connection, pond, [tree])
    assert relay.drain() == 2
    assert knowledge.documents["garden"] == ["the pond is frozen / the tree is bare"]
    with pool.connection() as connection:
        observations.delete(connection, pond)
    assert relay.drain() == 1
    assert knowledge.documents["garden"] == []
    assert relay.rows() == []


def test_rollbacks_deliver_nothing(relay: Relay, pool: Pool, knowledge: KnowledgeInMemory) -> None:
    with pool.connection() as connection, connection.transaction(force_rollback=True):
        Observations(relay.publish).save(connection, "attic", "nobody will know")
    assert relay.drain() == 0
    assert not knowledge.calls


def test_failures_wait_longer_each_time(
    relay: Relay, pool: Pool, knowledge: KnowledgeInMemory
) -> None:
    knowledge.failures["garden"] = 100
    with pool.connection() as connection:
        relay.publish(connection, "garden")
    for failures, wait in enumerate(WAITS, 1):
        before = now(pool)
        assert relay.drain() == 1
        (row,) = relay.rows()
        assert (row["attempt"], row["dead"]) == (failures, False)
        assert before <= row["again_at"] - timedelta(seconds=wait) <= now(pool)
        assert failures < 5 or relay.drain() == 0, "it is not due yet"
        relay.hurry()
    assert relay.drain() == 1
    (row,) = relay.rows()
    assert (row["attempt"], row["dead"]) == (10, True)
    relay.hurry()
    assert relay.drain() == 0, "poison is kept, and never tried again"
    assert knowledge.calls["garden"] == 10


def test_a_failure_delays_no_other(relay: Relay, pool: Pool, knowledge: KnowledgeInMemory) -> None:
    knowledge.failures["garden"] = 1
    with pool.connection() as connection:
        for scope in ("garden", "house"):
            relay.publish(connection, scope)
    assert relay.drain() == 2
    assert list(knowledge.documents) == ["house"]
    relay.hurry()
    assert relay.drain() == 1
    assert knowledge.calls == {"garden": 2, "house": 1}


class Blocking(KnowledgeInMemory):
    """Takes a delivery, and is not done before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = Event(), Event()

    def reindex(self, scope: str, documents: Any) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        super().reindex(scope, documents)


def test_what_one_relay_has_claimed_another_leaves_alone(pool: Pool) -> None:
    slow, quick = Blocking(), KnowledgeInMemory()
    with pool.connection() as connection:
        for n in range(10):
            plain_relay.publish(connection, f"scope-{n}")
    first = OutboxRelay(pool, slow, RelayOptions(batch_size=4))
    with ThreadPoolExecutor(1) as threads:
        draining = threads.submit(first.drain_once)
        assert slow.begun.wait(60)
        drained = OutboxRelay(pool, quick).drain_once()
        slow.go_on.set()
        assert drained == Drained(claimed=6, delivered=6)
        assert draining.result(60) == Drained(claimed=4, delivered=4)
    assert not set(slow.calls) & set(quick.calls)


def test_locked_rows_are_skipped(pool: Pool, knowledge: KnowledgeInMemory) -> None:
    with pool.connection() as connection:
        for scope in ("garden", "house"):
            plain_relay.publish(connection, scope)
    with pool.connection() as locking, locking.transaction():
        locking.execute("select from observations_outbox where scope = 'garden' for update")
        assert OutboxRelay(pool, knowledge).drain_once().delivered == 1
    assert list(knowledge.documents) == ["house"]


_DIES = """
import sys, time
from psycopg_pool import ConnectionPool
from datetime import datetime, timedelta
from examples.outbox.plain_relay import OutboxRelay, RelayOptions

class Knowledge:
    def reindex(self, scope, documents):
        print(scope, flush=True)
        time.sleep(600)

pool = ConnectionPool(sys.argv[1], open=True)
OutboxRelay(pool, Knowledge(), RelayOptions(claim=timedelta(minutes=10))).drain_once()
"""


def test_what_a_relay_held_that_was_killed_is_delivered_again(
    database_url: str, pool: Pool, knowledge: KnowledgeInMemory
) -> None:
    with pool.connection() as connection:
        plain_relay.publish(connection, "garden")
    with subprocess.Popen(
        [sys.executable, "-c", _DIES, database_url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "garden\n"
        killed.kill()
    relay = OutboxRelay(pool, knowledge)
    assert relay.drain_once() == Drained(), "the claim holds for ten minutes"
    with pool.connection() as connection:
        connection.execute(
            "update observations_outbox set claimed_until = claimed_until - interval '10 minutes'"
        )
    assert relay.drain_once() == Drained(claimed=1, delivered=1)


def test_one_who_lost_the_claim_settles_nothing(pool: Pool) -> None:
    slow = Blocking()
    with pool.connection() as connection:
        plain_relay.publish(connection, "garden")
    with ThreadPoolExecutor(1) as threads:
        draining = threads.submit(OutboxRelay(pool, slow).drain_once)
        assert slow.begun.wait(60)
        with pool.connection() as connection:
            connection.execute("update observations_outbox set claimed_by = 'another'")
        slow.go_on.set()
        draining.result(60)
    (row,) = selected(pool, "select claimed_by, attempt from observations_outbox")
    assert row == {"claimed_by": "another", "attempt": 0}


def test_a_relay_can_be_restarted(pool: Pool, knowledge: KnowledgeInMemory) -> None:
    options = RelayOptions(poll_interval=timedelta(milliseconds=20))
    relay = OutboxRelay(pool, knowledge, options)
    relay.stop()
    for delivered, scope in enumerate(("garden", "house")):
        relay.start()
        relay.start()
        with pool.connection() as connection:
            plain_relay.publish(connection, scope)
        wait_for(partial(lambda most: len(knowledge.documents) > most, delivered))
        relay.stop()
        relay.stop()
    relay.close()
    with pool.connection() as connection:
        plain_relay.publish(connection, "attic")
    assert relay.drain_once().delivered == 1, "it drains by hand all the same"


def test_a_relay_goes_on_when_the_database_was_away(
    database_url: str, knowledge: KnowledgeInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """The table is not there at first, which is an error like others."""
    with ConnectionPool[Any](database_url, open=True) as pool:
        options = RelayOptions(poll_interval=timedelta(milliseconds=20))
        with OutboxRelay(pool, knowledge, options) as relay:
            relay.start()
            wait_for(lambda: "could not be drained" in caplog.text)
            with pool.connection() as connection:
                create_tables(connection)
                plain_relay.publish(connection, "garden")
            wait_for(lambda: "garden" in knowledge.documents)


async def test_the_running_client_delivers(
    database_url: str, pool: Pool, knowledge: KnowledgeInMemory
) -> None:
    async with river_relay.new_client(database_url, pool, knowledge):
        with pool.connection() as connection:
            Observations(river_relay.publish).save(connection, "garden", "the pond is frozen")
        await asyncio.to_thread(wait_for, lambda: "garden" in knowledge.documents)
    with pool.connection() as connection:
        assert knowledge.documents["garden"] == bodies(connection, "garden")


def test_the_readme_command_shows_both(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.outbox"],
        cwd=ROOT,
        env={"DATABASE_URL": database_url, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said = done.stdout.splitlines()
    assert said[:2] == [
        "the plain relay: garden at try 2, house at try 1",
        "River: garden at try 2, house at try 1",
    ]
    assert [line.rpartition(": ")[2] for line in said[2:]] == [
        "completed at attempt 2",
        "completed at attempt 1",
    ]
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from observations_outbox").fetchone() == (0,)
