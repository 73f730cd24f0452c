"""A client without asyncio, that inserts jobs and looks after workflows: for Django and scripts."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from riverui.domain.jobs import JobRow
from riverui.engine.args.job_args import JobArgs
from riverui.engine.config import ClientConfig
from riverui.engine.feature_list import features_of
from riverui.engine.features.waits.methods import Signal, SignalMethods, SignalOpts
from riverui.engine.features.workflows.methods import WorkflowMaker, WorkflowMethods, existing
from riverui.engine.features.workflows.workflow import SyncWorkflow, Workflow
from riverui.engine.insert.insert_methods import InsertMethods
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import JobEnd, Pilot
from riverui.engine.work.context import completed_row, completion_of
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError, InsertError
from riverui.storage.connect import sync_driver_of
from riverui.storage.interface import Capability, Driver, SyncDriver, SyncExecutor
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool
    from sqlalchemy.engine import Engine

T = TypeVar("T")


class SyncClient(WorkflowMaker[SyncWorkflow]):
    """Inserts jobs for any River client to work; safe to share between threads.

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
            river.insert(SortWords(words=["b", "a"]), insert_opts=InsertOpts(queue="slow"))

    Hooks and middleware run as in the asyncio client, but may not wait for anything.
    """

    _workflow_type = SyncWorkflow

    def __init__(
        self,
        database: str | ConnectionPool[Any] | Engine | SyncDriver | None = None,
        config: ClientConfig | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.config = config or ClientConfig()
        self.driver: SyncDriver
        self.driver, self._own_driver = sync_driver_of(database, schema=self.config.schema)
        self.clock = clock
        self._inserts = _Inserts(self.driver, self.config, clock)

    def __repr__(self) -> str:
        return (
            "<SyncClient: inserts only, into"
            f" {self.config.schema or 'the schema of the search path'}>"
        )

    def insert(self, args: JobArgs, insert_opts: InsertOpts | None = None) -> InsertResult:
        """Insert a job, or return the one that is there already where it is unique."""
        return _run(self._inserts.insert(args, insert_opts))

    def insert_tx(
        self, tx: object, args: JobArgs, insert_opts: InsertOpts | None = None
    ) -> InsertResult:
        """Insert a job in a transaction of the caller's.

        `tx` is a psycopg Connection, a SQLAlchemy Session or Connection, or a Django database
        connection.
        """
        return _run(self._inserts.insert_tx(tx, args, insert_opts))

    def insert_many(self, jobs: Iterable[JobArgs | InsertManyParams]) -> Sequence[InsertResult]:
        """Insert jobs, args or InsertManyParams, all or none; return one result for each, in
        order.
        """
        return _run(self._inserts.insert_many(jobs))

    def insert_many_tx(
        self, tx: object, jobs: Iterable[JobArgs | InsertManyParams]
    ) -> Sequence[InsertResult]:
        """Insert jobs in a transaction of the caller's; see insert_tx."""
        return _run(self._inserts.insert_many_tx(tx, jobs))

    def insert_many_fast(self, jobs: Iterable[JobArgs | InsertManyParams]) -> int:
        """Insert jobs by COPY and return only their number; raise UniqueConflict where a unique job
        is there already.
        """
        return _run(self._inserts.insert_many_fast(jobs))

    def insert_many_fast_tx(self, tx: object, jobs: Iterable[JobArgs | InsertManyParams]) -> int:
        """Insert jobs by COPY in a transaction of the caller's, on psycopg; see
        insert_many_fast.
        """
        return _run(self._inserts.insert_many_fast_tx(tx, jobs))

    def workflow_call(
        self, workflow: Workflow, call: Callable[[Workflow], Coroutine[Any, Any, T]]
    ) -> T:
        """Return what a workflow of the asyncio client's kind gives; for SyncWorkflow."""
        return _run(call(workflow.bound(self._inserts)))

    def workflow_from(self, found: str | Job[Any] | JobRow, **ignored: bool) -> SyncWorkflow:
        """Return a workflow that is there, to add tasks to; see the asyncio client's
        `workflow_from`.
        """
        return _run(self._inserts.workflow_from_existing(found, ignored)).bound(self)

    def workflow_cancel(self, id: str) -> Sequence[int]:
        """Cancel all tasks that have not ended; see the asyncio client's `workflow_cancel`."""
        return _run(self._inserts.workflow_cancel(id))

    def workflow_cancel_tx(self, tx: object, id: str) -> Sequence[int]:
        """Cancel a workflow when the transaction commits; see insert_tx."""
        return _run(self._inserts.workflow_cancel_tx(tx, id))

    def workflow_retry(
        self, id: str, mode: str = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Let the tasks of a workflow that has ended run again; see the asyncio client's
        `workflow_retry`.
        """
        return _run(self._inserts.workflow_retry(id, mode, reset_history=reset_history))

    def workflow_retry_tx(
        self, tx: object, id: str, mode: str = "all", *, reset_history: bool = False
    ) -> Sequence[int]:
        """Retry a workflow when the transaction commits; see insert_tx."""
        retried = self._inserts.workflow_retry_tx(tx, id, mode, reset_history=reset_history)
        return _run(retried)

    def workflow_signal(
        self, id: str, key: str, payload: Any = None, **opts: Unpack[SignalOpts]
    ) -> Signal:
        """Tell a workflow something; see the asyncio client's `workflow_signal`."""
        return _run(self._inserts.workflow_signal(id, key, payload, **opts))

    def workflow_signal_tx(
        self, tx: object, id: str, key: str, payload: Any = None, **opts: Unpack[SignalOpts]
    ) -> Signal:
        """Tell a workflow something when the transaction commits; see insert_tx."""
        return _run(self._inserts.workflow_signal_tx(tx, id, key, payload, **opts))

    def job_complete_tx(self, tx: object, job: Job[Any]) -> None:
        """Complete the job that a synchronous worker is at, inside its transaction: see
        `job_complete_tx`.

        ValueError for a job that is not running, NotFound for one that was deleted, AttemptLost for
        one that was rescued from this attempt and is worked again, ConfigError where a feature
        of somebody's own takes part in how jobs end: that needs the asyncio client.
        """
        if not self._inserts.pilot.ends_at_once(job.row):
            raise ConfigError("A feature takes part in how jobs end, which needs the async client.")
        end = JobEnd(job.row, completion_of(job, self.clock()))
        completed_row(job, _run(self._inserts.end_tx(tx, end)))

    def close(self) -> None:
        """Give back connections that it opened itself."""
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


class _Inserts(InsertMethods, SignalMethods, WorkflowMethods):
    """The asyncio client's inserts on a synchronous driver, as coroutines that never wait."""

    def __init__(
        self, driver: SyncDriver, config: ClientConfig, clock: Callable[[], datetime]
    ) -> None:
        self.clock = clock
        self.config = config
        self.driver = cast(Driver, _AtOnce(driver))
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
        self, found: str | Job[Any] | JobRow, ignored: Mapping[str, bool]
    ) -> SyncWorkflow:
        """Return a workflow that is there."""
        async with self.driver.autocommit() as executor:
            return await existing(SyncWorkflow, executor, found, ignored)


