"""Inspect and change jobs and queues through a client, with the same actions as the dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from riverui.actions import jobs, queues
from riverui.actions.job_verbs import CANCEL, MOVE, RETRY
from riverui.actions.verbs import Given
from riverui.domain.jobs import OUTPUT, JobRow, JobState
from riverui.domain.queues import QueueRow
from riverui.engine.args import gojson
from riverui.engine.job_lists import (
    MAX_COUNTED,
    MAX_FIRST,
    JobDeleteManyParams,
    JobListParams,
    JobListResult,
    count_jobs,
)
from riverui.engine.pilot import Pilot
from riverui.engine.work import attempt
from riverui.engine.work.context import MAX_OUTPUT_BYTES
from riverui.storage.interface import Driver, Executor

_RECORDED: Final = object()


class AdminMethods:
    """The administrating half of a Client.

    Methods with `_tx` work in a transaction of the caller's, who commits it: a psycopg
    AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection. NotFound is raised for a job
    or queue that does not exist.
    """

    driver: Driver
    pilot: Pilot

    async def job_get(self, id: int) -> JobRow:
        """Return one job."""
        async with self.driver.autocommit() as executor:
            return await jobs.get(executor, id)

    async def job_get_tx(self, tx: object, id: int) -> JobRow:
        """Return one job."""
        return await jobs.get(await self.driver.adopt(tx), id)

    async def job_list(self, params: JobListParams | None = None) -> JobListResult:
        """Return jobs by filters and order, page by page."""
        async with self.driver.autocommit() as executor:
            return await _job_list(executor, params or JobListParams())

    async def job_list_tx(self, tx: object, params: JobListParams | None = None) -> JobListResult:
        """Return jobs by filters and order, page by page."""
        return await _job_list(await self.driver.adopt(tx), params or JobListParams())

    async def job_count(
        self, params: JobListParams | None = None, *, limit: int = MAX_COUNTED
    ) -> Mapping[JobState, int]:
        """Return how many jobs match in each state; order, cursor and page size are ignored.

        Reads every matching job, and counts at most `limit` of them. QueryTimeout if that takes
        longer than the database's time limit.
        """
        async with self.driver.autocommit() as executor:
            return await count_jobs(executor, params or JobListParams(), limit)

    async def job_count_tx(
        self, tx: object, params: JobListParams | None = None, *, limit: int = MAX_COUNTED
    ) -> Mapping[JobState, int]:
        """Return how many jobs match in each state; see job_count."""
        return await count_jobs(await self.driver.adopt(tx), params or JobListParams(), limit)

    async def job_cancel(self, id: int) -> JobRow:
        """Cancel a waiting job at once, and ask a running one to stop; a finished one stays as it
        is.
        """
        async with self.driver.transaction() as tx:
            return await jobs.apply_one(tx, CANCEL, id, pilot=self.pilot)

    async def job_cancel_tx(self, tx: object, id: int) -> JobRow:
        """Cancel a job when the transaction commits."""
        executor = await self.driver.adopt(tx)
        return await jobs.apply_one(executor, CANCEL, id, pilot=self.pilot)

    async def job_move(
        self, id: int, *, queue: str | None = None, priority: int | None = None
    ) -> JobRow:
        """Give a waiting job another queue, another priority (1 to 4), or both.

        JobRunning if it is running; BadRequest if it has finished, or if the queue name or priority
        is invalid. Its unique key does not change, even if the key includes the queue.
        """
        async with self.driver.transaction() as tx:
            return await jobs.apply_one(tx, MOVE, id, _move(queue, priority), pilot=self.pilot)

    async def job_move_tx(
        self, tx: object, id: int, *, queue: str | None = None, priority: int | None = None
    ) -> JobRow:
        """Give a waiting job another queue or priority when the transaction commits."""
        executor = await self.driver.adopt(tx)
        return await jobs.apply_one(executor, MOVE, id, _move(queue, priority), pilot=self.pilot)

    async def job_retry(self, id: int) -> JobRow:
        """Make a job available now, unless it is running or already available.

        One that has used up its attempts gets another. UniqueConflict if another active job has the
        same unique key.
        """
        async with self.driver.transaction() as tx:
            return await jobs.apply_one(tx, RETRY, id, pilot=self.pilot)

    async def job_retry_tx(self, tx: object, id: int) -> JobRow:
        """Make a job available when the transaction commits."""
        executor = await self.driver.adopt(tx)
        return await jobs.apply_one(executor, RETRY, id, pilot=self.pilot)

    async def job_delete(self, id: int) -> JobRow:
        """Delete a job and return its last row. JobRunning if it is running."""
        async with self.driver.transaction() as tx:
            return await jobs.delete_one(tx, id, pilot=self.pilot)

    async def job_delete_tx(self, tx: object, id: int) -> JobRow:
        """Delete a job and return its last row. JobRunning if it is running."""
        return await jobs.delete_one(await self.driver.adopt(tx), id, pilot=self.pilot)

    async def job_delete_many(self, params: JobDeleteManyParams) -> Sequence[JobRow]:
        """Delete matching jobs by id, except running jobs and those that another transaction
        locks.
        """
        async with self.driver.transaction() as executor:
            return await _job_delete_many(executor, params, self.pilot)

    async def job_delete_many_tx(self, tx: object, params: JobDeleteManyParams) -> Sequence[JobRow]:
        """Delete matching jobs by id, except running jobs and those that another transaction
        locks.
        """
        return await _job_delete_many(await self.driver.adopt(tx), params, self.pilot)

    async def job_update(self, id: int, *, output: Any = _RECORDED) -> JobRow:
        """Set a job's output, up to 32 MiB as JSON; by default, the output that the current job has
        recorded.
        """
        async with self.driver.autocommit() as executor:
            return await _job_update(executor, id, output)

    async def job_update_tx(self, tx: object, id: int, *, output: Any = _RECORDED) -> JobRow:
        """Set a job's output when the transaction commits."""
        return await _job_update(await self.driver.adopt(tx), id, output)

    async def queue_get(self, name: str) -> QueueRow:
        """Return one queue."""
        async with self.driver.autocommit() as executor:
            return await queues.get(executor, name)

    async def queue_get_tx(self, tx: object, name: str) -> QueueRow:
        """Return one queue."""
        return await queues.get(await self.driver.adopt(tx), name)

    async def queue_list(self, *, first: int = 100) -> Sequence[QueueRow]:
        """Return up to 10,000 queues by name: those that a client has served in the last day."""
        async with self.driver.autocommit() as executor:
            return await _queue_list(executor, first)

    async def queue_list_tx(self, tx: object, *, first: int = 100) -> Sequence[QueueRow]:
        """Return up to 10,000 queues by name: those that a client has served in the last day."""
        return await _queue_list(await self.driver.adopt(tx), first)

    async def queue_pause(self, name: str) -> Sequence[str]:
        """Pause a queue, or every queue with `*`; return the names of those that changed."""
        return await queues.apply(self.driver, queues.PAUSE, name)

    async def queue_pause_tx(self, tx: object, name: str) -> Sequence[str]:
        """Pause a queue when the transaction commits."""
        return await (await self.driver.adopt(tx)).queues.pause(name)

    async def queue_resume(self, name: str) -> Sequence[str]:
        """Resume a queue, or every queue with `*`; return the names of those that changed."""
        return await queues.apply(self.driver, queues.RESUME, name)

    async def queue_resume_tx(self, tx: object, name: str) -> Sequence[str]:
        """Resume a queue when the transaction commits."""
        return await (await self.driver.adopt(tx)).queues.resume(name)

    async def queue_update(self, name: str, *, metadata: Mapping[str, Any]) -> QueueRow:
        """Replace a queue's metadata, and notify the clients."""
        async with self.driver.autocommit() as executor:
            return await executor.queues.update(name, metadata=gojson.dump(metadata))

    async def queue_update_tx(
        self, tx: object, name: str, *, metadata: Mapping[str, Any]
    ) -> QueueRow:
        """Replace a queue's metadata when the transaction commits."""
        return await (await self.driver.adopt(tx)).queues.update(
            name, metadata=gojson.dump(metadata)
        )

    async def request_resign(self) -> None:
        """Ask the leader to resign; it may be elected again."""
        async with self.driver.autocommit() as executor:
            await queues.request_resign(executor)

    async def request_resign_tx(self, tx: object) -> None:
        """Ask the leader to resign when the transaction commits."""
        await queues.request_resign(await self.driver.adopt(tx))


