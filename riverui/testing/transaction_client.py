"""Keep a client inside one transaction and work a job there, so that tests leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.stored_json import read_object
from riverui.engine.args.job_args import JobArgs, encode, kind_of
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.events import EventKind
from riverui.engine.hooks import settle
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.work import attempt as at_work
from riverui.engine.work.job_runner import JobRunner
from riverui.engine.work.worker import ErrorResult, Job, Workers
from riverui.errors import NotFound
from riverui.storage import interface
from riverui.storage.interface import (
    LISTENING,
    MIGRATIONS,
    REINDEXING,
    Capability,
    Driver,
    Transaction,
)

if TYPE_CHECKING:
    from riverui.engine.work.attempt import Attempt

LONGEST = timedelta(minutes=10)
"""Time limit of a test's transaction: long enough for a pause in a debugger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkResult:
    """How the attempt at a job ended."""

    event: EventKind
    job: JobRow
    """As it is in the database afterwards."""
    error: BaseException | None = None
    """What `work` raised; a JobCancel or JobSnooze is no error."""


class WorkContext:
    """What surrounds a job's code that a test calls directly, and what that code set."""

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
    """Surround code with what it finds inside a job, for tests that call it directly: River's
    WorkContext.

    `client_from_context()` gives `client`, `current_job()` a first attempt at a job with `args`.
    Nothing is written to the database but what the code writes itself.
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
    attempt = at_work.Attempt(row, None, _Slot())
    attempt.job = Job(row, args)
    attempt_set, client_set = at_work.running.set(attempt), at_work.client.set(client)
    try:
        yield WorkContext(attempt)
    finally:
        attempt.done = True
        at_work.running.reset(attempt_set)
        at_work.client.reset(client_set)


class TransactionDriver:
    """A Driver of one transaction, in which every other one becomes a savepoint."""

    def __init__(self, driver: Driver, executor: interface.Executor) -> None:
        self._driver = driver
        self._executor = executor
        self._lock = asyncio.Lock()
        self._speaker: asyncio.Task[object] | None = None

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """Return the driver's, except those that need a connection of their own."""
        return frozenset(self._driver.capabilities) - {LISTENING, MIGRATIONS, REINDEXING}

    @property
    def product(self) -> str:
        """Return the name of the database product as people write it."""
        return self._driver.product

    @property
    def library(self) -> tuple[str, str]:
        """Return name and version of the package by which the database is reached."""
        return self._driver.library

    @property
    def schema(self) -> str | None:
        """Return the schema that holds River's tables; None for the search path's."""
        return self._driver.schema

    @property
    def database(self) -> str:
        """Return the database's name."""
        return self._driver.database

    @property
    def read_only(self) -> str:
        """Return why the database takes no changes; empty where it does."""
        return self._driver.read_only

    @property
    def schema_in_use(self) -> str:
        """Return the schema, or else the first of the search path."""
        return self._driver.schema_in_use

    def reading(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[interface.Executor]:
        """Begin a savepoint in the transaction."""
        return self._turn()

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a savepoint in the transaction."""
        return self._turn()

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[interface.Executor]:
        """Begin a savepoint in the transaction."""
        return self._turn()

    def apart(self) -> Driver:
        """Raise NotImplementedError: another connection would not see the transaction."""
        raise NotImplementedError("a client inside a transaction has no other connection")

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[interface.Executor]:
        """Lend the transaction, which others use meanwhile."""
        return nullcontext(self._executor)

    async def adopt(self, transaction: object) -> Transaction:
        """Return operations inside a transaction of the caller's, or inside this one."""
        if transaction is self._executor:
            return cast(Transaction, self._executor)
        return await self._driver.adopt(transaction)

    async def ping(self) -> None:
        """Check that the database answers."""
        await self._driver.ping()

    async def close(self) -> None:
        """Do nothing: whoever began the transaction ends it."""

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Transaction]:
        """Begin a savepoint for the task at hand; others wait, as theirs could not end in turn."""
        if self._speaker is (task := asyncio.current_task()):
            async with self._savepoint() as tx:
                yield tx
            return
        async with self._lock:
            self._speaker = task
            try:
                async with self._savepoint() as tx:
                    yield tx
            finally:
                self._speaker = None

    @asynccontextmanager
    async def _savepoint(self) -> AsyncIterator[Transaction]:
        # In a transaction of the caller's there are none: an error of the database ends it.
        tx = cast(Transaction, self._executor)
        if not hasattr(tx, "savepoint"):
            yield tx
            return
        try:
            async with tx.savepoint():
                try:
                    yield tx
                except asyncio.CancelledError as cancelled:
                    raise _Interrupted from cancelled
        except _Interrupted as interrupted:
            raise asyncio.CancelledError from interrupted


class _Interrupted(Exception):
    """Raised through a savepoint in place of a cancellation, which would end the transaction."""


class _Slot:
    """Room for one attempt, as a producer gives it."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    def release(self, attempt: Attempt) -> None:
        """Note that the attempt is over."""
        self.free.set()

    def stuck(self, attempt: Attempt) -> None:
        """Do nothing: the test has a time limit of its own."""


async def work_in_transaction(
    driver: TransactionDriver,
    config: ClientConfig,
    workers: Workers,
    job: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
) -> WorkResult:
    """Work one job as a client does, args or a row that is there, and return how it ended.

    Hooks, middleware, time limit and outcome are those of a client. Uniqueness is not enforced, so
    that tests side by side do not wait for one another. NotFound where the job does not exist, is
    finished, or was deleted while it was worked.
    """
    errors: list[BaseException] = []
    handler = config.error_handler

    async def note(row: JobRow, error: BaseException) -> ErrorResult | None:
        errors.append(error)
        return await settle(handler(row, error)) if handler else None

    # The worker may insert jobs of kinds that this one bundle does not know.
    config = replace(
        config, error_handler=note, queues={}, skip_unknown_job_check=True, workers=workers
    )
    client = Client(driver, config)
    client.enforce_unique(False)
    row = job if isinstance(job, JobRow) else (await client.insert(job, insert_opts)).job
    async with driver.autocommit() as executor:
        begun = await executor.job_begin(row.id, client_id=client.id, now=client.clock())
    if begun is None:
        raise NotFound(f"Job {row.id} does not exist or is already finished.")
    context = copy_context()
    context.run(at_work.client.set, client)
    events = client.events.subscribe(*(kind for kind in EventKind if kind.startswith("job_")))
    await asyncio.get_running_loop().create_task(_perform(client, begun), context=context)
    client.events.close()
    event = await anext(events, None)
    async with driver.reading() as executor:
        after = await executor.job_row_get(row.id)
    if event is None or after is None:
        raise NotFound(f"Job {row.id} was deleted while it was worked.")
    return WorkResult(event=event.kind, job=after, error=errors[-1] if errors else None)


async def _perform(client: Client, row: JobRow) -> None:
    runner = JobRunner(client.context(), threads=1)
    runner.start()
    try:
        slot = _Slot()
        runner.executor.start([runner.executor.attempt(row, slot)])
        await slot.free.wait()
    finally:
        await runner.stop(LONGEST.total_seconds())
