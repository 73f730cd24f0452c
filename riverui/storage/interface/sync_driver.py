"""What the client without asyncio asks of a database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Protocol

from riverui.domain.jobs import JobRow
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams, JobSetStateParams


class SyncExecutor(Protocol):
    """Operations on a database as the synchronous client needs them; see EngineExecutor."""

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """What is offered besides: see `riverui.storage.interface.CAPABILITIES`."""
        ...

    def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs and tell the workers of the queues in `notify`; return one answer per job, in
        order.
        """
        ...

    def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """COPY jobs and return how many; UniqueConflict where a key is taken.

        Two statements: for a transaction.
        """
        ...

    def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """Change running jobs; return the rows as they are afterwards, without the missing ones."""
        ...


class SyncDriver(Protocol):
    """A database as the synchronous client sees it: it inserts, and ends jobs in transactions."""

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractContextManager[SyncExecutor]:
        """Begin a transaction under time limits; it commits unless an exception leaves it."""
        ...

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractContextManager[SyncExecutor]:
        """Lend a connection on which each call is a transaction of its own."""
        ...

    def adopt(self, transaction: object) -> SyncExecutor:
        """Return the operations inside the caller's own transaction: a psycopg or psycopg2
        connection, a SQLAlchemy Session or Connection on one of these, or a Django database
        connection. TypeError for anything else.
        """
        ...

    def close(self) -> None:
        """Close what it opened itself; safe to call twice."""
        ...
