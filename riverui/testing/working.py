"""Work single jobs as a client does, and return the result of each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.json import read_object
from riverui.engine.args.job_args import JobArgs, encode, kind_of
from riverui.engine.client import Client
from riverui.engine.client_context import ClientContext
from riverui.engine.config import ClientConfig
from riverui.engine.events import EventKind, Events
from riverui.engine.hooks import settle
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.work import attempt as at_work
from riverui.engine.work.job_runner import JobRunner
from riverui.engine.work.progress import CURSOR, STEP
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import ErrorResult, Job, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import NotFound
from riverui.storage.connect import connect
from riverui.storage.sqlite.driver import MemoryDatabase
from riverui.testing.transaction import LONGEST, Database, TransactionDriver, rolled_back

if TYPE_CHECKING:
    from riverui.engine.work.attempt import Attempt
    from riverui.storage.interface import Driver, Executor

_ENDS = tuple(kind for kind in EventKind if kind.startswith("job_"))


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkResult:
    """The result of an attempt."""

    event: EventKind
    job: JobRow
    """The job in the database afterwards."""
    error: BaseException | None = None
    """The exception that the worker raised; JobCancel and JobSnooze are not errors."""


async def work(
    database: Database,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    config: ClientConfig | None = None,
) -> WorkResult:
    """Insert a job, work it as a client would, and return the result. `args` may be a job.

    This happens in a transaction that is rolled back, unless the database is in memory or the
    client is in such a transaction already, as the fixture `river` is: then jobs that the
    worker inserts through `client_from_context()` can be checked.
    """
    if isinstance(database, MemoryDatabase):
        database = Client(database, config)
    if isinstance(database, Client) and isinstance(
        database.driver, TransactionDriver | MemoryDatabase
    ):
        config = config or database.config
        return await work_in_place(database.driver, config, workers_of(worker), args, insert_opts)
    async with rolled_back(database, config) as client:
        config = config or client.config
        return await work_in_place(client.driver, config, workers_of(worker), args, insert_opts)


async def work_tx(
    tx: object,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    config: ClientConfig | None = None,
    threads: WorkerThreads | None = None,
) -> WorkResult:
    """Work a job in the caller's transaction, whose rows the job sees; see work.

    A synchronous worker runs in `threads`, or in a thread of its own.
    """
    config = config or ClientConfig()
    driver = connect(schema=config.schema)
    executor = tx if hasattr(tx, "jobs") else await driver.adopt(tx)
    within = TransactionDriver(driver, cast("Executor", executor))
    workers = workers_of(worker)
    return await work_in_place(within, config, workers, args, insert_opts, threads=threads)


def resumable_step_after(opts: InsertOpts | None, step: str) -> InsertOpts:
    """Return options for `work` with which the job resumes after that step."""
    return _with_metadata(opts, {STEP: step})


def resumable_step_at_cursor(opts: InsertOpts | None, step: str, cursor: Any) -> InsertOpts:
    """Return options for `work` with which the job resumes inside that step at the cursor."""
    return _with_metadata(opts, {STEP: step, CURSOR: {step: cursor}})


def _with_metadata(opts: InsertOpts | None, metadata: dict[str, Any]) -> InsertOpts:
    opts = opts or InsertOpts()
    return replace(opts, metadata={**(opts.metadata or {}), **metadata})


def workers_of(worker: Worker[Any] | Workers) -> Workers:
    """Return Workers with this worker, or the given Workers."""
    if isinstance(worker, Workers):
        return worker
    workers = Workers()
    workers.add(worker)
    return workers


async def work_in_place(
    driver: Driver,
    config: ClientConfig,
    workers: Workers,
    job: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    threads: WorkerThreads | None = None,
) -> WorkResult:
    """Work one job, given by args or an existing row, and return the result; a synchronous job runs
    in `threads`.

    Uniqueness is not enforced, so that concurrent tests do not block one another. Raise NotFound if
    the job does not exist, is finished, or was deleted while it was worked.
    """
    # The worker may insert jobs of kinds without a worker in this bundle.
    config = replace(config, queues={}, skip_unknown_job_check=True, workers=workers)
    client = Client(driver, config)
    client.enforce_unique(False)
    row = job if isinstance(job, JobRow) else (await client.insert(job, insert_opts)).job
    result = await work_row(client, row, threads=threads)
    if result is None:
        raise NotFound(f"Job {row.id} does not exist or is already finished.")
    return result


async def work_row(
    client: Client, row: JobRow, *, threads: WorkerThreads | None = None
) -> WorkResult | None:
    """Work an existing job, due or not, and return the result; None if the job is finished or
    deleted. Raise NotFound if it is deleted meanwhile.

    The client's hooks, middleware, time limit and outcome apply, and `client_from_context()`
    returns the client. It need not be started, nor work the job's queue. A synchronous job runs in
    `threads`, or in a thread of its own.
    """
    errors: list[BaseException] = []
    handler = client.config.error_handler

    async def note(row: JobRow, error: BaseException) -> ErrorResult | None:
        errors.append(error)
        return await settle(handler(row, error)) if handler else None

    async with client.driver.autocommit() as executor:
        begun = await executor.work.begin(row.id, client_id=client.id, now=client.clock())
    if begun is None:
        return None
    events = Events(client.logger)
    ends = events.subscribe(*_ENDS)
    parts = replace(
        client.context(), config=replace(client.config, error_handler=note), events=events
    )
    context = copy_context()
    context.run(at_work.client.set, client)
    # The job sees the caller's context variables.
    await asyncio.get_running_loop().create_task(_attempt(parts, begun, threads), context=context)
    events.close()
    event = await anext(ends, None)
    async with client.driver.reading() as executor:
        after = await executor.jobs.row_get(row.id)
    if event is None or event.job is None:
        raise NotFound(f"Job {row.id} was deleted while it was worked.")
    # An ephemeral job has left no row.
    return WorkResult(
        event=event.kind, job=after or event.job, error=errors[-1] if errors else None
    )


async def _attempt(parts: ClientContext, row: JobRow, threads: WorkerThreads | None) -> None:
    """Work a job that runs."""
    # In a thread, isolated or not: what a test has made is in this process.
    runner = JobRunner(parts, threads=threads or 1, isolates=False)
    runner.start()
    try:
        slot = Slot()
        runner.executor.start([runner.executor.attempt(row, slot)])
        await slot.free.wait()
    finally:
        await runner.stop(LONGEST.total_seconds())


class Slot:
    """Room for one attempt, as a producer gives it."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    def release(self, attempt: Attempt) -> None:
        """Note that the attempt is over."""
        self.free.set()

    def stuck(self, attempt: Attempt) -> None:
        """Do nothing: the test has a time limit of its own."""


