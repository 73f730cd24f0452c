"""Limits of concurrent jobs: never exceeded, in all clients together, whatever happens."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from riverui import ConcurrencyConfig, PartitionConfig
from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError, SchemaMissing
from tests.drivers import connect
from tests.engine.conftest import Playground, Task
from tests.own_tables import OWN_TABLES

BEAT = timedelta(seconds=0.2)
"""Seconds between heartbeats: short, so that tests are fast."""
BY_VALUE = PartitionConfig(by_args=["value"])


@pytest.fixture
async def limited(play: Playground, own_tables: None) -> Limited:
    """Return a playground with riverui's own tables."""
    return Limited(play)


@dataclass
class Other:
    """The args of another kind."""

    kind: ClassVar[str] = "other"


class Limited:
    """Clients with limits, whose jobs count themselves."""

    def __init__(self, play: Playground) -> None:
        self.play = play
        self.go = asyncio.Event()
        """Lets jobs of the value `wait…` end."""
        self.done = 0
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_together = 0
        self.stubborn: set[str] = set()
        """Values of jobs that do not let themselves be cancelled."""
        play.worker(self._work)

    async def _work(self, job: Job[Task]) -> None:
        value = job.args.value
        self.running[value] += 1
        self.most[value] = max(self.most[value], self.running[value])
        self.most_together = max(self.most_together, self.running.total())
        try:
            if value.startswith("wait"):
                while not self.go.is_set():
                    try:
                        await self.go.wait()
                    except asyncio.CancelledError:
                        if value not in self.stubborn:
                            raise
            else:
                await asyncio.sleep(random.uniform(0, 0.006))
            if job.args.number < 0:
                raise ValueError("as asked")
        finally:
            self.running[value] -= 1
            self.done += 1

    async def start(
        self, max_workers: int = 10, *, limits: dict[str, Any] | None = None, **settings: Any
    ) -> Any:
        """Start another client."""
        concurrency = ConcurrencyConfig(**limits) if limits is not None else None
        queue = QueueConfig(max_workers=max_workers, concurrency=concurrency)
        return await self.play.start(queues={"default": queue}, **settings)

    async def insert(self, value: str, count: int = 1, number: int = 0) -> list[int]:
        """Insert jobs and return their ids."""
        rows = await self.play.rows(
            "insert into river_job (kind, args, max_attempts) select 'task', jsonb_build_object("
            "'value', %s::text, 'number', %s::int), 1 from generate_series(1, %s) returning id",
            value,
            number,
            count,
        )
        return [row["id"] for row in rows]

    async def until_done(self, count: int) -> None:
        """Wait until so many jobs have ended."""
        await self.play.until(lambda: self.done >= count)

    async def taken(self) -> dict[str, int]:
        """Return the number of borrowed slots by key."""
        rows = await self.play.rows("select * from riverui_limit where taken > 0 order by key")
        for row in rows:
            assert sum(row["leases"].values()) == row["taken"]
        return {row["key"]: row["taken"] for row in rows}

    async def until_given_back(self) -> None:
        """Wait until no client has borrowed a slot."""

        async def given_back() -> bool:
            return not await self.taken()

        await self.play.until(given_back)


async def test_a_global_limit_holds_for_all_clients_together(limited: Limited) -> None:
    await limited.insert("x", 150)
    await limited.insert("x", 50, number=-1)
    for number in range(3):
        await limited.start(8, limits={"global_limit": 5}, id=f"c{number}")
    await limited.until_done(200)
    assert limited.most_together == 5
    await limited.until_given_back()


async def test_a_local_limit_holds_for_each_client(play: Playground) -> None:
    """It needs no table."""
    limited = Limited(play)
    await limited.insert("x", 100)
    await limited.start(8, limits={"local_limit": 2}, id="a")
    await limited.start(8, limits={"local_limit": 3}, id="b")
    await limited.until_done(100)
    assert limited.most_together <= 5


