"""Clients that work each job where it is inserted, and the threads for tests without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_methods import Send
from riverui.engine.pilot import InsertBatch
from riverui.engine.sync_client import Calls, SyncClient
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import Worker
from riverui.engine.work.workers import Workers
from riverui.errors import NotFound, UniqueConflict
from riverui.storage.interface import WORKING, Capability, Driver, Executor, SyncDriver, Transaction
from riverui.storage.interface.engine_params import InsertResult
from riverui.storage.memory.driver import MemoryDatabase
from riverui.testing.transaction import TransactionDriver
from riverui.testing.working import work_row

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool, ConnectionPool
    from sqlalchemy.engine import Engine

    from riverui.storage.interface import TwoSidedDriver


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


T = TypeVar("T")


class OneTransaction(TransactionDriver):
    """A SyncDriver of one transaction, in which every other one becomes a savepoint."""

    is_synchronous = True

    def __init__(self, driver: SyncDriver, executor: Executor) -> None:
        # The parent uses no more of a Driver than a SyncDriver has.
        super().__init__(cast("Driver", driver), executor)

    def for_a_loop(self) -> TransactionDriver:
        """Return a driver of the same transaction for an asyncio client."""
        return TransactionDriver(self._driver, self._executor)

    def close(self) -> None:  # type: ignore[override]  # as SyncDriver has it
        """Do nothing: whoever began the transaction ends it."""

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Transaction]:
        # Nothing of it waits, so nobody comes between.
        async with self._savepoint() as tx:
            yield tx


class LoopDriver:
    """A SyncDriver as one for an asyncio client, which works no other jobs than it is told to."""

    capabilities: Collection[Capability[Any]] = frozenset({WORKING})

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver
        self.schema = getattr(driver, "schema", None)
        self.adopt = driver.adopt
        self.autocommit = driver.autocommit
        self.reading = driver.autocommit
        self.transaction = driver.transaction

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        """Lend the operations, each a transaction of its own."""
        return self._driver.autocommit(timeout=timeout)

    async def close(self) -> None:
        """Do nothing: the synchronous client closes it."""


def driver_for_a_loop(driver: SyncDriver) -> Driver:
    """Return the same database for an asyncio client, which does not wait while it is asked."""
    if isinstance(driver, OneTransaction):
        return driver.for_a_loop()
    # What works a job uses no more of a Driver than this.
    return cast("Driver", LoopDriver(driver))


def run_beside(run: Callable[[WorkerThreads], Coroutine[Any, Any, T]]) -> T:
    """Return what a coroutine gives that runs in an event loop of another thread; the threads that
    it is given are this one, so that synchronous jobs may use the test's own transaction.
    """
    threads = _CallersThread(0, given=1)
    ended: list[T | BaseException] = []

    def engine() -> None:
        try:
            ended.append(asyncio.run(run(threads)))
        except BaseException as error:
            ended.append(error)
        finally:
            threads.end()

    thread = Thread(target=copy_context().run, args=(engine,), name="riverui test", daemon=True)
    thread.start()
    threads.serve()
    thread.join()
    (end,) = ended
    if isinstance(end, BaseException):
        raise end
    return end


class _CallersThread(WorkerThreads):
    """The thread that calls `serve`, for one job after the other."""

    def close(self) -> None:
        """Do nothing: another job may come."""

    def end(self) -> None:
        """Unblock the thread."""
        super().close()


class InlineSyncClient(SyncClient):
    """A SyncClient that works each job before its insert returns; see InlineClient.

        river = InlineSyncClient(workers)
        river.insert(SendWelcome(to="ann@example.com"))
        assert outbox == ["ann@example.com"]

    A synchronous worker runs in the caller's thread, and so in the transaction of a test that has
    one; an asynchronous one in the event loop of another thread.
    """

    def __init__(
        self,
        workers: Workers | Worker[Any],
        database: (str | ConnectionPool[Any] | Engine | SyncDriver | TwoSidedDriver | None) = None,
        config: ClientConfig | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        raises: bool = True,
        with_scheduled: bool = True,
    ) -> None:
        if database is None:
            database = MemoryDatabase(clock=clock, schema=config.schema if config else None)
        self._raises = raises
        self._with_scheduled = with_scheduled
        super().__init__(database, inline_config(workers, config), clock=clock)

    def _make_calls(self) -> Calls:
        return _InlineCalls(self, raises=self._raises, with_scheduled=self._with_scheduled)


class _InlineCalls(Calls):
    def __init__(self, client: SyncClient, *, raises: bool, with_scheduled: bool) -> None:
        super().__init__(client.driver, client.config, client.clock)
        self._raises = raises
        self._sync_driver = client.driver
        self._with_scheduled = with_scheduled

    async def _send(self, batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
        async with self.driver.transaction() as executor:
            inserted = await insert_all(super()._sending(executor), batch, queues)
        return self._worked(driver_for_a_loop(self._sync_driver), inserted)

    def _sending(self, executor: Executor) -> Send:
        insert = super()._sending(executor)

        async def send(batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
            inserted = await insert_all(insert, batch, queues)
            return self._worked(TransactionDriver(self.driver, executor), inserted)

        return send

    def _worked(self, driver: Driver, inserted: Sequence[InsertResult]) -> Sequence[InsertResult]:
        """Work what was inserted while the caller waits; return the jobs as they are then."""
        assert self.config.workers is not None
        workers, config = self.config.workers, self.config
        if not any(is_worked(each, with_scheduled=self._with_scheduled) for each in inserted):
            return inserted
        return run_beside(
            lambda threads: InlineClient(
                workers,
                driver,
                config,
                clock=self.clock,
                raises=self._raises,
                threads=threads,
                with_scheduled=self._with_scheduled,
            ).work_inserted(inserted)
        )
