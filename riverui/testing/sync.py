"""The helpers of `riverui.testing` without asyncio, for tests of programs with a SyncClient.

    def test_an_order_is_paid(client, session):                 # Flask with SQLAlchemy
        client.post("/orders/7/pay")

        job = require_inserted_tx(session, SendReceipt, queue="mail")
        assert job.args.order_id == 7
        require_not_inserted_tx(session, SendReminder)

    class ReceiptTest(TestCase):                                # Django
        def test_it_is_sent(self):
            result = work_tx(connection, workers, SendReceipt(order_id=self.order.id))
            self.assertEqual(result.event, EventKind.JOB_COMPLETED)

Functions with `_tx` take an open transaction: of psycopg, psycopg2, SQLAlchemy's Session or
Connection on one of these, or Django. The others take a SyncClient, or the database of one: a URL,
a pool, a MemoryDatabase. A synchronous worker runs in the test's thread, so that it may use the
test's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, cast, overload

from riverui.domain.jobs import JobRow
from riverui.engine.args.job_args import JobArgs
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.events import EventKind
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.storage.connect import connect_sync
from riverui.storage.interface import Executor, SyncDriver, TwoSidedDriver, at_once, entered
from riverui.storage.sqlite.driver import MemoryDatabase
from riverui.testing import expectations
from riverui.testing.drain import MAX_JOBS, DrainResult, drained
from riverui.testing.expectations import Expected, Options
from riverui.testing.inline import (
    InlineSyncClient,
    OneTransaction,
    driver_for_event_loop,
    run_in_other_thread,
)
from riverui.testing.transaction import LONGEST
from riverui.testing.working import WorkResult, work_in_place, workers_of

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool
    from sqlalchemy.engine import Engine

__all__ = [
    "DrainResult",
    "EventKind",
    "Expected",
    "InlineSyncClient",
    "WorkResult",
    "drain",
    "require_inserted",
    "require_inserted_tx",
    "require_many_inserted",
    "require_many_inserted_tx",
    "require_not_inserted",
    "require_not_inserted_tx",
    "rolled_back",
    "work",
    "work_tx",
]

A = TypeVar("A")
T = TypeVar("T")

Database: TypeAlias = (
    "SyncClient | SyncDriver | TwoSidedDriver | ConnectionPool[Any] | Engine | str | None"
)
"""A database: a client, or any database that a SyncClient takes."""


@overload
def require_inserted(
    database: Database, expected: type[A], **options: Unpack[Options]
) -> Job[A]: ...
@overload
def require_inserted(database: Database, expected: A, **options: Unpack[Options]) -> Job[A]: ...
def require_inserted(database: Database, expected: Any, **options: Unpack[Options]) -> Job[Any]:
    """Return the only job of that kind; raise AssertionError if it is missing, not the only one, or
    different.
    """
    return _with_executor(
        database, lambda executor: expectations.require_inserted_tx(executor, expected, **options)
    )


@overload
def require_inserted_tx(
    tx: object, expected: type[A], *, schema: str | None = None, **options: Unpack[Options]
) -> Job[A]: ...
@overload
def require_inserted_tx(
    tx: object, expected: A, *, schema: str | None = None, **options: Unpack[Options]
) -> Job[A]: ...
def require_inserted_tx(
    tx: object, expected: Any, *, schema: str | None = None, **options: Unpack[Options]
) -> Job[Any]:
    """Return the only job of that kind that an open transaction inserted; see require_inserted."""
    return at_once(expectations.require_inserted_tx(_adopted(tx, schema), expected, **options))


def require_not_inserted(database: Database, expected: Any, **options: Unpack[Options]) -> None:
    """Raise AssertionError if a job of that kind matches all options."""
    _with_executor(
        database,
        lambda executor: expectations.require_not_inserted_tx(executor, expected, **options),
    )


def require_not_inserted_tx(
    tx: object, expected: Any, *, schema: str | None = None, **options: Unpack[Options]
) -> None:
    """Raise AssertionError if an open transaction has inserted such a job; see
    require_not_inserted.
    """
    at_once(expectations.require_not_inserted_tx(_adopted(tx, schema), expected, **options))


def require_many_inserted(database: Database, expected: Sequence[Any]) -> Sequence[Job[Any]]:
    """Return the jobs of the expected kinds; raise AssertionError unless they are exactly these, in
    this order. Use Expected to give a job options.
    """
    return _with_executor(
        database, lambda executor: expectations.require_many_inserted_tx(executor, expected)
    )


def require_many_inserted_tx(
    tx: object, expected: Sequence[Any], *, schema: str | None = None
) -> Sequence[Job[Any]]:
    """Return the expected jobs of those that an open transaction has inserted; see
    require_many_inserted.
    """
    return at_once(expectations.require_many_inserted_tx(_adopted(tx, schema), expected))


def work(
    database: Database,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    config: ClientConfig | None = None,
) -> WorkResult:
    """Insert a job, work it as a client would, and return the result. `args` may be a job.

    This happens in a transaction that is rolled back, unless the client's database is in memory or
    the client is in such a transaction already. A synchronous worker runs in this thread, an
    asynchronous one in the event loop of another.
    """
    if isinstance(database, MemoryDatabase):
        database = SyncClient(database, config)
    if isinstance(database, SyncClient) and (
        isinstance(database.driver, OneTransaction)
        or getattr(database.driver, "is_temporary", False)
    ):
        return _work(database.driver, config or database.config, worker, args, insert_opts)
    with rolled_back(database, config) as client:
        return _work(client.driver, config or client.config, worker, args, insert_opts)


def work_tx(
    tx: object,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    config: ClientConfig | None = None,
) -> WorkResult:
    """Work a job in the caller's transaction, whose rows the job sees; see work."""
    config = config or ClientConfig()
    driver = connect_sync(schema=config.schema)
    within = OneTransaction(driver, _adopted(tx, config.schema))
    return _work(within, config, worker, args, insert_opts)


