"""Reads for explaining why a job is not running, from odd rows as well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.domain.explain.facts import JobHolder, Overtaking
from riverui.domain.partitions import Partition
from riverui.domain.time import FIRST, LAST
from riverui.storage.interface import Driver
from riverui.storage.sqlite.values import to_milliseconds
from riverui.storage.stores.explanations import ExplanationStore
from tests.factory import Make
from tests.features.both import (
    SqliteMake,
    database,
    driver,
    driver_url,
    file,
    make,
    postgres_only,
)

__all__ = ["database", "driver", "driver_url", "file", "make"]


def ago(**span: float) -> datetime:
    """Return a time that SQLite, too, stores whole."""
    return to_milliseconds(datetime.now(UTC) - timedelta(**span))


async def test_the_work_of_a_queue(driver: Driver, make: Make | SqliteMake) -> None:
    at = [ago(minutes=n) for n in range(6)]
    await make.job("completed", attempted_at=at[2], attempted_by=["a", "b"], finalized_at=at[1])
    await make.job("retryable", attempted_at=at[3], attempted_by=["a"], priority=2)
    await make.job("discarded", attempted_at=at[4], attempted_by=["b"], finalized_at=at[3])
    await make.job("running", attempted_at=at[5], attempted_by=["a"], kind="rare", priority=4)
    await make.job("completed", attempted_by=["c"], queue="another")
    async with driver.reading() as db:
        found = await ExplanationStore(db).queue_work_get("default", kind="rare")
        capped = await ExplanationStore(db).queue_work_get("default", kind="none", cap=1)
    assert found.running == 1
    assert found.clients == {"a": at[3], "b": at[2]}
    assert found.started == {1: at[2], 2: at[3], 4: at[5]}
    assert found.kind_at == at[5]
    assert list(found.ends) == [at[1]]
    assert timedelta(minutes=9) < datetime.now(UTC) - found.ends_since < timedelta(minutes=11)
    assert (capped.running, capped.cap, capped.kind_at) == (1, 1, None)


async def test_a_pace_is_told_from_the_time_of_which_all_ends_are_known(
    driver: Driver, make: Make | SqliteMake
) -> None:
    for n in range(60):
        at = ago(seconds=n)
        await make.job("completed", scheduled_at=at, attempted_at=at, finalized_at=at)
    async with driver.reading() as db:
        found = await ExplanationStore(db).queue_work_get("default", kind="test_kind")
    assert len(found.ends) == 50
    assert min(found.ends) == found.ends_since


async def test_jobs_that_were_taken_before_one_that_came_first(
    driver: Driver, make: Make | SqliteMake
) -> None:
    due, at = ago(minutes=10), ago(minutes=12)

    async def taken(state: str = "completed", **columns: Any) -> None:
        given = {"scheduled_at": ago(minutes=9), "attempted_at": ago(minutes=8), "priority": 2}
        await make.job(state, **given | columns)

    await taken()
    await taken("running", priority=4, attempted_by=None)
    await taken("discarded", priority=1)
    await taken(scheduled_at=ago(minutes=11))
    await taken(attempted_at=ago(minutes=11))
    await taken(attempted_at=LAST)
    await taken(queue="another")
    mine: dict[str, Any] = {"kind": "mine", "attempted_by": ["a", "c"]}
    await taken(scheduled_at=ago(days=9), attempted_at=at, **mine)

    async def found(priority: int) -> Overtaking:
        async with driver.reading() as db:
            return await ExplanationStore(db).job_overtaken_get(
                "default", kind="mine", priority=priority, scheduled_at=due, id=0, after=due
            )

    assert await found(2) == Overtaking(jobs=2, cap=500, kind_at=at, kind_by="c")
    assert (await found(1)).jobs == 4, "of a higher number all come later"
    # Jobs fetched before the last one of its own kind do not count.
    await taken(attempted_at=ago(minutes=7), **mine)
    assert (await found(1)).jobs == 0


@postgres_only
async def test_odd_rows_are_read(driver: Driver, make: Make | SqliteMake) -> None:
    for odd in ("infinity", "-infinity"):
        await make.job(
            "completed", attempted_at=odd, finalized_at=odd, scheduled_at=odd, attempted_by=None
        )
        await make.job("running", attempted_at=odd, scheduled_at=odd, attempted_by=[["a"], ["b"]])
        await make.job("running", attempted_at=None, attempted_by=["x" * 10_000])
    async with driver.reading() as db:
        found = await ExplanationStore(db).queue_work_get("default", kind="test_kind")
        assert (found.running, found.clients, found.ends) == (4, {}, ())
        for at, before in ((FIRST, 0), (LAST, 2)):
            await make.job("available", scheduled_at=ago(minutes=1))
            line = await ExplanationStore(db).job_line_get(
                "default", priority=1, scheduled_at=at, id=2**62
            )
            assert line.before == before
        assert (
            await ExplanationStore(db).job_line_get(
                "\u202e'; --", priority=1, scheduled_at=LAST, id=1
            )
        ).before == 0


async def test_whose_turn_it_is_by_keys(driver: Driver, make: Make | SqliteMake) -> None:
    by, at = Partition(by_args=("to",)), ago(minutes=5)
    for n, to in enumerate("aabbbc"):
        due = at + timedelta(seconds=n)
        ids = [await make.job("available", args={"to": to}, scheduled_at=due)]
    mine = await make.job("available", args={"to": "b"}, scheduled_at=at, priority=2)
    holder = await make.job("running", args={"to": "b"}, attempted_by=["x", "y"])
    await make.job("running", args={"to": "a"})
    async with driver.reading() as db:
        store = ExplanationStore(db)
        line = await store.job_share_get(
            "default", by, priority=2, scheduled_at=at, id=mine, window=100, keys=2
        )
        held = await store.job_holder_list("default", by, '{"to": "b"}')
        whole = await store.job_share_get(
            "default", Partition(), priority=1, scheduled_at=at + timedelta(hours=1), id=ids[0]
        )
    assert (line.job_key, line.before, line.reached) == ('{"to": "b"}', 3, True)
    assert (line.keys, line.others, line.looked_at) == (2, {'{"to": "a"}': 2}, 7)
    assert held == [JobHolder(holder, "y")]
    assert (whole.job_key, whole.before, whole.keys) == ("", 6, 0)
