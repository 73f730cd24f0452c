"""Clients that work a job at once where it is inserted: nothing has to run beside the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_methods import Send
from riverui.engine.pilot import InsertBatch
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import Worker
from riverui.engine.work.workers import Workers
from riverui.errors import NotFound, UniqueConflict
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import InsertResult
from riverui.testing.memory import MemoryDatabase
from riverui.testing.transaction_client import TransactionDriver
from riverui.testing.working import work_row

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

    from riverui.storage.interface import Driver


class InlineClient(Client):
    """A Client that works each job before its insert returns.

        river = InlineClient(workers)
        result = await river.insert(SendWelcome(to="ann@example.com"))
        assert result.job.state == "completed"

    Jobs are worked as by a client that runs: their args are written as JSON and read from it, by
    the worker, hooks and middleware of their kind, with its time limit, and what they insert is
    worked at once too, as are tasks of a workflow in their order. Those scheduled for later do not
    wait, unless `with_scheduled` is false; those that stay pending and duplicates are not worked.
    What a job raises is raised by the insert, once its outcome is written; with `raises=False` the
    outcome is all there is of it, as in production. A job that is to be tried again, or that
    snoozes, stays as it is then.

    Jobs are kept in a MemoryDatabase of its own, or in `database`: what a Client takes. A job that
    is inserted in a transaction (`insert_tx`) is worked within it.
    """

    def __init__(
        self,
        workers: Workers | Worker[Any],
        database: str | AsyncConnectionPool[Any] | Driver | None = None,
        config: ClientConfig | None = None,
        *,
        clock: Callable[[], datetime] | None = None,
        raises: bool = True,
        with_scheduled: bool = True,
        threads: WorkerThreads | None = None,
    ) -> None:
        """Make a client. `threads` work synchronous jobs: one for each job unless given."""
        if database is None:
            database = MemoryDatabase(clock=clock, schema=config.schema if config else None)
        super().__init__(database, inline_config(workers, config), clock=clock)
        self._raises = raises
        self._threads = threads
        self._with_scheduled = with_scheduled

    async def _send(self, batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
        # All are inserted, or none, before the first one is worked.
        async with self.driver.transaction() as executor:
            inserted = await insert_all(super()._sending(executor), batch, queues)
        return await self.work_inserted(inserted)

    def _sending(self, executor: Executor) -> Send:
        insert = super()._sending(executor)

        async def send(batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
            inserted = await insert_all(insert, batch, queues)
            return await self._within(executor).work_inserted(inserted)

        return send

    def _within(self, executor: Executor) -> InlineClient:
        """Return a client like this one in a transaction of the caller's."""
        assert self.config.workers is not None
        return InlineClient(
            self.config.workers,
            TransactionDriver(self.driver, executor),
            self.config,
            clock=self.clock,
            raises=self._raises,
            with_scheduled=self._with_scheduled,
            threads=self._threads,
        )

    async def work_inserted(self, inserted: Sequence[InsertResult]) -> Sequence[InsertResult]:
        """Work what was inserted, in order; return the jobs as they are then."""
        results = []
        for result in inserted:
            worked = None
            if result.job.state is JobState.PENDING:
                result = await self._again(result)
            if is_worked(result, with_scheduled=self._with_scheduled):
                # A job may delete itself.
                with suppress(NotFound):
                    worked = await work_row(self, result.job, threads=self._threads)
            if worked is not None and worked.error is not None and self._raises:
                raise worked.error
            results.append(result if worked is None else InsertResult(worked.job))
        return results

    async def _again(self, result: InsertResult) -> InsertResult:
        """Return a job that had to wait for others, as it is once those before it are worked."""
        async with self.driver.reading() as executor:
            row = await executor.job_row_get(result.job.id)
        return result if row is None else result._replace(job=row)


def inline_config(workers: Workers | Worker[Any], config: ClientConfig | None) -> ClientConfig:
    """Return how a client is configured that works jobs with these workers, and no queue."""
    if isinstance(workers, Worker):
        worker, workers = workers, Workers()
        workers.add(worker)
    return replace(config or ClientConfig(), queues={}, workers=workers)


def is_worked(result: InsertResult, *, with_scheduled: bool) -> bool:
    """Return whether a job that was inserted is worked at once."""
    states = {JobState.AVAILABLE, JobState.SCHEDULED} if with_scheduled else {JobState.AVAILABLE}
    return not result.unique_skipped_as_duplicate and result.job.state in states


async def insert_all(
    insert: Send, batch: InsertBatch, queues: Sequence[str]
) -> Sequence[InsertResult]:
    """Insert a batch and return its jobs, also of one that is only to be counted."""
    inserted = await insert(batch._replace(fast=False), queues)
    if batch.fast and any(result.unique_skipped_as_duplicate for result in inserted):
        raise UniqueConflict
    return inserted
