"""Helpers for tests of a Django project: check inserted jobs, and work them.

    class OrderTests(TestCase):
        def test_a_receipt_is_sent(self):
            self.client.post("/orders/", {"email": "ann@example.com", "total": "3.50"})

            job = require_inserted(SendReceipt, queue="mail")
            work_jobs()
            assert len(mail.outbox) == 1

They use the test's connection, and so the transaction of a TestCase. After a TransactionTestCase,
River's tables are emptied as all others are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, TypeVar, Unpack, overload

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

import riverui
from riverui.contrib.django.client import DjangoDriver, discover
from riverui.contrib.django.config import river_settings
from riverui.domain.jobs import JobRow, JobState
from riverui.engine.config import ClientConfig
from riverui.engine.events import EventKind as EventKind
from riverui.engine.hooks import DoInner, Middleware
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.storage.interface import at_once
from riverui.storage.interface.engine_params import JobSelectParams

# By the public name: the two packages know nothing of each other.
Expected = riverui.testing.Expected
Options = riverui.testing.Options
WorkResult = riverui.testing.WorkResult

__all__ = [
    "EventKind",
    "Expected",
    "WorkResult",
    "require_inserted",
    "require_many_inserted",
    "require_not_inserted",
    "work_jobs",
]

A = TypeVar("A")

_MAX_WORKED = 1_000
"""Maximum jobs of `work_jobs`: more than a test inserts, unless jobs insert one another."""


@overload
def require_inserted(expected: type[A], **options: Unpack[Options]) -> Job[A]: ...
@overload
def require_inserted(expected: A, **options: Unpack[Options]) -> Job[A]: ...
def require_inserted(expected: Any, **options: Unpack[Options]) -> Job[Any]:
    """Return the only job of that kind; raise AssertionError if it is missing, not the only one, or
    different. See riverui.testing.
    """
    return at_once(riverui.testing.require_inserted_tx(_executor(), expected, **options))


def require_not_inserted(expected: Any, **options: Unpack[Options]) -> None:
    """Raise AssertionError if a job of that kind matches all options."""
    at_once(riverui.testing.require_not_inserted_tx(_executor(), expected, **options))


def require_many_inserted(expected: Sequence[Any]) -> Sequence[Job[Any]]:
    """Return the jobs of the expected kinds; raise AssertionError unless they are exactly these, in
    this order. Use Expected to give a job options.
    """
    return at_once(riverui.testing.require_many_inserted_tx(_executor(), expected))


def work_jobs(
    *, queues: Sequence[str] = (), kinds: Sequence[str] = (), raise_errors: bool = True
) -> list[WorkResult]:
    """Work the due jobs, and those that they insert, until none is left; return the results.

    The project's workers work them one after the other, in this thread and on its connections. No
    job is worked twice: jobs that fail or snooze wait for the next call. A job's exception is
    raised after its outcome is written, unless `raise_errors` is False. Raise AssertionError if
    jobs keep inserting jobs.
    """
    chosen = river_settings()
    workers = discover()
    known = [kind for kind in workers.kinds if not kinds or kind in kinds]
    results: list[WorkResult] = []
    # Created here, as it uses Django's connection of this thread.
    operations = _Operations(chosen.database)
    seen: set[int] = set()
    while row := _next(tuple(known), tuple(queues), seen):
        seen.add(row.id)
        if len(results) >= _MAX_WORKED:
            raise AssertionError(f"River: after {_MAX_WORKED:,} jobs there are still some due.")
        result = async_to_sync(_work)(operations, chosen.client_config(), workers, row)
        results.append(result)
        if result.error is not None and raise_errors:
            raise result.error
    return results


def _next(kinds: tuple[str, ...], queues: tuple[str, ...], seen: Collection[int]) -> JobRow | None:
    """Return the next job; None if no further one is due."""
    states = (JobState.AVAILABLE, JobState.RETRYABLE, JobState.SCHEDULED)
    params = JobSelectParams(kinds=kinds, queues=queues, states=states, limit=_MAX_WORKED)
    now = datetime.now(UTC)
    rows = at_once(_executor().jobs.row_list(params)) if kinds else ()
    due = (row for row in rows if row.scheduled_at <= now and row.id not in seen)
    return min(due, key=lambda row: (row.priority, row.scheduled_at, row.id), default=None)


async def _work(
    operations: _Operations, config: ClientConfig, workers: Workers, row: JobRow
) -> WorkResult:
    config = replace(config, middleware=[*config.middleware, _InSavepoints()])
    return await riverui.testing.work_tx(
        operations, workers, row, config=config, threads=_CallersThread(1)
    )


class _CallersThread(WorkerThreads):
    """Runs synchronous workers in the test's thread, which has its connections."""

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        asked: Callable[[], None] | None = None,
    ) -> Any:
        """Run the function, and return its result."""
        return await sync_to_async(function)(*arguments)


class _InSavepoints(Middleware):
    """Works each job in savepoints, so that a failed statement does not abort the test's
    transactions.
    """

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        """Run around the work of each job."""
        begun = await sync_to_async(_begin_savepoints)()
        try:
            await do_inner()
        finally:
            await sync_to_async(_end_savepoints)(begun)


_PARTS = frozenset({"jobs", "leader", "queues", "sql", "work"})
"""Parts of an Executor that have operations."""


class _Operations:
    """The operations of an Executor, or of one of its parts, on the connection of the test's
    thread.
    """

    def __init__(self, using: str, example: Any = None, part: str = "") -> None:
        self._example = example or _executor(using)
        """Shows what there is, without a database."""
        self._part = part
        self._using = using

    def __getattr__(self, name: str) -> Any:
        if name == "savepoint":
            # As in a caller's transaction.
            raise AttributeError(name)
        path = f"{self._part}{name}"
        found = getattr(self._example, name)
        if path in _PARTS:
            return _Operations(self._using, found, f"{path}.")
        if not callable(found):
            return found

        async def call(*arguments: Any, **given: Any) -> Any:
            return await sync_to_async(_operate)(self._using, path, *arguments, **given)

        return call


def _operate(using: str, path: str, *arguments: Any, **given: Any) -> Any:
    with transaction.atomic(using=using):
        return at_once(attrgetter(path)(_executor(using))(*arguments, **given))


def _executor(using: str | None = None) -> Any:
    """Return the operations on this thread's connection."""
    chosen = river_settings()
    using = using or chosen.database
    driver = DjangoDriver(using, chosen.schema)
    return at_once(driver.adopt(connections[using]))


def _begin_savepoints() -> list[tuple[Any, str]]:
    open_ones = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    return [(connection, connection.savepoint()) for connection in open_ones]


def _end_savepoints(begun: list[tuple[Any, str]]) -> None:
    for connection, savepoint in begun:
        if _is_aborted(connection):
            connection.needs_rollback = False
            connection.savepoint_rollback(savepoint)
        connection.savepoint_commit(savepoint)


def _is_aborted(connection: Any) -> bool:
    """Return whether the connection's transaction is aborted."""
    # Of psycopg, and of psycopg2; libpq's number is 3. A failed statement of SQLite aborts nothing.
    info = getattr(connection.connection, "info", None)
    failed = info is not None and info.transaction_status == _IN_ERROR
    return bool(connection.needs_rollback or failed)


_IN_ERROR = 3
"""libpq's PQTRANS_INERROR."""