async def test_the_local_limit_wins_over_the_global_one(limited: Limited) -> None:
    await limited.insert("x", 60)
    await limited.start(8, limits={"global_limit": 7, "local_limit": 2})
    await limited.until_done(60)
    assert limited.most_together == 2


@pytest.mark.parametrize("name", ["global_limit", "local_limit"])
async def test_each_partition_has_its_limit(limited: Limited, name: str) -> None:
    values = [f"v{number}" for number in range(12)]
    for value in values:
        await limited.insert(value, 15)
    clients = 2 if name == "global_limit" else 1
    for number in range(clients):
        await limited.start(12, limits={name: 2, "partition": BY_VALUE}, id=f"c{number}")
    await limited.until_done(15 * len(values))
    assert max(limited.most.values()) == 2
    assert limited.most_together > 2
    if name == "global_limit":
        await limited.until_given_back()


async def test_partitions_by_kind(limited: Limited) -> None:
    seen: Counter[str] = Counter()

    async def other(job: Job[Any]) -> None:
        seen["other"] += 1
        assert seen["other"] - seen["ended"] <= 1
        await asyncio.sleep(0.001)
        seen["ended"] += 1

    limited.play.worker(other, Other)
    await limited.insert("x", 30)
    for _ in range(30):
        await limited.play.insert(Other())
    await limited.start(10, limits={"global_limit": 1, "partition": PartitionConfig(by_kind=True)})
    await limited.until_done(30)
    await limited.play.until(lambda: seen["ended"] == 30)
    assert limited.most_together == 1


async def test_jobs_that_would_exceed_the_limit_are_passed_over(limited: Limited) -> None:
    await limited.insert("wait", 50)
    behind = await limited.insert("behind")
    await limited.start(5, limits={"global_limit": 2, "partition": BY_VALUE})
    await limited.play.event(behind[0])
    assert limited.running == {"wait": 2, "behind": 0}
    limited.go.set()
    await limited.until_done(51)


async def test_a_slot_goes_to_who_waits_for_it(limited: Limited) -> None:
    """A client that has no more jobs of a key returns its slots, and notifies the others."""
    first = await limited.insert("wait", 2)
    slow = {"fetch_poll_interval": timedelta(minutes=1)}
    await limited.start(2, limits={"global_limit": 2, "partition": BY_VALUE}, id="a", **slow)
    await limited.play.until(lambda: limited.running["wait"] == 2)
    second = await limited.insert("wait", 2)
    await limited.start(2, limits={"global_limit": 2, "partition": BY_VALUE}, id="b", **slow)
    await limited.play.until(lambda: _wanted(limited))
    await limited.play.rows(
        "update river_job set state = 'pending' where id = %s returning id", second[0]
    )
    limited.go.set()
    for job_id in (*first, second[1]):
        await limited.play.event(job_id)
    assert limited.most["wait"] == 2


async def _wanted(limited: Limited) -> bool:
    return bool(await limited.play.rows("select 1 from riverui_limit where wanted"))


async def test_what_the_dashboard_sets_holds_at_once_and_until_it_is_removed(
    limited: Limited,
) -> None:
    client = await limited.start(10)
    await limited.insert("wait", 3)
    await limited.play.until(lambda: limited.running["wait"] == 3)

    async def override(concurrency: str | None) -> None:
        async with client.driver.transaction() as transaction:
            await transaction.queues.set_metadata_key("default", "concurrency", concurrency)
        expected = None if concurrency is None else {"local_limit": 0, **json.loads(concurrency)}

        async def heard() -> bool:
            rows = await limited.play.rows("select concurrency from riverui_producer")
            return (rows[0]["concurrency"] if rows else None) == expected

        await limited.play.until(heard)

    await override('{"global_limit": 4, "partition": {"by_args": null, "by_kind": false}}')
    await limited.insert("wait", 20)
    await limited.play.until(lambda: limited.running["wait"] == 4)
    await limited.play.until(lambda: _is(limited, {"": 4}))
    # Jobs at work are counted by what holds from now on.
    await override('{"global_limit": 4, "partition": {"by_args": ["value"], "by_kind": true}}')
    await limited.insert("x")
    await limited.until_done(1)
    await limited.play.until(lambda: _is(limited, {'task {"value": "wait"}': 4}))
    assert limited.running["wait"] == 4
    await override(None)
    await limited.play.until(lambda: limited.running["wait"] == 10)
    await limited.until_given_back()
    limited.go.set()
    await limited.until_done(24)


