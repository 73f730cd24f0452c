"""Work all waiting jobs of a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.client import Client
from riverui.engine.events import EventKind
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import Worker
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.storage.interface import SQL, Driver, Executor
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.stores.server import ServerStore
from riverui.storage.where import Where
from riverui.testing.inline import inline_config
from riverui.testing.transaction import TransactionDriver
from riverui.testing.working import WorkResult, work_row

_LATER = (JobState.AVAILABLE, JobState.RETRYABLE, JobState.SCHEDULED)
_WRITTEN_IN = """
case when age(xmin) <= 0 then txid_status(@id::bigint - age(xmin)) = 'in progress' else false end
"""
"""Whether the transaction with that id has written a row. Its savepoints have later ids of their
own, and so have transactions that began later and have committed.
"""
MAX_JOBS = 10_000
"""Maximum jobs of one call: more than a test inserts, unless each job inserts another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainResult:
    """The results of one drain."""

    results: Sequence[WorkResult] = field(repr=False)
    """The result of each attempt, in order."""
    completed: int = 0
    failed: int = 0
    """Attempts of jobs that are retried."""
    discarded: int = 0
    cancelled: int = 0
    snoozed: int = 0

    @property
    def jobs(self) -> Sequence[JobRow]:
        """The jobs, as each was after its attempt."""
        return [result.job for result in self.results]


async def drain(
    client: Client,
    workers: Workers | Worker[Any] | None = None,
    *,
    most_jobs: int = MAX_JOBS,
    queue: str | None = None,
    raises: bool = False,
    with_scheduled: bool | datetime = False,
) -> DrainResult:
    """Work all waiting jobs one after the other until none is left; return the results.

    Jobs that a job inserts are worked too. For a client in a transaction that is rolled back, only
    jobs that were inserted or changed in it are worked. No job is worked twice: jobs that fail or
    snooze wait for the next drain. `queue` limits it to one queue. `with_scheduled` includes
    scheduled and retryable jobs: all of them, or those due by that time. `raises` raises the
    exception of the first job that fails, after its outcome is written. `workers` replaces the
    client's. Raise AssertionError after `most_jobs`, which is more than a test inserts.
    """
    return await drained(
        client,
        workers,
        most_jobs=most_jobs,
        queue=queue,
        raises=raises,
        threads=None,
        with_scheduled=with_scheduled,
    )


async def drained(
    client: Client,
    workers: Workers | Worker[Any] | None,
    *,
    most_jobs: int,
    queue: str | None,
    raises: bool,
    threads: WorkerThreads | None,
    with_scheduled: bool | datetime,
) -> DrainResult:
    """Work jobs as `drain` does; synchronous jobs run in `threads`."""
    if workers is not None:
        config = inline_config(workers, client.config)
        client = Client(client.driver, config, clock=client.clock)
    if client.config.workers is None:
        raise ConfigError("The client has no workers to work its jobs: give drain() some.")
    seen: set[int] = set()
    results: list[WorkResult] = []
    while rows := await _waiting(client, queue, with_scheduled, seen):
        for row in rows:
            seen.add(row.id)
            if len(results) == most_jobs:
                raise AssertionError(
                    f"River: {most_jobs:,} jobs were worked, and more are waiting: the next"
                    f" is of kind {row.kind!r}."
                )
            worked = await work_row(client, row, threads=threads)
            if worked is None:
                continue
            results.append(worked)
            if raises and worked.error is not None:
                raise worked.error
    return _counted(results)


async def _waiting(
    client: Client, queue: str | None, with_scheduled: bool | datetime, seen: Collection[int]
) -> Sequence[JobRow]:
    """Return the jobs to work next, in order."""
    states = _LATER if with_scheduled else (JobState.AVAILABLE,)
    queues = () if queue is None else (queue,)
    until = with_scheduled if isinstance(with_scheduled, datetime) else client.clock()
    async with client.driver.reading() as executor:
        where = await _own_jobs(client.driver, executor)
        rows = await executor.jobs.row_list(
            JobSelectParams(states=states, queues=queues, where=where, limit=MAX_JOBS)
        )
    due = [
        row
        for row in rows
        if row.id not in seen and (with_scheduled is True or row.scheduled_at <= until)
    ]
    return sorted(due, key=lambda row: (row.priority, row.scheduled_at, row.id))


async def _own_jobs(driver: Driver, executor: Executor) -> tuple[Where, ...]:
    """Return the condition for jobs of this transaction, if the driver has a single one."""
    if not isinstance(driver, TransactionDriver) or SQL not in driver.capabilities:
        return ()
    # Must come before the ages, which are relative to the next id until the transaction has an id.
    number = await ServerStore(executor).transaction_id()
    return (Where(_WRITTEN_IN, {"id": number}),)


def _counted(results: Sequence[WorkResult]) -> DrainResult:
    kinds = Counter(result.event for result in results)
    discarded = sum(
        result.event is EventKind.JOB_FAILED and result.job.state is JobState.DISCARDED
        for result in results
    )
    return DrainResult(
        results=results,
        completed=kinds[EventKind.JOB_COMPLETED],
        failed=kinds[EventKind.JOB_FAILED] - discarded,
        discarded=discarded,
        cancelled=kinds[EventKind.JOB_CANCELLED],
        snoozed=kinds[EventKind.JOB_SNOOZED],
    )
