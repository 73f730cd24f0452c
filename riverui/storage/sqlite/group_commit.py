"""Commits what tasks write at the same time together, as each commit waits for the disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from riverui.errors import LockTimeout
from riverui.storage.sqlite.file import Connection, SqliteFile
from riverui.storage.sqlite.scopes import (
    Clock,
    EachCommits,
    Limits,
    begin_immediate,
    release,
    savepoint,
    translated,
)
from riverui.storage.sqlite.waiting import TOO_LONG, InLoop

T = TypeVar("T")

_JOIN_SECONDS = 0.02
"""Seconds after which no more operations join a transaction: other processes wait meanwhile."""


class InGroups(EachCommits):
    """Each operation is kept or lost by itself, but may be committed together with others."""

    def __init__(self, group: GroupCommits, clock: Clock, waiting: InLoop, limits: Limits) -> None:
        super().__init__(group.file, clock, waiting, limits)
        self._group = group
        self._in_loop = waiting

    async def call(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Return the result of an operation, run atomically; LockTimeout if others write for too
        long.
        """
        if not writes:
            return await super().call(operation, writes=False)
        write = _Write(self, operation)
        self._group.add(write)
        result: T = await self._in_loop.result(write.done)
        return result

    def run_in(self, connection: Connection, operation: Callable[[], T]) -> T:
        """Return the result of an operation in the transaction of a connection."""
        with self._one_at_a_time:
            self.connection = connection
            return operation()


class _Write:
    """One operation, and who waits for it."""

    def __init__(self, scope: InGroups, operation: Callable[[], Any]) -> None:
        self.done: Future[Any] = Future()
        self.give_up = time.monotonic() + scope.limits.lock
        self.result: Any = None
        self.scope = scope
        self._operation = operation

    def run(self, connection: Connection) -> None:
        """Run the operation, and undo what it changed if it fails."""
        connection.deadline = time.monotonic() + self.scope.limits.statements
        with translated(), savepoint(connection):
            self.result = self.scope.run_in(connection, self._operation)


class GroupCommits:
    """The operations that wait to be written to a file, in all event loops of this process."""

    _lock: threading.Lock
    _process: int
    _runs: bool
    """Whether a thread runs operations."""
    _waiting: list[_Write]

    def __init__(self, file: SqliteFile) -> None:
        self.file = file
        self._begin_anew()

    def add(self, write: _Write) -> None:
        """Run an operation in a thread, soon."""
        if self._process != os.getpid():
            # A fork has neither the threads nor the tasks of its parent.
            self._begin_anew()
        with self._lock:
            self._waiting.append(write)
            if self._runs:
                return
            self._runs = True
        self.file.threads().submit(self._run)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._runs, self._waiting = False, []

    def _run(self) -> None:
        """Run operations as long as there are any."""
        while (give_up := self._next()) is not None:
            turn = self.file.turns.take()
            try:
                turn.result(max(give_up - time.monotonic(), 0))
                self._run_some()
            except TimeoutError:
                _fail(self._take(until=give_up), LockTimeout(TOO_LONG))
            finally:
                self.file.turns.give(turn)

    def _next(self) -> float | None:
        """Return until when the first operation may wait; None without one: the thread ends."""
        with self._lock:
            self._runs = bool(self._waiting)
            return self._waiting[0].give_up if self._runs else None

    def _take(self, *, until: float = float("inf")) -> Sequence[_Write]:
        """Remove the operations that may wait no longer, and return those that were not
        cancelled.
        """
        with self._lock:
            taken = [write for write in self._waiting if write.give_up <= until]
            self._waiting = [write for write in self._waiting if write.give_up > until]
        return [write for write in taken if write.done.set_running_or_notify_cancel()]

    def _run_some(self) -> None:
        """Run the operations that wait now, in as few transactions as possible."""
        writes = self._take()
        while writes:
            try:
                ended = self._commit(writes)
            except Exception as error:
                _fail(writes, error)
                return
            for write in ended:
                write.done.set_result(write.result)
            if scopes := {write.scope for write in ended if write.scope.notified}:
                for scope in scopes:
                    scope.notified = False
                self.file.wake()
            # The others were too many, or undone with one that failed.
            writes = [write for write in writes if not write.done.done()]

    def _commit(self, writes: Sequence[_Write]) -> Sequence[_Write]:
        """Run operations in one transaction; return those that were committed."""
        give_up = max(write.give_up for write in writes)
        with translated():
            connection = self.file.take()
            try:
                begin_immediate(connection, give_up - time.monotonic())
                ended = _run_each(connection, writes)
                connection.deadline = float("inf")
                if connection.raw.in_transaction:
                    connection.execute("commit")
            finally:
                release(self.file, connection)
        return ended


def _run_each(connection: Connection, writes: Sequence[_Write]) -> Sequence[_Write]:
    """Run operations and return those that can be committed; of others the caller gets the
    error.
    """
    ended = []
    until = time.monotonic() + _JOIN_SECONDS
    for write in writes:
        try:
            write.run(connection)
        except Exception as error:
            write.done.set_exception(error)
            if not connection.raw.in_transaction:
                # Of some errors SQLite undoes the whole transaction: the others run again.
                return []
        else:
            ended.append(write)
        if time.monotonic() > until:
            break
    return ended


def _fail(writes: Sequence[_Write], error: Exception) -> None:
    for write in writes:
        if not write.done.done():
            write.done.set_exception(error)
