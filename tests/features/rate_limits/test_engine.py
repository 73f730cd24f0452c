"""The rate at which jobs of a queue start is limited, in all clients together."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.domain.partitions import Partition
from riverui.engine.config import QueueConfig
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError, DatabaseUnavailable
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits import verbs as rates
from riverui.features.rate_limits.domain import RateLimit, RateOverride
from riverui.features.rate_limits.engine import RateCleaner
from riverui.features.rate_limits.store import BucketParams, RateStore, Take, Taken
from riverui.storage.postgres.driver import PostgresDriver
from tests.engine.conftest import Playground, Task
from tests.engine.ticking import Ticking

BY_VALUE = Partition(by_args=("value",))
NEVER = timedelta(hours=1)
"""Time between polls: so long that only notifications start jobs."""
SLOW = timedelta(days=300)
"""Span of a limit of which no token comes while a test runs, be it one of a thousand."""


@pytest.fixture
def driver(driver: PostgresDriver, own_tables: None) -> PostgresDriver:
    """With riverui's own tables."""
    return driver


class Begun:
    """When jobs began, by value."""

    def __init__(self, play: Playground) -> None:
        self.at: dict[str, list[float]] = {}
        play.worker(self.work)

    async def work(self, job: Job[Task]) -> None:
        self.at.setdefault(job.args.value, []).append(time.monotonic())

    @property
    def counts(self) -> Counter[str]:
        return Counter({value: len(times) for value, times in self.at.items()})

    @property
    def times(self) -> list[float]:
        return sorted(at for times in self.at.values() for at in times)


def queue(**settings: Any) -> dict[str, Any]:
    """Return the settings of a client whose only queue has this rate limit."""
    slots = settings.pop("max_workers", 10)
    config = QueueConfig(max_workers=slots, rate_limit=RateLimit(**settings))
    return {"queues": {"default": config}, "fetch_poll_interval": NEVER}


async def insert(play: Playground, values: str, **columns: Any) -> None:
    for number, value in enumerate(values):
        await play.insert(Task(value=value, number=number), **columns)


def check_windows(times: list[float], limit: float, burst: float) -> None:
    """Hold beginnings to the limit in any window; on a busy machine they come late."""
    for first, since in enumerate(times):
        for number, at in enumerate(times[first:], 1):
            assert number <= limit * (at - since + 0.25) + burst + 1


async def test_two_clients_together_keep_to_the_limit_and_lose_no_token(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "a" * 120)
    settings = queue(limit=60, burst=6)
    await play.start(**settings)
    await play.start(**settings)
    await play.until(lambda: len(begun.times) == 120)
    times = begun.times
    check_windows(times, 60, 6)
    assert (120 - 6 - 2) / 60 - 0.25 <= times[-1] - times[0] <= (120 - 6) / 60 * 1.05 + 0.5


async def test_a_bucket_of_one_token_is_emptied_as_often_as_it_fills(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "a" * 21)
    await play.start(**queue(limit=20, burst=1))
    await play.until(lambda: len(begun.times) == 21)
    times = begun.times
    check_windows(times, 20, 1)
    assert times[-1] - times[0] == pytest.approx(1, abs=0.25)


async def test_jobs_of_other_keys_do_not_wait_for_a_key_without_tokens(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "a" * 100 + "bcd" * 2)
    await play.start(**queue(limit=3, per=SLOW, partition=BY_VALUE))
    await play.until(lambda: begun.counts == {"a": 3, "b": 2, "c": 2, "d": 2})
    await insert(play, "b")
    await play.notify("river_insert", '{"queue": "default"}')
    await play.until(lambda: begun.counts == {"a": 3, "b": 3, "c": 2, "d": 2})
    async with driver.reading() as db:
        rows = await RateStore(db).rate_list("default", limit=2)
    assert {row.key for row in rows} == {'{"value": "a"}', '{"value": "b"}'}
    assert all(row.tokens == pytest.approx(0, abs=0.6) for row in rows)


async def test_kinds_have_buckets_of_their_own_and_weights(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "a" * 9)
    limit = {"limit": 10, "per": SLOW, "partition": Partition(by_kind=True)}
    await play.start(**queue(**limit, weight={"task": 4}))
    await play.until(lambda: begun.counts == {"a": 2})
    async with driver.reading() as db:
        (row,) = await RateStore(db).rate_list("default", limit=2)
    assert row.key == "task"
    assert row.tokens == pytest.approx(2, abs=0.6)


