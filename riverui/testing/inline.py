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
from riverui.storage.sqlite.driver import MemoryDatabase
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

    Jobs are worked as by a running client: args are written as JSON and decoded, and the worker,
    hooks, middleware and time limit of their kind apply. Jobs that they insert are worked at once
    too, and tasks of a workflow in their order. Jobs scheduled for later do not wait, unless
    `with_scheduled` is false; pending jobs and duplicates are not worked. The insert raises the
    job's exception after its outcome is written; with `raises=False` there is only the outcome, as
    in production. A job that is retried or snoozes is left in that state.

    Jobs are stored in a new MemoryDatabase, or in `database`, which may be anything that a Client
    takes. A job that is inserted in a transaction (`insert_tx`) is worked within it.
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
        """Create a client. Synchronous jobs run in `threads`, or each in a thread of its own."""
        if database is None:
            database = MemoryDatabase(clock=clock, schema=config.schema if config else None)
        super().__init__(database, inline_config(workers, config), clock=clock)
        self._raises = raises
        self._threads = threads
        self._with_scheduled = with_scheduled

    async def _send(self, batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
        # Insert all or none before the first one is worked.
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
        """Return a copy of this client in the caller's transaction."""
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
        """Work the inserted jobs in order; return them as they are afterwards."""
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
        """Return a job that waited for others, as it is after those before it."""
        async with self.driver.reading() as executor:
            row = await executor.jobs.row_get(result.job.id)
        return result if row is None else result._replace(job=row)


def inline_config(workers: Workers | Worker[Any], config: ClientConfig | None) -> ClientConfig:
    """Return the configuration of a client with these workers and without queues."""
    if isinstance(workers, Worker):
        worker, workers = workers, Workers()
        workers.add(worker)
    return replace(config or ClientConfig(), queues={}, workers=workers)


def is_worked(result: InsertResult, *, with_scheduled: bool) -> bool:
    """Return whether an inserted job is worked at once."""
    states = {JobState.AVAILABLE, JobState.SCHEDULED} if with_scheduled else {JobState.AVAILABLE}
    return not result.unique_skipped_as_duplicate and result.job.state in states


async def insert_all(
    insert: Send, batch: InsertBatch, queues: Sequence[str]
) -> Sequence[InsertResult]:
    """Insert a batch and return its jobs, even if only their number was requested."""
    inserted = await insert(batch._replace(fast=False), queues)
    if batch.fast and any(result.unique_skipped_as_duplicate for result in inserted):
        raise UniqueConflict
    return inserted


T = TypeVar("T")


class OneTransaction(TransactionDriver):
    """A SyncDriver of one transaction, whose transactions are savepoints."""

    is_synchronous = True

    def __init__(self, driver: SyncDriver, executor: Executor) -> None:
        # The parent uses only methods that a SyncDriver has as well.
        super().__init__(cast("Driver", driver), executor)

    def for_event_loop(self) -> TransactionDriver:
        """Return a driver of the same transaction for an asyncio client."""
        return TransactionDriver(self._driver, self._executor)

    def close(self) -> None:  # type: ignore[override]  # as SyncDriver has it
        """Do nothing: the caller ends the transaction."""

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Transaction]:
        # Nothing in it awaits, so no other task can interfere.
        async with self._savepoint() as tx:
            yield tx


class LoopDriver:
    """A SyncDriver for an asyncio client that only works given jobs."""

    capabilities: Collection[Capability[Any]] = frozenset({WORKING})

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver
        self.schema = getattr(driver, "schema", None)
        self.adopt = driver.adopt
        self.autocommit = driver.autocommit
        self.reading = driver.autocommit
        self.transaction = driver.transaction

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        """Provide the operations, each in a transaction of its own."""
        return self._driver.autocommit(timeout=timeout)

    async def close(self) -> None:
        """Do nothing: the synchronous client closes it."""


def driver_for_event_loop(driver: SyncDriver) -> Driver:
    """Return a driver of the same database for an asyncio client; its calls block."""
    if isinstance(driver, OneTransaction):
        return driver.for_event_loop()
    # Working a job uses only these methods of a Driver.
    return cast("Driver", LoopDriver(driver))


def run_in_other_thread(run: Callable[[WorkerThreads], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of another thread and return its result. The threads that it
    gets are this one, so that synchronous jobs may use the test's transaction.
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
    """The calling thread of `serve`, for one job after the other."""

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

    A synchronous worker runs in the caller's thread, and so in its transaction; an asynchronous one
    in the event loop of another thread.
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
        return self._worked(driver_for_event_loop(self._sync_driver), inserted)

    def _sending(self, executor: Executor) -> Send:
        insert = super()._sending(executor)

        async def send(batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
            inserted = await insert_all(insert, batch, queues)
            return self._worked(TransactionDriver(self.driver, executor), inserted)

        return send

    def _worked(self, driver: Driver, inserted: Sequence[InsertResult]) -> Sequence[InsertResult]:
        """Work the inserted jobs, blocking the caller; return them as they are afterwards."""
        assert self.config.workers is not None
        workers, config = self.config.workers, self.config
        if not any(is_worked(each, with_scheduled=self._with_scheduled) for each in inserted):
            return inserted
        return run_in_other_thread(
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