async def test_who_has_no_worker_free_counts_by_changed_limits_too(limited: Limited) -> None:
    first = await limited.start(2, limits={"global_limit": 10}, id="a")
    await limited.insert("wait", 2)
    await limited.play.until(lambda: limited.running["wait"] == 2)
    by_value = {"global_limit": 2, "partition": {"by_args": ["value"], "by_kind": False}}
    async with first.driver.transaction() as transaction:
        await transaction.queues.set_metadata_key("default", "concurrency", json.dumps(by_value))

    async def heard() -> bool:
        rows = await limited.play.rows("select concurrency from riverui_producer")
        return [row["concurrency"] for row in rows] == [{"local_limit": 0, **by_value}]

    await limited.play.until(heard)
    assert await limited.taken() == {'{"value": "wait"}': 2}
    await limited.insert("wait", 3)
    await limited.insert("x")
    await limited.start(5, limits={"global_limit": 10}, id="b")
    await limited.until_done(1)
    assert limited.running["wait"] == 2
    limited.go.set()
    await limited.until_done(6)


async def _is(limited: Limited, taken: dict[str, int]) -> bool:
    return await limited.taken() == taken


async def test_an_unreadable_override_is_logged_and_the_config_applies(
    limited: Limited, caplog: pytest.LogCaptureFixture
) -> None:
    await limited.play.rows(
        "insert into river_queue (name, metadata, updated_at) values ('default', %s, now())"
        " returning name",
        json.dumps({"concurrency": {"global_limit": "many"}}),
    )
    await limited.insert("x", 30)
    await limited.start(10, limits={"global_limit": 2})
    await limited.until_done(30)
    assert limited.most_together == 2
    (message,) = [r.getMessage() for r in caplog.records if "cannot be read" in r.getMessage()]
    assert "global_limit must be a whole number" in message


async def test_a_client_taken_for_dead_counts_the_jobs_that_still_run(
    limited: Limited, caplog: pytest.LogCaptureFixture
) -> None:
    """They are cancelled, but some ignore it."""
    caplog.set_level(logging.CRITICAL, "riverui.engine")
    limited.stubborn.add("wait-stubborn")
    await limited.insert("wait-stubborn", 2)
    await limited.start(5, limits={"global_limit": 3}, heartbeat_interval=BEAT, id="a")
    await limited.play.until(lambda: limited.running["wait-stubborn"] == 2)
    await limited.insert("x", 40)
    await limited.play.rows(
        "update riverui_client set declared_dead_at = now() where id = 'a' returning id"
    )
    lives = "select 1 from riverui_client where id = 'a' and declared_dead_at is null"

    async def lives_again() -> bool:
        return bool(await limited.play.rows(lives))

    await limited.play.until(lives_again)
    await limited.until_done(40)
    assert limited.most["x"] == 1, "of three slots, two are taken by jobs that go on"
    assert limited.running["wait-stubborn"] == 2
    limited.go.set()


async def test_slots_of_the_dead_are_free_again(limited: Limited) -> None:
    """Of a client that was killed; not before it was declared dead."""
    await limited.play.rows(
        "insert into riverui_client (id, heartbeat_interval, heartbeat_at) values"
        " ('killed', '0.2 s', clock_timestamp()) returning id"
    )
    await limited.play.connection.execute(
        "insert into riverui_limit (queue, key, taken, leases) select 'default', '', 1,"
        " jsonb_build_object(id || '@' || to_char(registered_at at time zone 'UTC',"
        " 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), 1) from riverui_client"
    )
    (job_id,) = await limited.insert("x")
    await limited.start(5, limits={"global_limit": 1}, heartbeat_interval=BEAT)
    await limited.play.event(job_id)
    (dead,) = await limited.play.rows("select * from riverui_client where id = 'killed'")
    assert dead["declared_dead_at"] is not None


