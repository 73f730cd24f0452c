"""How far a group of jobs is: by tag, by metadata, by search, in one bounded query."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from riverui.storage.interface import Driver
from riverui.storage.interface.params import Field, JobFilter, Op, Term
from tests.cases import cases
from tests.factory import Make
from tests.web.api.conftest import Get

Connection = AsyncConnection[dict[str, Any]]
STATES = {
    "available": 1,
    "cancelled": 2,
    "completed": 3,
    "discarded": 4,
    "pending": 5,
    "retryable": 6,
    "running": 7,
    "scheduled": 8,
}
WHOLE = {
    "total": 36,
    "completed": 3,
    "failed": 6,
    "running": 7,
    "pending": 20,
    "exact": True,
    "states": STATES,
}
NOTHING = {
    "total": 0,
    "completed": 0,
    "failed": 0,
    "running": 0,
    "pending": 0,
    "exact": True,
    "states": dict.fromkeys(STATES, 0),
}


async def test_a_group_is_counted_by_what_became_of_it(get: Get, make: Make) -> None:
    for state, number in STATES.items():
        for _ in range(number):
            await make.job(
                state,
                kind="import",
                args={"file": "a.csv"},
                metadata={"batch": 7, "source": {"name": "the shop"}},
                tags=["batch-7", "import"],
            )
    await make.job(metadata={"batch": 8}, tags=["batch-8"])
    with cases() as case:
        for group in (
            {"tag": "batch-7"},
            {"tag": ["batch-7", "import"]},
            {"metadata.batch": "7"},
            {"metadata.source.name": "the shop"},
            {"args.file": "a.csv"},
            {"q": "tag:batch-7"},
            {"q": "kind:import", "metadata.batch": "7"},
        ):
            with case(group):
                assert await get("progress", **group) == WHOLE


async def test_a_value_fits_the_number_and_the_text(get: Get, make: Make) -> None:
    await make.job(metadata={"batch": 42})
    await make.job(metadata={"batch": "42"})
    await make.job(metadata={"batch": ""})
    assert (await get("progress", **{"metadata.batch": "42"}))["total"] == 2
    assert (await get("progress", **{"metadata.batch": ""}))["total"] == 1


async def test_states_narrow_a_group(get: Get, make: Make) -> None:
    for state in ("completed", "discarded"):
        await make.job(state, tags=["a"], metadata={"a": 1})
    for q in (
        "tag:a state:completed",
        "metadata.a:1 state:completed",
        "metadata.a:1 -tag:b state:completed",
    ):
        found = await get("progress", q=q)
        assert (found["total"], found["completed"]) == (1, 1)


async def test_an_unknown_group_is_empty(get: Get) -> None:
    assert await get("progress", tag="nothing") == NOTHING
    assert await get("progress", **{"metadata.batch": "7"}) == NOTHING
    assert await get("progress", q="id:7") == NOTHING


async def test_groups_that_make_no_sense(get: Get) -> None:
    with cases() as case:
        for group in ({}, {"q": ""}, {"q": "kind:"}, {"metadata.": "x"}, {"tag": ["x"] * 11}):
            with case(group):
                assert (await get("progress", 400, **group))["message"]


async def test_it_looks_at_no_more_than_its_window(driver: Driver, make: Make) -> None:
    old = await make.job(tags=["a"])
    for _ in range(10):
        await make.job()
    new = await make.job(tags=["a"])
    group = JobFilter(terms=(Term(field=Field.TAG, op=Op.EQ, values=("a",)),))
    assert old < new
    async with driver.reading() as executor:
        found = await executor.jobs.progress(group, window=5)
        assert (sum(found.counts.values()), found.exact) == (1, False)
        found = await executor.jobs.progress(group, window=100)
        assert (sum(found.counts.values()), found.exact) == (2, True)
