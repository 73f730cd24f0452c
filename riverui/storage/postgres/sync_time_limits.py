"""Time limits of blocking statements; one thread watches all connections of a driver."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Condition, Lock, Thread
from typing import Any, Self

import psycopg
from psycopg import Connection

from riverui.storage.interface.sql_blocks import Rows
from riverui.storage.postgres.limits import LIMITS
from riverui.storage.postgres.sessions import hang_up
from riverui.storage.postgres.sync_executor import PsycopgConnection

_LINGER = 10.0
"""Seconds that the idle thread stays, so that one serves many short statements."""


class TimeLimits:
    """Checks lent connections in a thread, which starts with the first of them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        """The thread's process: a forked one needs its own TimeLimits."""
        self._changed = Condition()
        self._is_due = False
        """Set when a new connection has to be checked before the thread's next check."""
        self._lent: set[LimitedConnection] = set()
        self._looks_at = float("inf")
        self._thread: Thread | None = None

    def add(self, connection: LimitedConnection, seconds: float) -> None:
        """Start checking a connection, first after so many seconds."""
        with self._changed:
            self._lent.add(connection)
            if self._thread is None:
                self._thread = Thread(target=self._watch, name="riverui time limits", daemon=True)
                self._thread.start()
            elif time.monotonic() + seconds < self._looks_at and not self._is_due:
                self._is_due = True
                self._changed.notify()

    def remove(self, connection: LimitedConnection) -> None:
        """Stop checking it."""
        with self._changed:
            self._lent.discard(connection)

    def _watch(self) -> None:
        while True:
            with self._changed:
                # A connection added during the checks has to wake the thread.
                lent, self._is_due, self._looks_at = list(self._lent), False, float("inf")
            wait = min((connection.look() for connection in lent), default=_LINGER)
            with self._changed:
                self._looks_at = time.monotonic() + wait
                if not self._changed.wait_for(lambda: self._is_due, wait) and not self._lent:
                    self._thread = None
                    return


class LimitedConnection(PsycopgConnection):
    """A connection on which no statement takes much longer than `limit`; see ClientTimeout.

    With `stops`, for servers without their own limit, it asks the server to cancel longer
    statements. A statement that continues for some seconds more loses its connection.
    """

    def __init__(
        self, connection: Connection[Any], limit: timedelta, watch: TimeLimits, *, stops: bool
    ) -> None:
        super().__init__(connection)
        self._asked: float | None = None
        """When the statement began that the server was asked to cancel."""
        self._began: float | None = None
        """When the running statement began."""
        self._limit = limit.total_seconds()
        self._lock = Lock()
        """Held to act on the running statement, not on the next one."""
        self._stops = stops
        self._watch = watch

    def __enter__(self) -> Self:
        self._watch.add(self, self._limit)
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.remove(self)

    def ask(self, text: str, values: Sequence[Any]) -> Rows:
        """See SyncConnection."""
        with self._timed():
            return super().ask(text, values)

    def run(self, text: str) -> None:
        """See SyncConnection."""
        with self._timed():
            super().run(text)

    def copy(self, text: str, rows: str) -> None:
        """See SyncConnection."""
        with self._timed():
            super().copy(text, rows)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        self._began = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._began = None

    def look(self) -> float:
        """End a statement that takes too long; return the seconds until the next check."""
        grace = LIMITS.grace_seconds
        if not self._lock.acquire(blocking=False):
            # The statement is ending, or being cancelled.
            return min(self._limit, grace)
        try:
            if (began := self._began) is None:
                return self._limit
            over = time.monotonic() - began - self._limit
            if over < 0:
                return -over
            if self._stops and self._asked != began:
                # In another thread, as the server may not answer and other connections need checks.
                self._asked = began
                Thread(target=self._ask_to_stop, args=[began], daemon=True).start()
                return grace
            if over < grace:
                return grace - over
            hang_up(self._connection)
            return grace
        finally:
            self._lock.release()

    def _ask_to_stop(self, began: float) -> None:
        with self._lock:
            if self._began != began:
                return
            try:
                self._connection.cancel_safe(timeout=LIMITS.grace_seconds)
            except (OSError, psycopg.Error):
                # It may still arrive.
                hang_up(self._connection)
