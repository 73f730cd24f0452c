"""The transactions in which operations run: one for each, one for several, or the caller's."""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from riverui.errors import DatabaseUnavailable, ReadOnlyDatabase
from riverui.storage.sqlite.errors import translate
from riverui.storage.sqlite.file import Connection, SqliteFile

T = TypeVar("T")

Clock = Callable[[], datetime]
Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds, while others run."""


class Limits(NamedTuple):
    """Time limits of operations."""

    lock: float
    """Seconds to wait while another connection writes."""
    statements: float
    """Seconds that the statements of one operation may take."""


class Scope(ABC):
    """How operations get a connection, and when their changes are kept."""

    connection: Connection
    """The connection of the operation that runs."""

    def __init__(self, clock: Clock, pause: Pause, limits: Limits) -> None:
        self.clock = clock
        self.pause = pause
        self.limits = limits
        self.notified = False
        """Whether the changes notify listeners."""

    @abstractmethod
    def run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Return the result of an operation, run atomically; LockTimeout if it has to wait."""


class EachCommits(Scope):
    """Each operation is its own transaction."""

    def __init__(self, file: SqliteFile, clock: Clock, pause: Pause, limits: Limits) -> None:
        super().__init__(clock, pause, limits)
        self.file = file

    def run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Run an operation in a transaction, and commit it."""
        with translated():
            connection = self.file.take()
            try:
                connection.execute("begin immediate" if writes else "begin")
                connection.deadline = time.monotonic() + self.limits.statements
                self.connection = connection
                result = operation()
                connection.execute("commit")
            finally:
                release(self.file, connection)
        if self.notified:
            self.notified = False
            self.file.wake()
        return result


class OneTransaction(Scope):
    """All operations are one transaction, which begins with the first of them."""

    def __init__(
        self,
        file: SqliteFile,
        clock: Clock,
        pause: Pause,
        limits: Limits,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(clock, pause, limits)
        self._ended = False
        self.file = file
        self._is_open = False
        self._read_only = read_only

    def run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Run an operation; undo what it changed if it fails."""
        if self._read_only and writes:
            raise ReadOnlyDatabase("Nothing can be written in a transaction that only reads.")
        with translated():
            self.begin()
            self.connection.deadline = time.monotonic() + self.limits.statements
            if not writes:
                return operation()
            with savepoint(self.connection):
                return operation()

    def begin(self) -> None:
        """Begin the transaction unless it has begun; LockTimeout while another one writes."""
        if self._is_open:
            return
        if self._ended:
            raise DatabaseUnavailable("The transaction has ended.")
        connection = self.file.take()
        try:
            # At once: a transaction that reads first may find later that it cannot write.
            connection.execute("begin" if self._read_only else "begin immediate")
        except BaseException:
            release(self.file, connection)
            raise
        self.connection, self._is_open = connection, True

    def end(self, *, commit: bool) -> None:
        """Keep or drop the changes, and give the connection back."""
        self._ended = True
        if not self._is_open:
            return
        self._is_open = False
        with translated():
            try:
                if commit:
                    self.connection.deadline = float("inf")
                    self.connection.execute("commit")
            finally:
                release(self.file, self.connection)
        if commit and self.notified:
            self.file.wake()

    @contextmanager
    def committed(self) -> Iterator[None]:
        """Keep the changes of a block, unless an exception leaves it."""
        try:
            yield
        except BaseException:
            self.end(commit=False)
            raise
        self.end(commit=True)


class CallersTransaction(Scope):
    """The caller's own connection, who commits."""

    def __init__(self, raw: sqlite3.Connection, clock: Clock, pause: Pause, limits: Limits) -> None:
        super().__init__(clock, pause, limits)
        self.connection = Connection(raw)

    def run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Run an operation, in a transaction that is begun if it was not; undo what it changed if
        it fails.
        """
        with translated():
            if not self.connection.raw.in_transaction:
                self.connection.execute("begin immediate")
            with savepoint(self.connection):
                return operation()


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    """Run a block whose changes are undone if it raises."""
    connection.execute("savepoint riverui")
    try:
        yield
    except BaseException:
        if connection.raw.in_transaction:
            connection.execute("rollback to riverui")
            connection.execute("release riverui")
        raise
    connection.execute("release riverui")


@contextmanager
def translated() -> Iterator[None]:
    """Raise riverui's exceptions in place of those of sqlite3."""
    try:
        yield
    except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
        raise translate(error) from error


def release(file: SqliteFile, connection: Connection) -> None:
    """Give a connection back, without a transaction."""
    connection.deadline = float("inf")
    if connection.raw.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("rollback")
    file.give(connection)
