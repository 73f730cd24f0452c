"""Fetching from a limited queue by one statement: never above the limit, without waiting."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Mapping

import pytest

from riverui.domain.partitions import Partition
from riverui.features.concurrency.store import (
    LeaseParams,
    LimitedFetch,
    LimitedFetchParams,
    LimitStore,
)
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.stores.candidates import CandidateStore
from tests.factory import Make
from tests.features.concurrency.test_store import Lender

BY_KEY = Partition(by_args=("key",))


@pytest.fixture
async def fetcher(driver: PostgresDriver, make: Make, own_tables: None) -> Fetcher:
    """Return a database with the tables, and ways to fetch there."""
    return Fetcher(driver, make)


class Fetcher(Lender):
    """Fetches from the queue `default`; keys are numbers."""

    async def jobs(self, *keys: int) -> list[int]:
        """Insert a job for each key, and return their ids."""
        rows = await self.make.rows(
            "insert into river_job (kind, args, max_attempts)"
            f" select 'task', jsonb_build_object('key', k), 5 from unnest('{{{str(keys)[1:-1].strip(',')}}}'::int[])"  # noqa: E501
            " with ordinality u (k, n) order by n returning id"
        )
        return [row["id"] for row in rows]

    async def fetch(
        self,
        life: ClientLife,
        limit: int = 10,
        *,
        most: int = 1,
        most_here: int = 100,
        used: Mapping[int, int] | None = None,
        full: Collection[int] = (),
    ) -> LimitedFetch | None:
        async with self.driver.autocommit() as executor:
            return await LimitStore(executor).job_fetch_limited(
                JobFetchParams(life.id, "default", limit),
                LimitedFetchParams(
                    life=life,
                    partition=BY_KEY,
                    most=most,
                    most_here=most_here,
                    used={_key(number): count for number, count in (used or {}).items()},
                    full=[_key(number) for number in full],
                    window=1_000,
                    looked_at=100,
                ),
            )

    async def lease_keys(self, life: ClientLife, wanted: Mapping[int, int], most: int) -> None:
        await self.lease(life, {_key(number): count for number, count in wanted.items()}, most)

    async def held(self, life: ClientLife) -> dict[str, int]:
        async with self.driver.autocommit() as executor:
            return dict(await LimitStore(executor).limit_held_list(life, "default"))


def _key(number: int) -> str:
    return f'{{"key": {number}}}'


def _ids(found: LimitedFetch | None) -> list[int]:
    assert found is not None
    return [row.id for row in found.rows]


async def test_each_key_has_as_many_as_the_limit_lets_run(fetcher: Fetcher) -> None:
    a, b = await fetcher.life("a"), await fetcher.life("b")
    jobs = await fetcher.jobs(1, 1, 1, 2, 2, 3)
    found = await fetcher.fetch(a, most=2)
    assert found is not None
    assert _ids(found) == [jobs[0], jobs[1], jobs[3], jobs[4], jobs[5]]
    assert found.keys == [_key(1), _key(1), _key(2), _key(2), _key(3)]
    assert found.slots == {_key(1): 2, _key(2): 2, _key(3): 1}
    assert found.seen == 6
    assert {row.attempted_by for row in found.rows} == {("a",)}
    assert await fetcher.taken() == found.slots == await fetcher.held(a)
    (left,) = await fetcher.jobs(3)
    other = await fetcher.fetch(b, most=2)
    assert other is not None
    assert _ids(other) == [left]
    assert other.slots == {_key(3): 1}
    assert _ids(await fetcher.fetch(b, most=2, used={3: 1})) == []


async def test_unused_borrowed_slots_are_used(fetcher: Fetcher) -> None:
    a, b = await fetcher.life("a"), await fetcher.life("b")
    await fetcher.lease_keys(a, {1: 2}, most=3)
    await fetcher.lease_keys(b, {1: 1}, most=3)
    jobs = await fetcher.jobs(1, 1, 1)
    found = await fetcher.fetch(a, most=3, used={1: 1})
    assert found is not None
    assert _ids(found) == jobs[:1]
    assert found.slots == {}
    assert await fetcher.taken() == {_key(1): 3}


async def test_full_keys_are_skipped(fetcher: Fetcher) -> None:
    a = await fetcher.life("a")
    jobs = await fetcher.jobs(1, 2, 2, 3)
    found = await fetcher.fetch(a, most=5, most_here=1, full=[1])
    assert found is not None
    assert _ids(found) == [jobs[1], jobs[3]]
    assert found.seen == 3
    assert _ids(await fetcher.fetch(a, 1, most=5, most_here=2, used={2: 1, 3: 1})) == jobs[:1]


async def test_who_is_dead_takes_nothing(fetcher: Fetcher) -> None:
    a = await fetcher.life("a")
    await fetcher.jobs(1)
    await fetcher.die(a)
    assert await fetcher.fetch(a) is None
    assert await fetcher.taken() == {}
    assert await fetcher.make.rows("select 1 from river_job where state = 'available'")


async def test_jobs_and_slots_that_others_take_at_this_moment_are_passed_over(
    fetcher: Fetcher,
) -> None:
    a, b = await fetcher.life("a"), await fetcher.life("b")
    await fetcher.lease_keys(a, {1: 1, 2: 1}, most=9)
    jobs = await fetcher.jobs(1, 2, 3, 4)
    async with fetcher.driver.transaction() as other:
        await LimitStore(other).limit_lease(
            LeaseParams(life=a, queue="default", most=9, wanted={_key(1): 2})
        )
        assert await CandidateStore(other).job_claim(JobFetchParams("a", "default", 1), [jobs[2]])
        assert _ids(await fetcher.fetch(b, most=9)) == [jobs[1], jobs[3]]
    assert _ids(await fetcher.fetch(b, most=9, used={2: 1, 4: 1})) == [jobs[0]]


async def test_never_more_than_the_limit_whoever_fetches_at_once(fetcher: Fetcher) -> None:
    """Four clients fetch, end jobs and give back slots in whatever order."""
    most, chance = 2, random.Random(12)
    jobs = await fetcher.jobs(*(chance.randrange(8) for _ in range(300)))
    running: Counter[str] = Counter()
    done: set[int] = set()

    async def client(name: str) -> None:
        life, used = await fetcher.life(name), Counter[str]()
        while len(done) < len(jobs):
            async with fetcher.driver.autocommit() as executor:
                found = await LimitStore(executor).job_fetch_limited(
                    JobFetchParams(name, "default", chance.randint(1, 6)),
                    LimitedFetchParams(
                        life=life,
                        partition=BY_KEY,
                        most=most,
                        most_here=most,
                        used=dict(used),
                        full=(),
                        window=1_000,
                        looked_at=30,
                    ),
                )
            assert found is not None
            used.update(found.keys)
            running.update(found.keys)
            assert max(running.values(), default=0) <= most
            await asyncio.sleep(0)
            running.subtract(found.keys)
            used.clear()
            done.update(_ids(found))
            if chance.random() < 0.7:
                async with fetcher.driver.autocommit() as executor:
                    held = await LimitStore(executor).limit_held_list(life, "default")
                    wanted = dict.fromkeys(held, 0)
                    await LimitStore(executor).limit_lease(
                        LeaseParams(life=life, queue="default", most=most, wanted=wanted)
                    )

    async with asyncio.timeout(50):
        await asyncio.gather(*(client(name) for name in "abcd"))
    assert done == set(jobs)
    assert max((await fetcher.taken()).values()) <= most
