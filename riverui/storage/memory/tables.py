"""The stored rows, and the changes of a transaction, which are kept or dropped together.

Transactions see what others have committed, statement by statement (READ COMMITTED), and hold the
rows that they have changed until they end.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from heapq import merge
from itertools import count
from typing import Any, Generic, TypeVar

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.queues import LeaderRow, QueueRow
from riverui.errors import DatabaseError, ReadOnlyDatabase, UniqueConflict

K = TypeVar("K")
R = TypeVar("R")

Hear = Callable[[str, str], None]
"""Takes topic and payload of a notification; called in any thread, must be quick."""

_UNCHANGED = object()
"""Stands for a row that a transaction has not changed."""


class Held(Exception):
    """Another transaction holds the row."""


class Table(Generic[K, R]):
    """Committed rows by their key."""

    def __init__(self) -> None:
        self.rows: dict[K, R] = {}
        self.held: dict[K, Changes] = {}
        """The open transaction that has changed each row."""

    def store(self, key: K, row: R | None) -> None:
        """Store a committed row, None to remove it."""
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


def fetch_order(row: JobRow) -> tuple[int, datetime, int]:
    """Return the sort key of available jobs: the lowest is worked first."""
    return row.priority, row.scheduled_at, row.id


class JobTable(Table[int, JobRow]):
    """Jobs, with the available ones in the order of River's fetching index."""

    def __init__(self) -> None:
        super().__init__()
        self.available: dict[str, list[tuple[int, datetime, int]]] = {}
        """The sort keys of each queue's available jobs, in order."""

    def store(self, key: int, row: JobRow | None) -> None:
        """Store a committed job, None to remove it."""
        before = self.rows.get(key)
        if before is not None and before.state is JobState.AVAILABLE:
            orders = self.available[before.queue]
            del orders[bisect_left(orders, fetch_order(before))]
        if row is not None and row.state is JobState.AVAILABLE:
            insort(self.available.setdefault(row.queue, []), fetch_order(row))
        super().store(key, row)


class Tables:
    """All tables of a memory database."""

    def __init__(self, lock_timeout: timedelta) -> None:
        self.lock = threading.RLock()
        """Held during each statement."""
        self.jobs = JobTable()
        self.keys: Table[bytes, int] = Table()
        """The ids of the jobs that hold a unique key: River's unique index."""
        self.queues: Table[str, QueueRow] = Table()
        self.leader: Table[str, LeaderRow] = Table()
        """One row at most."""
        self.job_ids = count(1)
        """A sequence: numbers taken by a rolled back transaction are not used again."""
        self.listeners: list[Hear] = []
        self.lock_timeout = lock_timeout
        """How long a statement waits for a row that another transaction holds."""


class Changes:
    """The changes of one transaction so far; `commits_each` commits each statement."""

    def __init__(
        self, tables: Tables, *, read_only: bool = False, commits_each: bool = False
    ) -> None:
        self.tables = tables
        self._commits_each = commits_each
        self._failed = False
        """Whether a statement has failed, after which Postgres accepts no other."""
        self._notifications: dict[tuple[str, str], None] = {}
        """Sent at commit; equal ones only once, as by Postgres."""
        self._read_only = read_only
        self._rows: dict[Table[Any, Any], dict[Any, Any]] = {}
        """The new rows by table and key; None for a row that is removed."""
        self._undo: list[tuple[Table[Any, Any], Any, Any]] = []
        """Table, key and the value in `_rows` before each change."""

    def get(self, table: Table[K, R], key: K) -> R | None:
        """Return a row as this transaction sees it."""
        changed = self._rows.get(table)
        if changed is not None and key in changed:
            return changed[key]  # type: ignore[no-any-return]  # of the table's type
        return table.rows.get(key)

    def all(self, table: Table[K, R]) -> list[R]:
        """Return all rows as this transaction sees them."""
        rows = table.rows
        if changed := self._rows.get(table):
            rows = {**rows, **changed}
            return [row for row in rows.values() if row is not None]
        return list(rows.values())

    def available(self, queue: str) -> Iterator[JobRow]:
        """Yield the available jobs of a queue in the order in which they are worked."""
        jobs = self.tables.jobs
        changed = self._rows.get(jobs, {})
        committed = (
            jobs.rows[job_id]
            for _, _, job_id in jobs.available.get(queue, ())
            if job_id not in changed
        )
        own = (
            row
            for row in changed.values()
            if row is not None and row.state is JobState.AVAILABLE and row.queue == queue
        )
        return merge(committed, sorted(own, key=fetch_order), key=fetch_order)

    def is_free(self, table: Table[K, R], key: K) -> bool:
        """Return whether no other transaction holds the row."""
        return table.held.get(key, self) is self

    def put(self, table: Table[K, R], key: K, row: R | None) -> None:
        """Write a row, None to remove it; raise Held if another transaction holds it."""
        if self._read_only:
            raise ReadOnlyDatabase("Nothing can be written in a transaction that only reads.")
        if table.held.setdefault(key, self) is not self:
            raise Held
        changed = self._rows.setdefault(table, {})
        self._undo.append((table, key, changed.get(key, _UNCHANGED)))
        changed[key] = row

    def notify(self, topic: str, payload: str) -> None:
        """Notify the listeners once the transaction commits."""
        self._notifications[topic, payload] = None

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Run one statement: no other runs meanwhile, and an exception undoes all of it."""
        if self._failed:
            raise DatabaseError(
                "A statement of this transaction has failed: it can only be rolled back. A"
                " savepoint keeps what comes before such a statement."
            )
        try:
            with self.tables.lock, self.savepoint():
                yield
                if self._commits_each:
                    self.commit()
        except UniqueConflict:
            self._failed = not self._commits_each
            raise

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run a block whose changes are undone if it raises."""
        place, notified = len(self._undo), len(self._notifications)
        try:
            yield
        except BaseException:
            with self.tables.lock:
                self._failed = False
                while len(self._undo) > place:
                    self._take_back(*self._undo.pop())
                for notification in list(self._notifications)[notified:]:
                    del self._notifications[notification]
            raise

    def commit(self) -> None:
        """Keep the changes and notify the listeners; drop the changes if a statement has failed,
        as Postgres does.
        """
        if self._failed:
            self.roll_back()
            return
        with self.tables.lock:
            for table, changed in self._rows.items():
                for key, row in changed.items():
                    table.store(key, row)
            notifications = tuple(self._notifications)
            self._release()
            listeners = tuple(self.tables.listeners)
        for topic, payload in notifications:
            for hear in listeners:
                hear(topic, payload)

    def roll_back(self) -> None:
        """Drop the changes."""
        with self.tables.lock:
            self._release()

    def _release(self) -> None:
        for table, changed in self._rows.items():
            for key in changed:
                del table.held[key]
        self._rows.clear()
        self._undo.clear()
        self._notifications.clear()

    def _take_back(self, table: Table[Any, Any], key: Any, before: Any) -> None:
        if before is _UNCHANGED:
            del self._rows[table][key]
            del table.held[key]
        else:
            self._rows[table][key] = before
