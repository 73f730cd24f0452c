"""A synchronous client that works a job at once where it is inserted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_methods import Send
from riverui.engine.pilot import InsertBatch
from riverui.engine.sync_client import Calls, SyncClient
from riverui.engine.work.worker import Worker
from riverui.engine.work.workers import Workers
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.engine_params import InsertResult
from riverui.testing.blocking import driver_for_a_loop, run_beside
from riverui.testing.inline import InlineClient, inline_config, insert_all, is_worked
from riverui.testing.memory import MemoryDatabase
from riverui.testing.transaction_client import TransactionDriver

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool
    from sqlalchemy.engine import Engine

    from riverui.storage.interface import SyncDriver, TwoSidedDriver


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