class _AtOnce:
    """What InsertMethods asks of a driver, done by a synchronous one before it is awaited."""

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[_ExecutorAtOnce]:
        """Begin a transaction."""
        return _at_once(self._driver.transaction(timeout=timeout))

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[_ExecutorAtOnce]:
        """Lend a connection on which each call is a transaction of its own."""
        return _at_once(self._driver.autocommit(timeout=timeout))

    async def adopt(self, transaction: object) -> _ExecutorAtOnce:
        """Return the operations inside the caller's own transaction."""
        return _ExecutorAtOnce(self._driver.adopt(transaction))


@asynccontextmanager
async def _at_once(
    opened: AbstractContextManager[SyncExecutor],
) -> AsyncIterator[_ExecutorAtOnce]:
    with opened as executor:
        yield _ExecutorAtOnce(executor)


class _ExecutorAtOnce:
    """The operations of a synchronous driver, as features call them."""

    def __init__(self, executor: SyncExecutor) -> None:
        self._executor = executor

    async def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs."""
        return self._executor.job_insert_many(jobs, notify=notify)

    async def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """Insert jobs by COPY."""
        return self._executor.job_insert_many_fast(jobs, notify=notify)

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """What the driver offers besides."""
        return self._executor.capabilities

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return another operation of the driver, done before it is awaited; InsertError where the
        synchronous driver has none of that name.
        """
        operation = getattr(self._executor, name, None)
        if operation is None:
            raise InsertError(f"a feature calls {name}, which only the asyncio client can do")

        async def at_once(*args: Any, **given: Any) -> Any:
            return operation(*args, **given)

        return at_once


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, because what it awaits is done at once."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # the coroutine's own type says what it is
    coroutine.close()
    raise InsertError("a hook or middleware awaits something, which only the asyncio client can do")
