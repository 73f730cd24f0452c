"""What the client without asyncio asks of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from riverui.storage.interface.params import JobInserted, JobInsertParams, JobSetStateParams


class SyncDriver(Protocol):
    """A database as the synchronous client sees it: it inserts, and ends jobs in transactions."""

    def insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = (), fast: bool = False
    ) -> Sequence[JobInserted]:
        """Insert jobs in a transaction of its own; return one answer per job, none if `fast`."""
        ...

    def insert_many_tx(
        self,
        transaction: object,
        jobs: Sequence[JobInsertParams],
        *,
        notify: Sequence[str] = (),
        fast: bool = False,
    ) -> Sequence[JobInserted]:
        """Insert jobs in the caller's own transaction: a psycopg or psycopg2 connection, a
        SQLAlchemy Session or Connection on one of these, or a Django database connection. TypeError
        for anything else.
        """
        ...

    def job_set_state_tx(self, transaction: object, change: JobSetStateParams) -> bool:
        """End a running job in the caller's own transaction; return whether there is such a job."""
        ...

    def close(self) -> None:
        """Close what it opened itself; safe to call twice."""
        ...
