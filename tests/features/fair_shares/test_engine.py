"""Jobs of a queue are dealt in turn to the keys of a partition."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from riverui.domain.partitions import Partition
from riverui.engine.config import QueueConfig
from riverui.engine.work.worker import Job
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.candidates import CandidateStore
from tests.engine.conftest import Playground, Task

BY_VALUE = Partition(by_args=("value",))


@pytest.fixture(params=["indexed", "not indexed"])
async def indexed(request: pytest.FixtureRequest, driver: PostgresDriver) -> bool:
    """Create an index by value, or none; return whether it exists."""
    if request.param == "indexed":
        await make_index(driver)
    return bool(request.param == "indexed")


async def make_index(driver: PostgresDriver) -> None:
    async with driver.session(timeout=timedelta(seconds=10)) as db:
        await CandidateStore(db).partition_index_create(BY_VALUE)


class Begun:
    """The jobs that began, in that order, by value and number."""

    def __init__(self, play: Playground, *, seconds: float = 0.0) -> None:
        self.jobs: list[tuple[str, int]] = []
        self._seconds = seconds
        play.worker(self.work)

    async def work(self, job: Job[Task]) -> None:
        self.jobs.append((job.args.value, job.args.number))
        await asyncio.sleep(self._seconds)

    def first(self, many: int) -> Counter[str]:
        """Return how many jobs each value had of the first so many."""
        return Counter(value for value, _ in self.jobs[:many])


def queue(share: FairShare, *, max_workers: int = 10, **settings: Any) -> dict[str, Any]:
    """Return the settings of a client whose only queue has these shares."""
    config = QueueConfig(max_workers=max_workers, fair_share=share, **settings)
    return {"queues": {"default": config}}


async def insert(play: Playground, jobs: Sequence[tuple[str, int]], **columns: int) -> None:
    """Insert jobs in this order, with a value and so many of it."""
    for value, many in jobs:
        await play.connection.execute(
            b"insert into river_job (args, kind, max_attempts, queue, state, priority)"
            b" select jsonb_set(%s, '{number}', to_jsonb(n)), 'task', 25, 'default', 'available',"
            b" %s from generate_series(1, %s) n",
            [Jsonb({"value": value}), columns.get("priority", 1), many],
        )


async def test_a_few_jobs_do_not_stand_behind_many(play: Playground, indexed: bool) -> None:
    begun = Begun(play)
    await insert(play, [("big", 2_000), ("small", 10), ("other", 5)])
    await play.start(**queue(FairShare(partition=BY_VALUE)))
    await play.until(lambda: len(begun.jobs) >= 200)
    first = begun.first(35)
    assert first["small"] == 10
    assert first["other"] == 5
    for value in ("big", "small"):
        numbers = [number for name, number in begun.jobs if name == value]
        assert numbers[:5] == [1, 2, 3, 4, 5]


async def test_keys_get_what_their_weights_say(play: Playground, indexed: bool) -> None:
    begun = Begun(play)
    await insert(play, [("silver", 400), ("gold", 700), ("bronze", 400)])
    share = FairShare(partition=BY_VALUE, weights={"gold": 3, "bronze": 0.5})
    await play.start(**queue(share, max_workers=7))
    await play.until(lambda: len(begun.jobs) >= 910)
    first = begun.first(900)
    assert first["gold"] == pytest.approx(600, rel=0.02)
    assert first["silver"] == pytest.approx(200, rel=0.02)
    assert first["bronze"] == pytest.approx(100, rel=0.04)


async def test_keys_without_jobs_leave_their_share_to_others(
    play: Playground, indexed: bool
) -> None:
    begun = Begun(play)
    await insert(play, [("a", 120), ("b", 3)])
    share = FairShare(partition=BY_VALUE, weights={"b": 100, "nobody": 1000})
    await play.start(**queue(share, max_workers=50))
    await play.until(lambda: len(begun.jobs) == 123)
    assert begun.first(20)["b"] == 3


@pytest.mark.long
async def test_several_clients_deal_to_many_keys(play: Playground, driver: PostgresDriver) -> None:
    await make_index(driver)
    begun = Begun(play, seconds=0.001)
    names = [f"t{number:03}" for number in range(250)]
    await insert(play, [("t000", 500), *((name, 12) for name in names)])
    share = FairShare(partition=BY_VALUE, weights={"t001": 2})
    for slots in (3, 8, 20):
        await play.start(**queue(share, max_workers=slots))
    await play.until(lambda: len(begun.jobs) >= 1_100)
    first = begun.first(1_004)
    # Four rounds: the clients do not begin them together, nor end them.
    assert all(1 <= first[name] <= 7 for name in names if name != "t001")
    assert first["t001"] in range(5, 13)
    await play.until(lambda: len(begun.jobs) == 500 + 250 * 12)
    assert len(set(begun.jobs)) == 250 * 12 + 500 - 12


async def test_within_a_key_priority_comes_first(play: Playground, indexed: bool) -> None:
    begun = Begun(play)
    await insert(play, [("a", 3), ("b", 3)], priority=3)
    await insert(play, [("a", 2)], priority=1)
    await play.start(**queue(FairShare(partition=BY_VALUE), max_workers=1))
    await play.until(lambda: len(begun.jobs) == 8)
    assert [value for value, _ in begun.jobs] == list("abababaa")
    assert [number for value, number in begun.jobs if value == "a"] == [1, 2, 1, 2, 3]


async def test_shares_and_rate_limits_hold_together(
    play: Playground, driver: PostgresDriver, indexed: bool
) -> None:
    await migrate(driver, "up", line="riverui")
    begun = Begun(play)
    await play.insert(Task(value="unknown"), kind="nobody_works_this")
    await insert(play, [("a", 300), ("b", 40), ("c", 2)])
    limit = RateLimit(limit=20, per=timedelta(hours=1), partition=BY_VALUE)
    await play.start(**queue(FairShare(partition=BY_VALUE), rate_limit=limit, max_workers=5))
    await play.until(lambda: len(begun.jobs) == 42)
    assert begun.first(42) == {"a": 20, "b": 20, "c": 2}
    assert begun.first(9)["c"] == 2


async def test_a_share_by_kind_needs_no_args(play: Playground) -> None:
    begun = Begun(play)
    await insert(play, [("x", 5)])
    await play.start(**queue(FairShare(partition=Partition(by_kind=True))))
    await play.until(lambda: len(begun.jobs) == 5)
