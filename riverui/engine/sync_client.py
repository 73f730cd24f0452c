"""A client without asyncio, for Django, Flask and scripts. It runs the asyncio client's code on a
driver whose operations never wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from riverui.domain.jobs import JobRow
from riverui.engine.admin import AdminMethods
from riverui.engine.config import ClientConfig
from riverui.engine.deprecated import SyncDeprecatedMethods
from riverui.engine.feature_list import SyncDeadLetterBundle, SyncWorkflowBundle, features_of
from riverui.engine.insert.insert_methods import InsertMethods
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import JobEnd, Pilot
from riverui.engine.sync_methods import run_at_once, sync_method
from riverui.engine.sync_results import SyncJobResults, SyncResultMethods
from riverui.engine.work.context import completed_row, completion_of
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError
from riverui.storage.connect import sync_driver_of
from riverui.storage.interface import Driver, SyncDriver, TwoSidedDriver

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool
    from sqlalchemy.engine import Engine


class SyncClient(SyncResultMethods, SyncDeprecatedMethods):
    """Inserts jobs for any River client to work, and manages jobs, queues, workflows and dead
    letters; safe to share between threads.

    `database` is a URL, a psycopg_pool.ConnectionPool, a SQLAlchemy Engine, or a SyncDriver; None
    leaves it to libpq's `PG*` variables. It connects at first use, and never if only `_tx` methods
    are called.

        river = SyncClient()

        with transaction.atomic():                      # Django, on psycopg or psycopg2
            order = Order.objects.create(...)
            river.insert_tx(connection, SendReceipt(order_id=order.id))

        with Session(engine) as session, session.begin():          # SQLAlchemy, also in Flask
            session.add(order)
            river.insert_tx(session, SendReceipt(order_id=order.id))

        with psycopg.connect(url) as connection:        # psycopg
            river.insert_many_tx(connection, [SortWords(words=words), SendReceipt(order_id=7)])

    Without a transaction of the caller's:

        with SyncClient("postgresql://localhost/shop") as river:
            river.insert(SortWords(words=["b", "a"]), queue="slow")

    Its methods are the asyncio client's. In those with `_tx` the transaction is a psycopg or
    psycopg2 Connection, a SQLAlchemy Session or Connection on one of these, or a Django database
    connection. Hooks, middleware and features take part as they do there, but may not wait for
    anything else than the database.
    """

    def __init__(
        self,
        database: str | ConnectionPool[Any] | Engine | SyncDriver | TwoSidedDriver | None = None,
        config: ClientConfig | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.config = config or ClientConfig()
        self.driver: SyncDriver
        self.driver, self._own_driver = sync_driver_of(database, schema=self.config.schema)
        self.clock = clock
        self._results = SyncJobResults(self.driver, poll_only=self.config.poll_only)
        self._calls = self._make_calls()
        self.dead_letters = SyncDeadLetterBundle(self._calls)
        """Methods for dead letters; see SyncDeadLetterBundle."""
        self.workflows = SyncWorkflowBundle(self._calls)
        """Methods for workflows; see SyncWorkflowBundle."""

    def __repr__(self) -> str:
        return f"<SyncClient of {self.config.schema or 'the schema of the search path'}>"

    # Each has the parameters and the docstring of the asyncio client's method.
    insert = sync_method(InsertMethods.insert)
    insert_tx = sync_method(InsertMethods.insert_tx)
    insert_many = sync_method(InsertMethods.insert_many)
    insert_many_tx = sync_method(InsertMethods.insert_many_tx)
    insert_many_fast = sync_method(InsertMethods.insert_many_fast)
    insert_many_fast_tx = sync_method(InsertMethods.insert_many_fast_tx)

    job_get = sync_method(AdminMethods.job_get)
    job_get_tx = sync_method(AdminMethods.job_get_tx)
    job_list = sync_method(AdminMethods.job_list)
    job_list_tx = sync_method(AdminMethods.job_list_tx)
    job_count = sync_method(AdminMethods.job_count)
    job_count_tx = sync_method(AdminMethods.job_count_tx)
    job_cancel = sync_method(AdminMethods.job_cancel)
    job_cancel_tx = sync_method(AdminMethods.job_cancel_tx)
    job_move = sync_method(AdminMethods.job_move)
    job_move_tx = sync_method(AdminMethods.job_move_tx)
    job_retry = sync_method(AdminMethods.job_retry)
    job_retry_tx = sync_method(AdminMethods.job_retry_tx)
    job_delete = sync_method(AdminMethods.job_delete)
    job_delete_tx = sync_method(AdminMethods.job_delete_tx)
    job_delete_many = sync_method(AdminMethods.job_delete_many)
    job_delete_many_tx = sync_method(AdminMethods.job_delete_many_tx)
    job_update = sync_method(AdminMethods.job_update)
    job_update_tx = sync_method(AdminMethods.job_update_tx)

    queue_get = sync_method(AdminMethods.queue_get)
    queue_get_tx = sync_method(AdminMethods.queue_get_tx)
    queue_list = sync_method(AdminMethods.queue_list)
    queue_list_tx = sync_method(AdminMethods.queue_list_tx)
    queue_pause = sync_method(AdminMethods.queue_pause)
    queue_pause_tx = sync_method(AdminMethods.queue_pause_tx)
    queue_resume = sync_method(AdminMethods.queue_resume)
    queue_resume_tx = sync_method(AdminMethods.queue_resume_tx)
    queue_update = sync_method(AdminMethods.queue_update)
    queue_update_tx = sync_method(AdminMethods.queue_update_tx)
    request_resign = sync_method(AdminMethods.request_resign)
    request_resign_tx = sync_method(AdminMethods.request_resign_tx)

    def job_complete_tx(self, tx: object, job: Job[Any]) -> None:
        """Complete the current job of a synchronous worker in its transaction: see
        `job_complete_tx`.

        ValueError if the job is not running, NotFound if it was deleted, AttemptLost if it was
        rescued from this attempt and is being worked again, ConfigError if a feature of the
        program's own takes part in how jobs end: that needs the asyncio client.
        """
        if not self._calls.pilot.ends_at_once(job.row):
            raise ConfigError("A feature takes part in how jobs end, which needs the async client.")
        end = JobEnd(job.row, completion_of(job, self.clock()))
        completed_row(job, run_at_once(self._calls.end_tx(tx, end)))

    def _make_calls(self) -> Calls:
        return Calls(self.driver, self.config, self.clock)

    def close(self) -> None:
        """Close the connections that it opened itself."""
        self._results.close()
        if self._own_driver:
            self.driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Calls(InsertMethods, AdminMethods):
    """The asyncio client's methods on a synchronous driver, as coroutines that never wait."""

    def __init__(
        self, driver: SyncDriver, config: ClientConfig, clock: Callable[[], datetime]
    ) -> None:
        self.clock = clock
        self.config = config
        # Only the methods that a SyncDriver has are used.
        self.driver = cast(Driver, driver)
        self.extensions = config.extensions
        self.pilot = Pilot(features_of(config))
        self._limits = EngineLimits()
        self._init_insert_methods()

    async def end_tx(self, tx: object, end: JobEnd) -> Sequence[JobRow]:
        """Write how an attempt ended, and update jobs that depend on this one."""
        executor = await self.driver.adopt(tx)
        if self.pilot.wants_end(end.job):
            return await self.pilot.set_state_if_running_many(executor, [end])
        return await executor.work.set_state_many([end.change])
