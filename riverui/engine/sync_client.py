"""A client without asyncio, for Django, Flask and scripts: the asyncio client's own code, on a
driver whose operations never wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

from riverui.actions.expressions import Evaluation, Expressions
from riverui.domain.jobs import JobRow
from riverui.engine.admin import AdminMethods
from riverui.engine.config import ClientConfig
from riverui.engine.feature_list import features_of
from riverui.engine.insert.insert_methods import InsertMethods
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import JobEnd, Pilot
from riverui.engine.sync_results import SyncJobResults, SyncResultMethods
from riverui.engine.work.context import completed_row, completion_of
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError, InsertError
from riverui.features.dead_letters.engine.methods import DeadLetterMethods
from riverui.features.workflows.engine.methods import (
    IgnoreKeywords,
    WorkflowMaker,
    WorkflowMethods,
    existing,
)
from riverui.features.workflows.engine.workflow import SyncWorkflow, Workflow
from riverui.features.workflows.waits.engine.methods import WaitMethods
from riverui.storage.connect import sync_driver_of
from riverui.storage.interface import Driver, SyncDriver, TwoSidedDriver, WouldWait, at_once

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool
    from sqlalchemy.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")


def _at_once(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Return a method of the asyncio client as one that returns what it gives."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **given: P.kwargs) -> T:
        return self._run(method(self._calls, *args, **given))

    call.__qualname__ = f"SyncClient.{method.__name__}"
    return call


class SyncClient(SyncResultMethods, WorkflowMaker[SyncWorkflow]):
    """Inserts jobs for any River client to work, and looks after jobs, queues, workflows and dead
    letters; safe to share between threads.

    `database` is a URL, a psycopg_pool.ConnectionPool, a SQLAlchemy Engine, or a SyncDriver; None
    leaves it to libpq's `PG*` variables. It is reached at first use: with `_tx` methods alone no
    connection of its own is ever made.

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

    _workflow_type = SyncWorkflow

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
        self._calls = Calls(self.driver, self.config, clock)

    def __repr__(self) -> str:
        return f"<SyncClient of {self.config.schema or 'the schema of the search path'}>"

    # Each has the parameters and the docstring of the asyncio client's.
    insert = _at_once(InsertMethods.insert)
    insert_tx = _at_once(InsertMethods.insert_tx)
    insert_many = _at_once(InsertMethods.insert_many)
    insert_many_tx = _at_once(InsertMethods.insert_many_tx)
    insert_many_fast = _at_once(InsertMethods.insert_many_fast)
    insert_many_fast_tx = _at_once(InsertMethods.insert_many_fast_tx)

    job_get = _at_once(AdminMethods.job_get)
    job_get_tx = _at_once(AdminMethods.job_get_tx)
    job_list = _at_once(AdminMethods.job_list)
    job_list_tx = _at_once(AdminMethods.job_list_tx)
    job_count = _at_once(AdminMethods.job_count)
    job_count_tx = _at_once(AdminMethods.job_count_tx)
    job_cancel = _at_once(AdminMethods.job_cancel)
    job_cancel_tx = _at_once(AdminMethods.job_cancel_tx)
    job_move = _at_once(AdminMethods.job_move)
    job_move_tx = _at_once(AdminMethods.job_move_tx)
    job_retry = _at_once(AdminMethods.job_retry)
    job_retry_tx = _at_once(AdminMethods.job_retry_tx)
    job_delete = _at_once(AdminMethods.job_delete)
    job_delete_tx = _at_once(AdminMethods.job_delete_tx)
    job_delete_many = _at_once(AdminMethods.job_delete_many)
    job_delete_many_tx = _at_once(AdminMethods.job_delete_many_tx)
    job_update = _at_once(AdminMethods.job_update)
    job_update_tx = _at_once(AdminMethods.job_update_tx)

    queue_get = _at_once(AdminMethods.queue_get)
    queue_get_tx = _at_once(AdminMethods.queue_get_tx)
    queue_list = _at_once(AdminMethods.queue_list)
    queue_list_tx = _at_once(AdminMethods.queue_list_tx)
    queue_pause = _at_once(AdminMethods.queue_pause)
    queue_pause_tx = _at_once(AdminMethods.queue_pause_tx)
    queue_resume = _at_once(AdminMethods.queue_resume)
    queue_resume_tx = _at_once(AdminMethods.queue_resume_tx)
    queue_update = _at_once(AdminMethods.queue_update)
    queue_update_tx = _at_once(AdminMethods.queue_update_tx)
    request_resign = _at_once(AdminMethods.request_resign)
    request_resign_tx = _at_once(AdminMethods.request_resign_tx)

    dead_letter_get = _at_once(DeadLetterMethods.dead_letter_get)
    dead_letter_get_tx = _at_once(DeadLetterMethods.dead_letter_get_tx)
    dead_letter_list = _at_once(DeadLetterMethods.dead_letter_list)
    dead_letter_list_tx = _at_once(DeadLetterMethods.dead_letter_list_tx)
    dead_letter_retry = _at_once(DeadLetterMethods.dead_letter_retry)
    dead_letter_retry_tx = _at_once(DeadLetterMethods.dead_letter_retry_tx)
    dead_letter_retry_many = _at_once(DeadLetterMethods.dead_letter_retry_many)
    dead_letter_retry_many_tx = _at_once(DeadLetterMethods.dead_letter_retry_many_tx)
    dead_letter_delete = _at_once(DeadLetterMethods.dead_letter_delete)
    dead_letter_delete_tx = _at_once(DeadLetterMethods.dead_letter_delete_tx)
    dead_letter_delete_many = _at_once(DeadLetterMethods.dead_letter_delete_many)
    dead_letter_delete_many_tx = _at_once(DeadLetterMethods.dead_letter_delete_many_tx)

    workflow_cancel = _at_once(WorkflowMethods.workflow_cancel)
    workflow_cancel_tx = _at_once(WorkflowMethods.workflow_cancel_tx)
    workflow_retry = _at_once(WorkflowMethods.workflow_retry)
    workflow_retry_tx = _at_once(WorkflowMethods.workflow_retry_tx)
    workflow_signal = _at_once(WaitMethods.workflow_signal)
    workflow_signal_tx = _at_once(WaitMethods.workflow_signal_tx)
    workflow_signal_latest = _at_once(WaitMethods.workflow_signal_latest)
    workflow_signal_list = _at_once(WaitMethods.workflow_signal_list)
    workflow_wait_diagnose = _at_once(WaitMethods.workflow_wait_diagnose)

    def workflow_from(
        self, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> SyncWorkflow:
        """Return a workflow that is there, to add tasks to; see the asyncio client's
        `workflow_from`.
        """
        return self._run(self._calls.workflow_from_existing(found, ignored)).bound(self)

    def workflow_from_tx(
        self, tx: object, found: str | Job[Any] | JobRow, **ignored: Unpack[IgnoreKeywords]
    ) -> SyncWorkflow:
        """Return a workflow that is there, as a transaction sees it; see workflow_from."""
        return self._run(self._calls.workflow_from_existing_tx(tx, found, ignored)).bound(self)

    def workflow_call(
        self, workflow: Workflow, call: Callable[[Workflow], Coroutine[Any, Any, T]]
    ) -> T:
        """Return what a workflow of the asyncio client's kind gives; for SyncWorkflow."""
        return self._run(call(workflow.bound(self._calls)))

    def job_complete_tx(self, tx: object, job: Job[Any]) -> None:
        """Complete the job that a synchronous worker is at, inside its transaction: see
        `job_complete_tx`.

        ValueError for a job that is not running, NotFound for one that was deleted, AttemptLost for
        one that was rescued from this attempt and is worked again, ConfigError where a feature
        of somebody's own takes part in how jobs end: that needs the asyncio client.
        """
        if not self._calls.pilot.ends_at_once(job.row):
            raise ConfigError("A feature takes part in how jobs end, which needs the async client.")
        end = JobEnd(job.row, completion_of(job, self.clock()))
        completed_row(job, self._run(self._calls.end_tx(tx, end)))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return at_once(coroutine)
        except WouldWait:
            raise InsertError(
                "a hook, middleware or feature awaits something, which only the asyncio client"
                " can do"
            ) from None

    def close(self) -> None:
        """Give back connections that it opened itself."""
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


class _ExpressionsAtOnce(Expressions):
    """Expressions of waits, evaluated while the caller's thread waits."""

    async def evaluate(
        self,
        programs: Sequence[str],
        contexts: Sequence[str],
        times: Iterable[Sequence[str]] = (),
    ) -> Evaluation:
        """Return what each expression gives in each context; see Expressions."""
        return self.evaluate_now(programs, contexts, tuple(times))


class Calls(InsertMethods, AdminMethods, DeadLetterMethods, WorkflowMethods, WaitMethods):
    """The asyncio client's methods on a synchronous driver, as coroutines that never wait."""

    _expressions = _ExpressionsAtOnce

    def __init__(
        self, driver: SyncDriver, config: ClientConfig, clock: Callable[[], datetime]
    ) -> None:
        self.clock = clock
        self.config = config
        # The methods use no more of a Driver than a SyncDriver has.
        self.driver = cast(Driver, driver)
        self.extensions = config.extensions
        self.pilot = Pilot(features_of(config))
        self._limits = EngineLimits()
        self._init_insert_methods()

    async def end_tx(self, tx: object, end: JobEnd) -> Sequence[JobRow]:
        """Write how an attempt ended, with what follows for the jobs that wait for this one."""
        executor = await self.driver.adopt(tx)
        if self.pilot.wants_end(end.job):
            return await self.pilot.set_state_if_running_many(executor, [end])
        return await executor.job_set_state_many([end.change])

    async def workflow_from_existing(
        self, found: str | Job[Any] | JobRow, ignored: IgnoreKeywords
    ) -> SyncWorkflow:
        """Return a workflow that is there."""
        async with self.driver.autocommit() as executor:
            return await existing(SyncWorkflow, executor, found, ignored)

    async def workflow_from_existing_tx(
        self, tx: object, found: str | Job[Any] | JobRow, ignored: IgnoreKeywords
    ) -> SyncWorkflow:
        """Return a workflow that is there, as a transaction sees it."""
        return await existing(SyncWorkflow, await self.driver.adopt(tx), found, ignored)
