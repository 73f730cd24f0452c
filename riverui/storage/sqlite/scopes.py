"""The transactions in which operations run: one for each, one for several, or the caller's."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from riverui.errors import DatabaseUnavailable, LockTimeout, ReadOnlyDatabase
from riverui.storage.sqlite.errors import translate
from riverui.storage.sqlite.file import Connection, SqliteFile
from riverui.storage.sqlite.waiting import Waiting

T = TypeVar("T")

Clock = Callable[[], datetime]

_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.003
"""Seconds before the next attempt to write while another process does, which double: a transaction
takes a millisecond or two, and who looks too rarely never finds the moment between two of them.
"""
_IMPATIENT_SECONDS = 0.1
"""Seconds after which the pauses are as short as that moment: SQLite has no queue, so that others
would win again and again.
"""
_IMPATIENT_WAIT = 0.0001
"""Seconds between two attempts from then on."""


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

    def __init__(self, clock: Clock, waiting: Waiting, limits: Limits) -> None:
        self.clock = clock
        self.waiting = waiting
        self.limits = limits
        self.notified = False
        """Whether the changes notify listeners."""
        self._one_at_a_time = threading.Lock()

    async def call(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Return the result of an operation, run atomically; LockTimeout if others write for too
        long.
        """
        give_turn = await self._take_turn(writes=writes)
        try:
            waits = pauses(self.limits.lock)
            while True:
                try:
                    return await self.waiting.run(lambda: self._run(operation, writes=writes))
                except LockTimeout:
                    if (pause := next(waits, None)) is None:
                        raise
                # Another process writes.
                await self.waiting.pause(pause)
        finally:
            if give_turn is not None:
                give_turn()

    async def _take_turn(self, *, writes: bool) -> Callable[[], None] | None:
        """Wait until it is the turn of this scope to write, in this process; return how to give it
        back after the operation, if that is to be done.
        """
        return None

    @abstractmethod
    def _run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Return the result of an operation, run atomically; LockTimeout if it has to wait."""


class EachCommits(Scope):
    """Each operation is its own transaction."""

    def __init__(self, file: SqliteFile, clock: Clock, waiting: Waiting, limits: Limits) -> None:
        super().__init__(clock, waiting, limits)
        self.file = file

    async def _take_turn(self, *, writes: bool) -> Callable[[], None] | None:
        if not writes:
            return None
        turn = await turn_of(self.file, self.waiting, self.limits)
        return lambda: self.file.turns.give(turn)

    def _run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Run an operation in a transaction, and commit it."""
        with self._one_at_a_time, translated():
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
        waiting: Waiting,
        limits: Limits,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(clock, waiting, limits)
        self._ended = False
        self.file = file
        self._is_open = False
        self._read_only = read_only
        self._turn: Future[None] | None = None

    async def end(self, *, commit: bool) -> None:
        """Keep or drop the changes, and give the connection back."""
        self._ended = True
        try:
            if self._is_open:
                self._is_open = False
                await self.waiting.run(lambda: self._end(commit=commit))
        finally:
            if self._turn is not None:
                self.file.turns.give(self._turn)
        if commit and self.notified:
            self.file.wake()

    async def _take_turn(self, *, writes: bool) -> None:
        # A transaction that reads first writes later, perhaps: it takes its turn at once.
        if self._turn is None and not (self._read_only or self._ended):
            self._turn = await turn_of(self.file, self.waiting, self.limits)

    def _run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Run an operation; undo what it changed if it fails."""
        if self._read_only and writes:
            raise ReadOnlyDatabase("Nothing can be written in a transaction that only reads.")
        with self._one_at_a_time, translated():
            self._begin()
            self.connection.deadline = time.monotonic() + self.limits.statements
            if not writes:
                return operation()
            with savepoint(self.connection):
                return operation()

    def _begin(self) -> None:
        """Begin the transaction unless it has begun; LockTimeout while another process writes."""
        if self._is_open:
            return
        if self._ended:
            raise DatabaseUnavailable("The transaction has ended.")
        connection = self.file.take()
        try:
            # At once: a transaction that reads first may find later that it cannot write.
            if self._read_only:
                connection.execute("begin")
            else:
                begin_immediate(connection, self.limits.lock)
        except BaseException:
            release(self.file, connection)
            raise
        self.connection, self._is_open = connection, True

    def _end(self, *, commit: bool) -> None:
        with translated():
            try:
                if commit:
                    self.connection.deadline = float("inf")
                    self.connection.execute("commit")
            finally:
                release(self.file, self.connection)


class CallersTransaction(Scope):
    """The caller's own connection, who commits."""

    def __init__(
        self, raw: sqlite3.Connection, clock: Clock, waiting: Waiting, limits: Limits
    ) -> None:
        super().__init__(clock, waiting, limits)
        self.connection = Connection(raw)

    def _run(self, operation: Callable[[], T], *, writes: bool) -> T:
        """Run an operation in the transaction, and undo what it changed if it fails. A transaction
        is begun if there is none; on a connection that commits each statement it is ended, too.
        """
        raw = self.connection.raw
        with translated():
            if raw.in_transaction:
                with savepoint(self.connection):
                    return operation()
            self.connection.execute("begin immediate")
            try:
                result = operation()
            except BaseException:
                self.connection.execute("rollback")
                raise
            if raw.isolation_level is None or getattr(raw, "autocommit", None) is True:
                self.connection.execute("commit")
            return result


def begin_immediate(connection: Connection, limit: float) -> None:
    """Begin a transaction that writes; LockTimeout if another process writes for so many seconds.
    In a thread that may sleep.
    """
    waits = pauses(limit)
    while True:
        try:
            with translated():
                connection.execute("begin immediate")
            return
        except LockTimeout:
            if (pause := next(waits, None)) is None:
                raise
        time.sleep(pause)


def pauses(limit: float) -> Iterator[float]:
    """Yield how long to pause after each attempt to write while another process does, for `limit`
    seconds.
    """
    began, wait = time.monotonic(), _FIRST_WAIT
    while (waited := time.monotonic() - began) < limit:
        yield wait * random.uniform(0.5, 1)  # noqa: S311
        wait = min(wait * 2, _LONGEST_WAIT) if waited < _IMPATIENT_SECONDS else _IMPATIENT_WAIT


async def turn_of(file: SqliteFile, waiting: Waiting, limits: Limits) -> Future[None]:
    """Return a turn to write, once it has come; LockTimeout if that takes too long."""
    turn = file.turns.take()
    try:
        await waiting.turn(turn, limits.lock)
    except BaseException:
        file.turns.give(turn)
        raise
    return turn


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
