"""Lists of jobs in a SQLite file: complete in every order, and no slower for more jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from riverui.domain.jobs import FINALIZED, JobState
from riverui.storage.connect import connect
from riverui.storage.interface import Executor
from riverui.storage.interface.params import (
    Field,
    JobCursor,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.storage.migrations import migrate
from riverui.storage.sqlite.driver import SqliteDriver
from riverui.storage.sqlite.file import Connection
from riverui.storage.sqlite.values import stamp

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
View = Callable[[Executor], Awaitable[object]]
RARE = Term(field=Field.TAG, op=Op.EQ, values=("rare",))
QUEUE = Term(field=Field.QUEUE, op=Op.LIKE, values=("*1", "*3"))
SETS = [
    JobFilter(),
    JobFilter(states=(JobState.AVAILABLE,)),
    JobFilter(states=(JobState.COMPLETED, JobState.DISCARDED)),
    JobFilter(states=(JobState.RETRYABLE, JobState.RUNNING, JobState.SCHEDULED)),
    JobFilter(terms=(RARE,)),
    JobFilter(states=(JobState.PENDING,), terms=(Term(field=Field.ID, op=Op.GT, values=(90,)),)),
    JobFilter(states=(JobState.AVAILABLE, JobState.COMPLETED), terms=(QUEUE,)),
    JobFilter(terms=(Term(field=Field.STATE, op=Op.EQ, values=("pending",), negated=True),)),
]


async def filled(folder: Path, jobs: int) -> SqliteDriver:
    """Return a file with jobs in all states, five queues and four priorities, four of which have
    the same time.
    """
    driver = connect(f"sqlite:///{folder}/{jobs}.db")
    assert isinstance(driver, SqliteDriver)
    await migrate(driver)
    rows = []
    for n in range(1, jobs + 1):
        state = list(JobState)[n % 8]
        at = stamp(NOW + timedelta(seconds=n * 7919 % (jobs // 4)))
        tags = '["rare"]' if n % 100 == 7 else "[]"
        place = (f"queue {n // 8 % 5}", 1 + n // 40 % 4)
        rows.append((n, state, *place, f"kind {n % 10}", at, at, at, tags, state in FINALIZED))
    with sqlite3.connect(f"{folder}/{jobs}.db") as connection:
        connection.executemany(
            "insert into river_job (id, state, queue, priority, kind, attempt, created_at,"
            " scheduled_at, attempted_at, tags, args, metadata, finalized_at)"
            " values (?, ?, ?, ?, ?, 1, ?7, ?7, ?7, ?9, '{}', '{}', iif(?10, ?7, null))",
            rows,
        )
    return driver


@pytest.mark.parametrize("wanted", SETS)
async def test_pages_follow_one_another_and_lead_back(tmp_path: Path, wanted: JobFilter) -> None:
    driver = await filled(tmp_path, 800)
    for order in JobOrder:
        params = JobPageParams(filter=wanted, order=order, limit=30, window=60)
        async with driver.reading() as executor:
            whole = (await executor.jobs.list(replace(params, limit=1_000, window=10**6))).rows
            rows = [(row.id if order.by_id else row.matters_at, row.id) for row in whole]
            assert rows == sorted(rows, reverse=order.descending)
            assert len({row.id for row in whole}) == len(rows) > 7
            assert len(rows) == (await executor.jobs.count(wanted, cap=1_000)).value
            last = whole[-1]
            after = None if order.by_id else last.matters_at
            for cursor in (None, JobCursor(at=after, id=last.id, before=True)):
                before = cursor is not None
                seen: list[int] = []
                while True:
                    page = await executor.jobs.list(replace(params, cursor=cursor))
                    found = [row.id for row in page.rows]
                    seen = found + seen if before else seen + found
                    if page.searched is not None:
                        cursor = page.searched.resume
                    elif page.more:
                        edge = page.rows[0 if before else -1]
                        at = None if order.by_id else edge.matters_at
                        cursor = JobCursor(at=at, id=edge.id, before=before)
                    else:
                        break
                assert seen == [row.id for row in (whole[:-1] if before else whole)]
    await driver.close()


def _listed(*states: JobState, order: JobOrder = JobOrder.TIME) -> View:
    params = JobPageParams(filter=JobFilter(states=states), order=order, limit=50)
    return lambda executor: executor.jobs.list(params)


@pytest.mark.long
async def test_views_read_no_more_rows_when_there_are_more_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: dict[str, View] = {
        "by id": _listed(order=JobOrder.ID_DESC),
        "completed by id": _listed(JobState.COMPLETED, order=JobOrder.ID),
        "ended": _listed(*FINALIZED),
        "waiting": _listed(JobState.AVAILABLE, JobState.SCHEDULED, JobState.RETRYABLE),
        "counts": lambda executor: executor.jobs.count_by_state(cap=100),
        "kinds": lambda executor: executor.jobs.kind_list(),
        "queues": lambda executor: executor.queues.list(cap=100),
        "failures": lambda executor: executor.queues.failure_list("queue 1"),
        "kinds of a queue": lambda executor: executor.queues.kind_count("queue 1", cap=100),
        **{f"{state}": _listed(state) for state in JobState if state is not JobState.RUNNING},
    }
    few, many = [
        await _steps(await filled(tmp_path, jobs), views, monkeypatch) for jobs in (40_000, 80_000)
    ]
    assert {name: (few[name], many[name]) for name in views if many[name] > 1.3 * few[name]} == {}


async def _steps(
    driver: SqliteDriver, views: Mapping[str, View], monkeypatch: pytest.MonkeyPatch
) -> dict[str, int]:
    """Return how many tens of steps of SQLite's virtual machine each view takes."""
    found = dict.fromkeys(views, 0)
    for name, view in views.items():

        def count(name: str = name) -> None:
            found[name] += 1

        monkeypatch.setattr(
            Connection, "limit", lambda self, count=count: self.raw.set_progress_handler(count, 10)
        )
        async with driver.reading() as executor:
            await view(executor)
        # The next view has a new connection.
        await driver.close()
    return found
