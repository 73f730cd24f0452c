"""Writes how attempts ended, many in one statement; keeps outcomes until they are stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice
from typing import Protocol, TypeVar, cast

from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.events import Events
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import Pilot
from riverui.engine.service import WakeUp
from riverui.engine.waiting import Backoff
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.outcome import Outcome
from riverui.engine.work.outcome_events import OutcomeEvents
from riverui.engine.work.outcome_writes import OutcomeWrites, few_enough, without_texts
from riverui.engine.work.wanted_ends import WantedEnds
from riverui.errors import (
    BadRequest,
    DatabaseUnavailable,
    LockTimeout,
    PermissionDenied,
    QueryTimeout,
    SchemaMissing,
)

T = TypeVar("T")
R = TypeVar("R")


class _Write(Protocol):
    """Writes attempts that succeeded; returns the ids of those that were still running."""

    def __call__(
        self, attempts: Sequence[Attempt], connection: DedicatedConnection | None = None, /
    ) -> Awaitable[Sequence[int]]: ...


_LONGEST_PAUSE = 8.0
"""Maximum seconds between two tries to reach the database: it may come back at any time."""

_FAILURES_UNTIL_SUSPECTED = 3
"""Failures for unknown reasons (such as a deadlock) after which a row is considered the cause."""

_DATABASE_ERRORS = (
    DatabaseUnavailable,
    LockTimeout,
    PermissionDenied,
    QueryTimeout,
    SchemaMissing,
)
"""Errors of the database, not of a row: it may be a standby for a moment, or be migrated."""

_RETRY_SECONDS = 60.0
"""Seconds before a failed second connection is retried: outcomes are written without it."""


class Completer:
    """Accepts outcomes at any rate, and writes them on a connection of its own.

    If they pile up, a second connection writes too, so that one statement runs while the other
    waits for the disk. Outcomes in which a feature takes part are written in transactions through
    the pilot.
    """

    def __init__(
        self,
        connection: DedicatedConnection,
        events: Events,
        *,
        clock: Callable[[], datetime],
        logger: logging.Logger,
        limits: EngineLimits | None = None,
        pilot: Pilot,
        beside: DedicatedConnection | None = None,
        wanted: WantedEnds | None = None,
    ) -> None:
        self._limits = limits = limits or EngineLimits()
        self._at_once = limits.outcomes_at_once
        self._most_waiting = limits.outcomes_full
        self._pilot = pilot
        self._by_feature = pilot.ends
        self._wake_up = WakeUp()
        self._wanted: Mapping[int, object] = {} if wanted is None else wanted.ids
        self._changes: dict[int, tuple[Attempt, Outcome]] = {}
        self.writes = writes = OutcomeWrites(connection, pilot, limits)
        self._events = OutcomeEvents(connection, events, clock=clock, logger=logger, wanted=wanted)
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        pile = limits.completions_beside
        self._plain = _Successes(writes.complete, limits.completions, beside=pile, most_beside=pile)
        self._featured = _Successes(
            writes.complete_by_features,
            limits.feature_ends,
            beside=limits.outcomes_at_once,
            most_beside=limits.feature_ends,
        )
        """Successes in which a feature takes part."""
        self._second_connection = beside
        self._resume = WakeUp()
        self._room = asyncio.Event()
        self._room.set()
        self._stop_by: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writing: list[Iterable[int]] = []
        """The jobs of each running statement."""

    @property
    def waiting(self) -> int:
        """How many outcomes are neither written nor being written."""
        return len(self._plain.waiting) + len(self._featured.waiting) + len(self._changes)

    @property
    def job_ids(self) -> Iterable[int]:
        """Jobs whose outcomes are not written yet."""
        return chain(self._plain.waiting, self._featured.waiting, self._changes, *self._writing)

    @property
    def full(self) -> bool:
        """Whether the completer's queue is full: wait for `room` before the next outcome."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Wait until the queue has room."""
        await self._room.wait()

    def succeed(self, attempt: Attempt) -> None:
        """Write that an attempt succeeded, without data to store."""
        successes = self._plain
        if self._by_feature and self._pilot.wants_end(attempt.row):
            successes = self._featured
        waiting, job_id = successes.waiting, attempt.row.id
        if self._changes or job_id in waiting:
            if self._is_late(attempt):
                return
            self._changes.pop(job_id, None)
        waiting[job_id] = attempt
        count = len(waiting)
        if count == 1 or count == self._at_once or count >= self._most_waiting:
            self._flush_soon()
        if count == successes.beside:
            successes.piled.set()
        if self._wanted and job_id in self._wanted:
            # The program waits for it.
            self._wake_up.set()

    def settle(self, attempt: Attempt, ended: Outcome) -> None:
        """Write how an attempt ended."""
        if self._is_late(attempt):
            return
        self._plain.waiting.pop(attempt.row.id, None)
        self._featured.waiting.pop(attempt.row.id, None)
        self._changes[attempt.row.id] = attempt, ended
        self._flush_soon()
        if self._wanted and attempt.row.id in self._wanted:
            self._wake_up.set()

    async def run(self) -> None:
        """Write outcomes, until `finish` was called and all are written."""
        helping = [
            asyncio.create_task(self._help(each), name="riverui completer, beside")
            for each in (self._plain, self._featured)
        ]
        try:
            while self._stop_by is None:
                await self._wake_up.wait()
                await self._flush()
            for task in helping:
                await task
            # They may have put outcomes back.
            await self._flush()
        except _OutOfTime:
            for task in helping:
                task.cancel()
            await asyncio.wait(helping)
        finally:
            for task in helping:
                task.cancel()
        await self._events.published()
        if self._timer is not None:
            self._timer.cancel()
        if self.waiting:
            self._logger.error(
                "%s outcomes could not be written: their jobs will be rescued", self.waiting
            )

    def finish(self, seconds: float) -> None:
        """Make `run` write the last outcomes and end; it gives up after so many seconds without a
        database.
        """
        self._stop_by = self._loop.time() + seconds
        self._resume.set()
        self._wake_up.set()
        self._plain.piled.set()
        self._featured.piled.set()

    def _is_late(self, attempt: Attempt) -> bool:
        """Return whether a later attempt at the same job has ended already: the job was rescued
        from this one, whose outcome is ignored.
        """
        job_id = attempt.row.id
        later = self._plain.waiting.get(job_id) or self._featured.waiting.get(job_id)
        if later is None and job_id in self._changes:
            later = self._changes[job_id][0]
        return later is not None and later.row.attempt > attempt.row.attempt

    def _flush_soon(self) -> None:
        if self.waiting >= self._at_once:
            self._wake_up.set()
            if self.waiting >= self._most_waiting and self._room.is_set():
                self._room.clear()
                self._logger.debug(
                    "%s outcomes are waiting to be written, and block new jobs", self.waiting
                )
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.outcomes_wait_seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        self._wake_up.set()

    async def _flush(self) -> None:
        """Write until so few are left that they may wait for more."""
        while self.waiting:
            await self._write_successes(self._plain)
            await self._write_successes(self._featured)
            await self._write_changes()
            self._make_room()
            if 0 < self.waiting < self._at_once and self._stop_by is None:
                self._flush_soon()
                return

    async def _help(self, successes: _Successes) -> None:
        """Write what piles up while `_flush` writes; outcomes that it cannot write are left to
        `_flush`.
        """
        rest_until = 0.0
        connection = self._second_connection
        if connection is None:
            return
        while self._stop_by is None:
            await successes.piled.wait()
            while successes.writing and successes.piles and self._loop.time() > rest_until:
                try:
                    with self._taken(successes.waiting, successes.most_beside) as batch:
                        written = await successes.write(list(batch.values()), connection)
                except Exception as error:
                    rest_until = self._loop.time() + _RETRY_SECONDS
                    self._wake_up.set()
                    self._logger.debug(
                        "outcomes cannot be written on a second connection: %s", error
                    )
                else:
                    await self._events.publish_completed(batch, written)
                self._make_room()

    def _make_room(self) -> None:
        if self.full and self.waiting < self._limits.outcomes_room:
            self._room.set()

    @contextmanager
    def _taken(self, waiting: dict[int, T], most: int) -> Iterator[dict[int, T]]:
        """Yield up to so many outcomes to write; put them back on an exception."""
        batch = _take(waiting, most)
        self._writing.append(batch)
        try:
            yield batch
        except BaseException:
            both = batch | waiting
            waiting.clear()
            waiting.update(both)
            raise
        finally:
            # By identity: two batches may be equal.
            self._writing = [each for each in self._writing if each is not batch]

    async def _write_successes(self, successes: _Successes) -> None:
        if not successes.waiting:
            return
        with self._taken(successes.waiting, successes.most) as batch:
            if successes.piles:
                successes.piled.set()
            successes.writing = True
            try:
                written = await self._persist(list(batch.values()), successes.write)
            finally:
                successes.writing = False
        await self._events.publish_completed(batch, written)

    async def _write_changes(self) -> None:
        if not self._changes:
            return
        most = few_enough(self._changes.values(), self._limits)
        with self._taken(self._changes, most) as batch:
            rows = await self._persist(list(batch.values()), self.writes.set_states)
        await self._events.publish_changed(batch, rows)

    async def _persist(
        self,
        batch: Sequence[T],
        write: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        bare: bool = False,
    ) -> Sequence[R]:
        """Return the result of `write`, retried as often as needed.

        If a row makes the statement fail, halves are written separately until that row is alone;
        then it is written `bare`, without the texts that may be the cause, and dropped if that
        fails too.
        """
        failures = 0
        while True:
            try:
                return await write(batch)
            except Exception as error:
                failures += 1
                away = isinstance(error, _DATABASE_ERRORS)
                if not away and (
                    isinstance(error, BadRequest) or failures >= _FAILURES_UNTIL_SUSPECTED
                ):
                    reason = error
                    break
                seconds = failures / 10
                if away:
                    seconds = _seconds_before_retry(error, failures, self._limits.backoff)
                left = self.waiting + len(batch)
                self._logger.warning(
                    "%s outcomes could not be written, retrying in %.1f s: %s", left, seconds, error
                )
                await self._pause(seconds)
        if len(batch) > 1:
            middle = len(batch) // 2
            first = await self._persist(batch[:middle], write)
            return [*first, *await self._persist(batch[middle:], write)]
        if not bare:
            return await self._persist([cast(T, without_texts(batch[0]))], write, bare=True)
        self._logger.error(
            "the outcome of a job cannot be written: the job will be rescued", exc_info=reason
        )
        return []

    async def _pause(self, seconds: float) -> None:
        if self._stop_by is not None and self._loop.time() + seconds > self._stop_by:
            raise _OutOfTime
        await self._resume.wait(seconds)


