"""An engine for a synchronous test: in another thread, while synchronous jobs are in the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from datetime import timedelta
from threading import Thread
from typing import Any, TypeVar, cast

from riverui.engine.work.threads import WorkerThreads
from riverui.storage.interface import WORKING, Capability, Driver, Executor, SyncDriver, Transaction
from riverui.testing.transaction_client import TransactionDriver

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
