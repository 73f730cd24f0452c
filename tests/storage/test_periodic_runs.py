"""Periodic jobs out of rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.storage.interface import Driver
from riverui.storage.sqlite.values import to_milliseconds
from riverui.storage.stores.periodic_runs import PeriodicRunStore
from tests.factory import Make
from tests.features.both import (
    SqliteMake,
    database,
    driver,
    driver_url,
    file,
    make,
)

__all__ = ["database", "driver", "driver_url", "file", "make"]

NOW = to_milliseconds(datetime.now(UTC))


async def due(make: Make | SqliteMake, minutes: float, kind: str, **metadata: Any) -> int:
    at = NOW - timedelta(minutes=minutes)
    return await make.job("completed", kind=kind, scheduled_at=at, metadata={"more": 1, **metadata})


async def test_by_id_else_by_kind(driver: Driver, make: Make | SqliteMake) -> None:
    await due(make, 0, "other")
    for minutes in (30, 20, 10):
        newest = await due(
            make, minutes, "mail", periodic=True, **{"river:periodic_job_id": "mails"}
        )
        await due(make, minutes, "tick", periodic=True)
        await due(make, minutes, "tock", periodic=True)
    async with driver.reading() as executor:
        found = await PeriodicRunStore(executor).periodic_history_list(runs=2)
        few = await PeriodicRunStore(executor).periodic_history_list(names=1, runs=2)
    assert found is not None
    assert found.complete
    assert [(each.id, each.kind, each.jobs) for each in found.histories] == [
        ("", "tick", 3),
        ("", "tock", 3),
        ("mails", "mail", 3),
    ]
    mails = found.histories[-1]
    assert [run.scheduled_at for run in mails.runs] == [
        NOW - timedelta(minutes=10),
        NOW - timedelta(minutes=20),
    ]
    assert mails.runs[0].id == newest
    assert few is not None
    assert len(few.histories) == 1


async def test_of_too_many_the_newest(driver: Driver, make: Make | SqliteMake) -> None:
    for minutes in range(30, 0, -1):
        await due(make, minutes, "tick", periodic=True)
    async with driver.reading() as executor:
        found = await PeriodicRunStore(executor).periodic_history_list(most=5)
    assert found is not None
    assert not found.complete
    assert [run.scheduled_at for run in found.histories[0].runs] == [
        NOW - timedelta(minutes=minutes) for minutes in range(1, 6)
    ]


async def test_hostile_metadata(driver: Driver, make: Make | SqliteMake) -> None:
    await due(make, 1, "k" * 100, **{"river:periodic_job_id": "x" * 100_000})
    await due(make, 1, "kind", **{"river:periodic_job_id": {"a": [1]}})
    await due(make, 1, "kind", **{"river:periodic_job_id": None}, periodic="no")
    await make.job("completed", metadata=[1, "periodic"])
    async with driver.reading() as executor:
        found = await PeriodicRunStore(executor).periodic_history_list()
    assert found is not None
    assert max(len(each.id) for each in found.histories) <= 300
