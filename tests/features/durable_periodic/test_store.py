"""Durable periodic jobs in `riverui_periodic_job`, on Postgres and SQLite."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from riverui.domain.periodic import NextRun
from riverui.features.durable_periodic.domain import PeriodicChange
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.storage.interface import Driver
from tests.factory import Make
from tests.features.both import SqliteMake, database, driver, driver_url, file, make

__all__ = ["database", "driver", "driver_url", "file", "make"]

HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


async def test_of_two_leaders_one_saves_a_run(driver: Driver) -> None:
    async with driver.transaction() as db:
        store = DurablePeriodicStore(db)
        first = [NextRun("a", NOON, None), NextRun("b", NOON, None)]
        assert sorted(await store.durable_periodic_save(first)) == ["a", "b"]
        # Another leader that has not seen the rows, and one that is behind.
        assert list(await store.durable_periodic_save([NextRun("a", NOON + HOUR, None)])) == []
        later = [NextRun("a", NOON + HOUR, NOON), NextRun("b", NOON + HOUR, NOON - HOUR)]
        assert list(await store.durable_periodic_save(later)) == ["a"]
        a, b = await store.durable_periodic_list(limit=10)
        assert (a.next_run_at, b.next_run_at) == (NOON + HOUR, NOON)
        assert [row.id for row in await store.durable_periodic_list(ids=["b"], limit=9)] == ["b"]


async def test_changes_and_their_answers(driver: Driver) -> None:
    async with driver.transaction() as db:
        store = DurablePeriodicStore(db)
        await store.durable_periodic_save([NextRun("a", NOON, None)])
        await store.durable_periodic_touch({"a": "0 * * * *", "none": "x"})
        paused = await store.durable_periodic_change("a", PeriodicChange.PAUSE, user="ada")
        asked = await store.durable_periodic_change("a", PeriodicChange.RUN)
        assert paused is not None
        assert asked is not None
        assert (paused.program_schedule, paused.changed_by) == ("0 * * * *", "ada")
        assert asked.paused_at == paused.paused_at is not None
        assert asked.run_requested_at is not None
        answer = NextRun("a", NOON, None, asked.run_requested_at)
        assert list(await store.durable_periodic_save([answer])) == ["a"]
        assert list(await store.durable_periodic_save([answer])) == []
        resumed = await store.durable_periodic_change("a", PeriodicChange.RESUME)
        assert resumed is not None
        assert resumed.paused_at is resumed.run_requested_at is resumed.next_run_at is None
        assert await store.durable_periodic_change("none", PeriodicChange.PAUSE) is None


async def test_unused_jobs_are_removed_later_if_they_were_changed(
    driver: Driver, make: Make | SqliteMake
) -> None:
    async with driver.transaction() as db:
        store = DurablePeriodicStore(db)
        await store.durable_periodic_save([NextRun(name, NOON, None) for name in ("old", "mine")])
        await store.durable_periodic_change("mine", PeriodicChange.SCHEDULE, schedule="@daily")
    at = datetime.now(UTC) - 5 * HOUR
    await make.execute("update riverui_periodic_job set updated_at = %s", [at])
    async with driver.transaction() as db:
        store = DurablePeriodicStore(db)
        assert await store.durable_periodic_reap(unused_for=HOUR, changed_for=30 * HOUR) == 1
        (row,) = await store.durable_periodic_list(limit=10)
        assert (row.id, row.next_run_at, row.schedule) == ("mine", None, "@daily")
        assert await store.durable_periodic_reap(unused_for=HOUR, changed_for=2 * HOUR) == 1