async def test_a_job_takes_as_many_tokens_as_its_args_say(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    for number in (3, 5, 9, 1):
        await play.insert(Task(value=str(number), number=number))
    await play.start(**queue(limit=10, per=SLOW, weight="number"))
    # Nine would be too many, and holds up one.
    await play.until(lambda: begun.counts == {"3": 1, "5": 1})
    async with driver.reading() as db:
        (row,) = await RateStore(db).rate_list("default", limit=2)
    assert row.tokens == pytest.approx(2, abs=0.6)


async def test_a_weight_that_fails_counts_as_one(
    play: Playground, driver: PostgresDriver, caplog: pytest.LogCaptureFixture
) -> None:
    begun = Begun(play)
    await insert(play, "aaa")

    def weight(kind: str, args: Any) -> float:
        return float(args["value"])

    await play.start(**queue(limit=2, per=SLOW, weight=weight, weight_args=("value",)))
    await play.until(lambda: begun.counts == {"a": 2})
    records = [record for record in caplog.records if "could not be weighed" in record.message]
    assert len(records) == 1


async def test_each_attempt_takes_a_token(play: Playground, driver: PostgresDriver) -> None:
    attempts: list[int] = []

    async def work(job: Job[Task]) -> None:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise RuntimeError("again")

    play.worker(work)
    await insert(play, "a")
    settings = queue(limit=10, per=SLOW) | {"fetch_poll_interval": timedelta(milliseconds=20)}
    await play.start(**settings, retry_policy=lambda row: datetime.now(UTC) + timedelta(seconds=1))
    await play.until(lambda: attempts == [1, 2, 3])

    async def seven_are_left() -> bool:
        async with driver.reading() as db:
            (row,) = await RateStore(db).rate_list("default", limit=2)
        return row.tokens == pytest.approx(7, abs=0.6)

    # Tokens that a fetch took for jobs that were not there are put back after it.
    await play.until(seven_are_left)


async def test_clients_that_want_the_same_jobs_give_back_what_they_do_not_use(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    settings = queue(limit=1000, per=SLOW)
    for _ in range(4):
        await play.start(**settings)
    for _ in range(10):
        await insert(play, "a" * 12)
        await play.notify("river_insert", '{"queue": "default"}')
    await play.until(lambda: len(begun.times) == 120)

    async def settled() -> bool:
        async with driver.reading() as db:
            (row,) = await RateStore(db).rate_list("default", limit=2)
        return abs(row.tokens - 880) <= 0.6

    await play.until(settled)


async def test_a_token_whose_return_was_not_confirmed_can_be_taken_again(
    play: Playground, own_tables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfirmed: list[float] = []
    give_back = RateStore.rate_give_back

    async def and_lose_the_answer(
        self: RateStore, params: BucketParams, tokens: Mapping[str, float]
    ) -> None:
        await give_back(self, params, tokens)
        unconfirmed.extend(tokens.values())
        raise DatabaseUnavailable("The connection to the database was lost.")

    monkeypatch.setattr(RateStore, "rate_give_back", and_lose_the_answer)
    begun = Begun(play)
    await insert(play, "a" * 6)
    await play.start(**queue(limit=7, per=SLOW))
    await play.until(lambda: len(begun.times) == 6)
    # The next fetch takes the last token, for a job that it expects.
    await play.notify("river_insert", '{"queue": "default"}')
    await play.until(lambda: len(unconfirmed) > 0)
    await insert(play, "a")
    await play.notify("river_insert", '{"queue": "default"}')
    await play.until(lambda: len(begun.times) == 7)


async def test_tokens_that_another_client_returns_are_found(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "aa")
    await play.start(**queue(limit=1, per=SLOW), limits=EngineLimits(look_seconds=0.1))
    await play.until(lambda: len(begun.times) == 1)
    bucket = BucketParams(queue="default", limit=1, per=SLOW, burst=1)
    async with driver.autocommit() as db:
        await RateStore(db).rate_give_back(bucket, {"": 1})
    await play.until(lambda: len(begun.times) == 2)


async def test_tokens_returned_while_others_are_taken_are_found(
    play: Playground, driver: PostgresDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, give_back = RateStore.rate_take, RateStore.rate_give_back
    taken: list[str] = []
    another, confirmed = asyncio.Event(), asyncio.Event()

    async def and_lose_the_first_job(
        self: RateStore, params: BucketParams, takes: Sequence[Take]
    ) -> Mapping[str, Taken]:
        taken.extend(json.loads(take.key)["value"] for take in takes)
        given = await take(self, params, takes)
        if taken == ["a"]:
            await play.connection.execute(b"update river_job set queue = 'another'")
            async with play.connection.transaction():
                await insert(play, "ab")
        elif "b" in taken:
            another.set()
            await confirmed.wait()
        return given

    async def and_confirm_late(
        self: RateStore, params: BucketParams, tokens: Mapping[str, float]
    ) -> None:
        await give_back(self, params, tokens)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await another.wait()
        asyncio.get_running_loop().call_later(0.1, confirmed.set)

    monkeypatch.setattr(RateStore, "rate_take", and_lose_the_first_job)
    monkeypatch.setattr(RateStore, "rate_give_back", and_confirm_late)
    begun = Begun(play)
    await insert(play, "a")
    await play.start(**queue(limit=1, per=SLOW, partition=BY_VALUE))
    await play.until(lambda: begun.counts == {"a": 1, "b": 1})


async def test_connections_that_break_let_no_more_jobs_begin(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "ab" * 40)
    settings = queue(limit=25, per=SLOW, partition=BY_VALUE, max_workers=3)
    settings["fetch_poll_interval"] = timedelta(milliseconds=20)
    for _ in range(3):
        await play.start(**settings)

    async def go_on(many: int) -> None:
        await play.until(lambda: len(begun.times) >= many)
        await play.cut_connections()

    # Each time at most the nine tokens of fetches under way are lost: 23 remain at the last one.
    for many in range(5, 25, 5):
        await go_on(many)

    async def empty() -> bool:
        async with driver.reading() as db:
            rows = await RateStore(db).rate_list("default", limit=9)
        return len(rows) == 2 and all(row.tokens < 1 for row in rows)

    await play.until(empty)
    # Tokens may be lost with a connection, but none is taken twice.
    assert 20 <= len(begun.times) <= 50
    assert max(begun.counts.values()) <= 25


async def test_a_limit_for_all_and_shares_by_args_leave_no_job_behind(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "aaaaaaaaaabbbbccdefghijklmnopqrstuvwxyz" * 3)
    config = QueueConfig(
        max_workers=4,
        rate_limit=RateLimit(limit=200, burst=5, weight={"task": 2}),
        fair_share=FairShare(partition=BY_VALUE, weights={"a": 2}),
    )
    for _ in range(3):
        await play.start(queues={"default": config}, fetch_poll_interval=NEVER)
    await play.until(lambda: len(begun.times) == 39 * 3)
    assert begun.times[-1] - begun.times[0] >= (39 * 3 - 3) / 100 - 0.25
    check_windows(begun.times, 100, 3)


async def test_the_queue_may_say_another_limit(play: Playground, driver: PostgresDriver) -> None:
    begun = Begun(play)
    await insert(play, "a" * 9)
    await play.start(**queue(limit=2, per=SLOW), limits=EngineLimits(look_seconds=0.1))
    await play.until(lambda: len(begun.times) == 2)
    await play.connection.execute(
        b"""update river_queue
        set metadata = '{"riverui:rate_limit": {"limit": 50, "per_seconds": 1, "burst": 2}}'"""
    )
    await play.until(lambda: len(begun.times) == 9)


async def test_a_limit_that_is_set_and_removed_by_a_person_counts_at_once(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "a" * 6)
    await play.start(**queue(limit=2, per=SLOW))
    await play.until(lambda: len(begun.times) == 2)
    await rates.set_override(
        driver, "default", RateOverride(limit=50, per=timedelta(seconds=1), burst=2)
    )
    await play.until(lambda: len(begun.times) == 6)
    await rates.remove_override(driver, "default")
    (row,) = await play.rows("select metadata from river_queue")
    assert row["metadata"] == {}


async def test_a_limit_without_its_table_raises(play: Playground, database_url: str) -> None:
    with pytest.raises(
        ConfigError, match=r"'default' needs the tables of riverui.*migrate-up --line"
    ):
        await play.start(**queue(limit=2))


async def test_full_buckets_are_forgotten_by_the_leader(
    play: Playground, driver: PostgresDriver
) -> None:
    begun = Begun(play)
    await insert(play, "abc")
    await play.start(**queue(limit=1, partition=BY_VALUE))
    await play.until(lambda: len(begun.times) == 3)
    await play.connection.execute(
        b"update riverui_rate set full_at = full_at - interval '1 day',"
        b" spent_at = spent_at - interval '1 day' where key <> '{\"value\": \"a\"}'"
    )
    context = ServiceContext(
        driver=driver, clock=Ticking().now, logger=logging.getLogger("riverui.engine")
    )
    assert await RateCleaner(context).run_once() == 2
    async with driver.reading() as db:
        assert len(await RateStore(db).rate_list("default", limit=9)) == 1