async def test_a_queue_without_limits_costs_no_statement(limited: Limited) -> None:
    seen: Counter[str] = Counter()
    driver = connect(limited.play.database_url, watch=lambda name, *_: seen.update([name]))
    await limited.insert("x", 50)
    await limited.play.start(database=driver)
    await limited.until_done(50)
    await limited.play.client.stop()
    assert not [name for name in seen if "limit" in name or "candidate" in name]


async def test_without_the_tables_a_global_limit_keeps_a_client_from_starting(
    play: Playground,
) -> None:
    limited = Limited(play)
    with pytest.raises(
        SchemaMissing, match=r"the tables of riverui.*riverui migrate-up --line riverui"
    ):
        await limited.start(limits={"global_limit": 1})


async def test_without_the_tables_an_override_is_logged_and_work_continues(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    limited = Limited(play)
    await play.rows(
        "insert into river_queue (name, metadata, updated_at) values ('default', %s, now())"
        " returning name",
        json.dumps({"concurrency": {"global_limit": 1, "local_limit": 2}}),
    )
    await play.connection.execute(OWN_TABLES)
    await play.connection.execute("drop table riverui_limit; drop table riverui_producer")
    await limited.insert("x", 20)
    await limited.start(5)
    await limited.until_done(20)
    assert limited.most_together == 2
    assert [r for r in caplog.records if "the tables of riverui" in r.getMessage()]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConcurrencyConfig(global_limit=-1), "global_limit"),
        (lambda: ConcurrencyConfig(local_limit=True), "local_limit"),
        (lambda: ConcurrencyConfig(global_limit=1.5), "global_limit"),  # type: ignore[arg-type]
        (lambda: ConcurrencyConfig(local_limit=2**31), "local_limit"),
        (lambda: ConcurrencyConfig(partition="x"), "partition"),  # type: ignore[arg-type]
        (lambda: QueueConfig(max_workers=1, concurrency=3), "concurrency"),  # type: ignore[arg-type]
        (lambda: ConcurrencyConfig.read([]), "must be an object"),
        (lambda: ConcurrencyConfig.read({"partition": {"by_kind": 1}}), "by_kind"),
        (lambda: ConcurrencyConfig.read({"partition": {"by_args": "x"}}), "by_args"),
    ],
)
def test_what_is_no_limit(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_global_limit_needs_signs_of_life() -> None:
    queue = QueueConfig(max_workers=1, concurrency=ConcurrencyConfig(global_limit=1))
    with pytest.raises(ConfigError, match="heartbeat_interval"):
        ClientConfig(queues={"q": queue}, workers=Workers(), heartbeat_interval=NO_LIMIT)


def test_limits_as_json() -> None:
    limits = ConcurrencyConfig(
        global_limit=2, local_limit=1, partition=PartitionConfig(by_args=["b", "a"], by_kind=True)
    )
    stored = json.loads(limits.as_json())
    assert stored == {
        "global_limit": 2,
        "local_limit": 1,
        "partition": {"by_args": ["a", "b"], "by_kind": True},
    }
    assert ConcurrencyConfig.read(stored) == limits
    assert ConcurrencyConfig.read({"partition": None}) == ConcurrencyConfig()


async def test_slots_of_an_earlier_life_are_free_again(limited: Limited) -> None:
    """A client was declared dead and has registered again before its slots were freed."""
    await limited.start(5, limits={"global_limit": 2}, heartbeat_interval=BEAT, id="a")
    await limited.play.connection.execute(
        "insert into riverui_limit (queue, key, taken, leases) select 'default', '', 2,"
        " jsonb_build_object('a@' || to_char(now() at time zone 'UTC' - interval '9 s',"
        " 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), 2)"
    )
    await limited.play.connection.execute(
        "update riverui_client set declared_dead_at = now() where id = 'a'"
    )
    (job_id,) = await limited.insert("x")
    await limited.play.event(job_id)
