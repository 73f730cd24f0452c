"""Time limits of statements that threads wait for; one thread watches all of a driver."""

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

from riverui.storage.postgres.client_timeout import hang_up
from riverui.storage.postgres.limits import LIMITS
from riverui.storage.postgres.sync_executor import PsycopgConnection
from riverui.storage.rows import Rows

_LINGER = 10.0
"""Seconds that the thread stays with nothing to watch, so that one serves many short statements."""


class TimeLimits:
    """Looks at connections that are lent, in a thread that comes with the first of them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        """The thread's: one that is forked from this process needs TimeLimits of its own."""
        self._changed = Condition()
        self._is_due = False
        """Whether something was lent that wants to be looked at sooner than the thread would."""
        self._lent: set[LimitedConnection] = set()
        self._looks_at = float("inf")
        self._thread: Thread | None = None

    def add(self, connection: LimitedConnection, seconds: float) -> None:
        """Look at a connection from now on, first after so many seconds."""
        with self._changed:
            self._lent.add(connection)
            if self._thread is None:
                self._thread = Thread(target=self._watch, name="riverui time limits", daemon=True)
                self._thread.start()
            elif time.monotonic() + seconds < self._looks_at and not self._is_due:
                self._is_due = True
                self._changed.notify()

    def remove(self, connection: LimitedConnection) -> None:
        """Look at it no longer."""
        with self._changed:
            self._lent.discard(connection)

    def _watch(self) -> None:
        while True:
            with self._changed:
                # What is lent while it looks has to wake it.
                lent, self._is_due, self._looks_at = list(self._lent), False, float("inf")
            wait = min((connection.look() for connection in lent), default=_LINGER)
            with self._changed:
                self._looks_at = time.monotonic() + wait
                if not self._changed.wait_for(lambda: self._is_due, wait) and not self._lent:
                    self._thread = None
                    return


class LimitedConnection(PsycopgConnection):
    """A connection on which no statement takes much longer than `limit`; see ClientTimeout.

    With `stops` the server, which has no limit of its own then, is asked to stop what takes longer.
    What goes on for some seconds more loses its connection.
    """

    def __init__(
        self, connection: Connection[Any], limit: timedelta, watch: TimeLimits, *, stops: bool
    ) -> None:
        super().__init__(connection)
        self._asked: float | None = None
        """When the statement began that the server was asked to stop."""
        self._began: float | None = None
        """When the statement began that runs now."""
        self._limit = limit.total_seconds()
        self._lock = Lock()
        """Whoever holds it acts on the statement that runs, not on the next one."""
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
        """End what takes too long; return after how many seconds to look again."""
        grace = LIMITS.grace_seconds
        if not self._lock.acquire(blocking=False):
            # The statement ends, or is being stopped.
            return min(self._limit, grace)
        try:
            if (began := self._began) is None:
                return self._limit
            over = time.monotonic() - began - self._limit
            if over < 0:
                return -over
            if self._stops and self._asked != began:
                # In a thread of its own, as the server may not answer, and others wait for a look.
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
                # Nobody knows whether it still comes.
                hang_up(self._connection)