@contextmanager
def rolled_back(
    database: Database = None, config: ClientConfig | None = None
) -> Iterator[SyncClient]:
    """Yield a client in a transaction that is rolled back."""
    with _client(database, config) as client:
        try:
            with entered(client.driver.transaction(timeout=LONGEST)) as tx:
                yield SyncClient(OneTransaction(client.driver, tx), config or client.config)
                raise _RollBack
        except _RollBack:
            return


class _RollBack(Exception):
    """Raised to roll a transaction back on purpose."""


def _work(
    driver: SyncDriver,
    config: ClientConfig,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None,
) -> WorkResult:
    within, workers = driver_for_event_loop(driver), workers_of(worker)
    return run_in_other_thread(
        lambda threads: work_in_place(within, config, workers, args, insert_opts, threads=threads)
    )


def drain(
    client: SyncClient,
    workers: Workers | Worker[Any] | None = None,
    *,
    most_jobs: int = MAX_JOBS,
    queue: str | None = None,
    raises: bool = False,
    with_scheduled: bool | datetime = False,
) -> DrainResult:
    """Work all waiting jobs one after the other, and return the results; see
    `riverui.testing.drain`.
    """
    within = Client(driver_for_event_loop(client.driver), client.config, clock=client.clock)
    return run_in_other_thread(
        lambda threads: drained(
            within,
            workers,
            most_jobs=most_jobs,
            queue=queue,
            raises=raises,
            threads=threads,
            with_scheduled=with_scheduled,
        )
    )


def _with_executor(database: Database, look: Callable[[Executor], Coroutine[Any, Any, T]]) -> T:
    with _client(database) as client, entered(client.driver.autocommit()) as executor:
        return at_once(look(executor))


def _client(
    database: Database, config: ClientConfig | None = None
) -> AbstractContextManager[SyncClient]:
    return (
        nullcontext(database) if isinstance(database, SyncClient) else SyncClient(database, config)
    )


def _adopted(tx: object, schema: str | None) -> Executor:
    if hasattr(tx, "jobs"):
        return cast("Executor", tx)
    return at_once(connect_sync(schema=schema).adopt(tx))
