"""Copy jobs, queues and what riverui keeps from one database to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct

from riverui.domain.jobs import JobRow, JobState
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.stores.own_rows import KEYS, OwnRow, OwnRowStore

_AT_ONCE = 500
"""Jobs of one transaction: their args may be large."""
_QUEUES_AT_ONCE = 100
"""Queues that are read at once."""
_ROWS_AT_ONCE = 200
"""Rows of riverui's tables of one transaction: a dead letter has the args of its job."""

_ROUNDED = timedelta(milliseconds=1)
"""Difference of times between two databases: SQLite keeps milliseconds."""


class CopyReport(Struct, frozen=True, kw_only=True):
    """What was copied, and how many jobs each database has in each state afterwards."""

    copied: int
    own_rows: int | None
    """Rows of riverui's tables; None if one of the databases does not have them."""
    source: Mapping[JobState, int]
    target: Mapping[JobState, int]

    @property
    def complete(self) -> bool:
        """Whether both have the same number of jobs in each state."""
        return self.source == self.target


async def counts(driver: Driver) -> Mapping[JobState, int]:
    """Return the exact number of jobs in each state."""
    async with driver.reading() as executor:
        return {state: (await executor.jobs.count_exact(state)).value for state in JobState}


async def copy_all(
    source: Driver, target: Driver, *, resume: bool = False, copied: Callable[[int], None]
) -> CopyReport:
    """Copy all jobs, with their ids, all queues, and what riverui keeps of both if both databases
    have its tables; call `copied` with the number of jobs of each step.

    BadRequest if the target has jobs, unless `resume` continues a copy that was interrupted.
    """
    if not resume:
        await _empty(target)
    place = await _resumed(source, target) if resume else None
    number = 0
    while True:
        params = JobSelectParams(limit=_AT_ONCE, after=None if place is None else (None, place))
        async with source.reading() as executor:
            rows = await executor.jobs.row_list(params)
        if not rows:
            break
        async with target.transaction() as transaction:
            await transaction.jobs.restore_many(rows)
        place = rows[-1].id
        number += len(rows)
        copied(len(rows))
    await _copy_queues(source, target)
    own = await _copy_own_rows(source, target)
    return CopyReport(
        copied=number, own_rows=own, source=await counts(source), target=await counts(target)
    )


async def _copy_own_rows(source: Driver, target: Driver) -> int | None:
    for driver in (source, target):
        async with driver.reading() as executor:
            if not await OwnRowStore.installed(executor):
                return None
    number = 0
    for table in KEYS:
        last: OwnRow | None = None
        while True:
            async with source.reading() as executor:
                rows = await OwnRowStore(executor).own_row_list(
                    table, after=last, limit=_ROWS_AT_ONCE
                )
            if not rows:
                break
            async with target.transaction() as transaction:
                await OwnRowStore(transaction).own_row_insert(table, rows)
            last = rows[-1]
            number += len(rows)
    return number


async def _copy_queues(source: Driver, target: Driver) -> None:
    after = ""
    while True:
        async with source.reading() as executor:
            queues = await executor.queues.row_list(after=after, limit=_QUEUES_AT_ONCE)
        if not queues:
            return
        async with target.transaction() as transaction:
            await transaction.queues.restore_many(queues)
        after = queues[-1].name


async def _empty(target: Driver) -> None:
    if await _newest(target) is not None:
        raise BadRequest("The target has jobs. Continue a copy that was interrupted with --resume.")


async def _resumed(source: Driver, target: Driver) -> int | None:
    """Return the id of the last job that was copied; BadRequest if the target's last job is not one
    of the source.
    """
    last = await _newest(target)
    if last is None:
        return None
    async with source.reading() as executor:
        row = await executor.jobs.row_get(last.id)
    if row is None or row.kind != last.kind or abs(row.created_at - last.created_at) > _ROUNDED:
        raise BadRequest(f"The target's job {last.id} is not a copy: it has jobs of its own.")
    return last.id


async def _newest(driver: Driver) -> JobRow | None:
    async with driver.reading() as executor:
        rows = await executor.jobs.row_list(JobSelectParams(limit=1, descending=True))
    return rows[0] if rows else None