class _Successes:
    """Attempts that succeeded and wait to be written by `write`."""

    def __init__(self, write: _Write, most: int, *, beside: int, most_beside: int) -> None:
        self.beside = beside
        """How many must wait for a second statement to pay off."""
        self.most = most
        """Most per statement."""
        self.most_beside = most_beside
        """Most per statement of the second connection."""
        self.piled = WakeUp()
        self.waiting: dict[int, Attempt] = {}
        """By job."""
        self.write = write
        self.writing = False

    @property
    def piles(self) -> bool:
        """Whether a second statement would pay off."""
        return len(self.waiting) >= self.beside


def _seconds_before_retry(error: Exception, failures: int, backoff: Backoff) -> float:
    """Return the seconds until the next try, while the database cannot be reached."""
    if isinstance(error, DatabaseUnavailable):
        # Perhaps only this connection is broken: retry once at once, as outcomes are lost with the
        # process.
        failures -= 1
    return min(backoff(failures), _LONGEST_PAUSE) if failures else 0.0


class _OutOfTime(Exception):
    """The client stops, and the database did not come back in time."""


def _take(source: dict[int, T], most: int) -> dict[int, T]:
    """Remove and return up to so many of the oldest entries of a dict."""
    taken = dict(source) if len(source) <= most else dict(islice(source.items(), most))
    if len(taken) == len(source):
        source.clear()
    else:
        for key in taken:
            del source[key]
    return taken
