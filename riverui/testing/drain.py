"""Work all that waits in a database, in the test's own time."""

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
"""Whether the transaction with that id has written a row. Its savepoints have ids of their own that
follow it, as do transactions that began later and have committed.
"""
MOST_JOBS = 10_000
"""Jobs that one call works: more than a test inserts, unless each inserts another for ever."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DrainResult:
    """How the attempts of one drain ended."""

    results: Sequence[WorkResult] = field(repr=False)
    """Of each, in the order in which they were made."""
    completed: int = 0
    failed: int = 0
    """Tried again later."""
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
    most_jobs: int = MOST_JOBS,
    queue: str | None = None,
    raises: bool = False,
    with_scheduled: bool | datetime = False,
) -> DrainResult:
    """Work all that waits, one job after the other, until nothing is left; return how the attempts
    ended.

    Jobs that a job inserts are worked too. For a client in a transaction that is rolled back, only
    jobs that were inserted or changed in it are worked. No job is worked twice: what fails or
    snoozes waits for the next drain. `queue` leaves others alone; `with_scheduled` works those
    scheduled for later, and those to be tried again, as if their time had come, or those due by
    that time. `raises` raises what the first failing job raises, once its outcome is written.
    `workers` are the client's unless given. AssertionError once `most_jobs` were worked, which is
    more than a test inserts.
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
    """Do what `drain` does; synchronous jobs are worked by these threads."""
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
                    f"River: {most_jobs:,} jobs were worked, and there is no end of them: the next"
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
    """Return the jobs to be worked next, in their order."""
    states = _LATER if with_scheduled else (JobState.AVAILABLE,)
    queues = () if queue is None else (queue,)
    until = with_scheduled if isinstance(with_scheduled, datetime) else client.clock()
    async with client.driver.reading() as executor:
        where = await _own_jobs(client.driver, executor)
        rows = await executor.job_row_list(
            JobSelectParams(states=states, queues=queues, where=where, limit=MOST_JOBS)
        )
    due = [
        row
        for row in rows
        if row.id not in seen and (with_scheduled is True or row.scheduled_at <= until)
    ]
    return sorted(due, key=lambda row: (row.priority, row.scheduled_at, row.id))


async def _own_jobs(driver: Driver, executor: Executor) -> tuple[Where, ...]:
    """Return what leaves out jobs of others where the driver is one of a single transaction."""
    if not isinstance(driver, TransactionDriver) or SQL not in driver.capabilities:
        return ()
    # Asked for before the ages, which count from the next id until the transaction has its own.
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
