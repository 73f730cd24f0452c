"""Whole jobs by River's own list parameters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest

from riverui.domain.jobs import JobRow, JobState
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSelectParams
from tests.cases import cases
from tests.factory import Make
from tests.storage.conftest import NOW, Way

STATES = tuple(state.value for state in JobState)


async def _ids(way: Way, **params: Any) -> list[int]:
    return [row.id for row in await way.executor.jobs.row_list(JobSelectParams(**params))]


async def _all(way: Way, limit: int, **params: Any) -> list[JobRow]:
    """Page after page."""
    rows: list[JobRow] = []
    after = None
    while True:
        page = await way.executor.jobs.row_list(JobSelectParams(limit=limit, after=after, **params))
        rows += page
        if len(page) < limit:
            return rows
        order = params.get("order", "id")
        after = (None if order == "id" else getattr(page[-1], order), page[-1].id)


async def test_every_order_and_its_pages(way: Way) -> None:
    for n, state in enumerate(STATES * 3):
        at = NOW + timedelta(minutes=n % 5)
        attempted = {"attempted_at": None if n % 3 else at}
        finalized = {"finalized_at": at} if state in ("cancelled", "completed", "discarded") else {}
        await way.make.job(state, scheduled_at=at, **attempted, **finalized)
    with cases() as case:
        for descending in (False, True):
            for order in ("id", "scheduled_at", "attempted_at", "finalized_at"):
                with case((descending, order)):
                    rows = await _all(way, 100, order=order, descending=descending)
                    assert len(rows) == 24
                    by = attrgetter(order)
                    assert rows == sorted(
                        rows,
                        key=lambda row, by=by: (by(row) is None, by(row) or NOW, row.id),
                        reverse=descending,
                    )
                    for limit in (1, 5):
                        assert await _all(way, limit, order=order, descending=descending) == rows
                    chosen: Sequence[JobState] = (JobState.COMPLETED, JobState.CANCELLED)
                    assert await _all(
                        way, 2, order=order, descending=descending, states=chosen
                    ) == [row for row in rows if row.state in chosen]


async def test_no_such_order(way: Way) -> None:
    for order in ("kind", "id; drop table river_job", ""):
        with pytest.raises(BadRequest):
            await _ids(way, order=order)


async def test_states_of_a_later_river(driver: Driver, make: Make) -> None:
    await make.connection.execute("alter type river_job_state add value 'sleeping'")
    asleep, known = await make.job("sleeping"), await make.job("running")
    async with driver.autocommit() as executor:
        assert [row.id for row in await executor.jobs.row_list(JobSelectParams())] == [known]
        assert await executor.jobs.row_get(asleep) is None


async def test_delete_passes_over_locked_jobs(driver: Driver, make: Make) -> None:
    held, free = await make.job(), await make.job()
    async with driver.transaction() as transaction:
        await transaction.jobs.cancel_many([held])
        async with driver.autocommit() as executor:
            rows = await executor.jobs.delete_selected(JobSelectParams())
    assert [row.id for row in rows] == [free]