class WorkContext:
    """The context of a job's code that a test calls directly, and the values that it set."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def job(self) -> Job[Any]:
        """Return the job that `current_job()` returns, to be handed to the code."""
        assert self._attempt.job is not None
        return self._attempt.job

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return what was set so far (`metadata_set`), the output (`record_output`) under the key
        `output`.
        """
        return read_object(self._attempt.metadata())


@contextmanager
def work_context(client: Client, args: object = None) -> Iterator[WorkContext]:
    """Provide the context of a job, for tests that call its code directly: River's WorkContext.

    `client_from_context()` returns `client`, `current_job()` a first attempt of a job with `args`.
    Only the code itself writes to the database.
    """
    now = client.clock()
    row = JobRow(
        id=1,
        state=JobState.RUNNING,
        attempt=1,
        max_attempts=client.config.max_attempts,
        attempted_at=now,
        created_at=now,
        finalized_at=None,
        scheduled_at=now,
        priority=1,
        args="{}" if args is None else encode(args),
        attempted_by=(client.id,),
        errors=(),
        kind="" if args is None else kind_of(args),
        metadata="{}",
        queue="default",
        tags=(),
        unique_key=None,
        unique_states=None,
    )
    attempt = at_work.Attempt(row, None, Slot())
    attempt.job = Job(row, args)
    attempt_set, client_set = at_work.running.set(attempt), at_work.client.set(client)
    try:
        yield WorkContext(attempt)
    finally:
        attempt.done = True
        at_work.running.reset(attempt_set)
        at_work.client.reset(client_set)