def _move(queue: str | None, priority: int | None) -> Given:
    return MOVE.read({"queue": queue, "priority": priority})


async def _job_list(executor: Executor, params: JobListParams) -> JobListResult:
    select = params.select()
    rows = await executor.jobs.row_list(select) if select is not None else []
    return JobListResult(jobs=rows, last_cursor=params.cursor(rows[-1]) if rows else None)


async def _job_delete_many(
    executor: Executor, params: JobDeleteManyParams, pilot: Pilot
) -> Sequence[JobRow]:
    select = params.select()
    if select is None:
        return []
    if await pilot.deletes_plainly(executor):
        return await executor.jobs.delete_selected(select)
    states = [state for state in select.states or JobState if state is not JobState.RUNNING]
    if not states:
        return []
    rows = {
        row.id: row for row in await executor.jobs.row_list(replace(select, states=tuple(states)))
    }
    changes = await pilot.delete(executor, list(rows))
    return [rows[job_id] for job_id in sorted(changes.changed)]


async def _job_update(executor: Executor, id: int, output: Any) -> JobRow:
    text = _recorded() if output is _RECORDED else _json(output)
    if text is None:
        return await jobs.get(executor, id)
    return await jobs.update(executor, id, metadata=f'{{"{OUTPUT}":{text}}}')


async def _queue_list(executor: Executor, first: int) -> Sequence[QueueRow]:
    if not 1 <= first <= MAX_FIRST:
        raise ValueError(f"first must be from 1 to {MAX_FIRST:,}, not {first}")
    return await executor.queues.row_list(limit=first)


def _recorded() -> str | None:
    """Return the output that the current job has recorded; None outside a job."""
    at_work = attempt.running.get(None)
    return at_work.updates.get(OUTPUT) if at_work is not None and at_work.updates else None


def _json(output: Any) -> str:
    try:
        text = gojson.dump(output)
    except gojson.Unfit as unfit:
        raise ValueError(f"this output cannot be stored as JSON: {unfit}") from None
    if (size := len(text.encode())) > MAX_OUTPUT_BYTES:
        raise ValueError(
            f"the output has {size:,} bytes: at most {MAX_OUTPUT_BYTES:,} can be stored"
        )
    return text
