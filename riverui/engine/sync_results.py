"""Wait until jobs have ended, without asyncio. All threads that wait in one client share its
polls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import cast

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.job_lists import JobListParams, count_jobs
from riverui.engine.job_results import (
    Waiting,
    fail,
    look,
    looks_until_ended,
    next_look,
    notify_wanted,
)
from riverui.engine.limits import EngineLimits
from riverui.engine.results import seconds_of
from riverui.engine.sync_notifier import SyncNotifier
from riverui.errors import DatabaseError
from riverui.storage.interface import Driver, SyncDriver, SyncListeningDriver, at_once, entered


class SyncResultMethods:
    """The waiting methods of a SyncClient."""

    _results: SyncJobResults

    def wait(self, id: int, *, timeout: timedelta | None = None) -> JobRow:
        """Return a job once it has ended: completed, cancelled or discarded, wherever it is worked.

        None waits for ever. WaitTimeout, a TimeoutError, if it takes longer. NotFound if the job
        does not exist or its insert is not committed; JobGone, a NotFound, if it was deleted during
        the wait, or removed as a successful ephemeral job.
        """
        (row,) = self.wait_many([id], timeout=timeout)
        return row

    def wait_many(self, ids: Iterable[int], *, timeout: timedelta | None = None) -> list[JobRow]:
        """Return jobs in the order of the given ids, once all have ended; see `wait`."""
        ids = list(ids)
        rows = {row.id: row for row in self.wait_each(ids, timeout=timeout)}
        return [rows[each] for each in ids]

    def wait_each(
        self, ids: Iterable[int], *, timeout: timedelta | None = None
    ) -> Iterator[JobRow]:
        """Yield jobs as they end, each once; see `wait`."""
        yield from self._results.ended(list(ids), seconds_of(timeout))

    def wait_all(
        self, params: JobListParams, *, timeout: timedelta | None = None
    ) -> Mapping[JobState, int]:
        """Wait until every matching job has ended, and return how many there are in each state.

        None waits for ever; WaitTimeout, a TimeoutError, if it takes longer. Jobs that match later
        are waited for too; if none matches, it returns at once. It polls, at most once a second
        during a long wait, and less often if a poll takes long; it counts as `job_count` does.
        """
        return self._results.all_ended(params, seconds_of(timeout))


class SyncJobResults:
    """Polls jobs for all threads that wait; one thread at a time polls."""

    def __init__(
        self,
        driver: SyncDriver,
        limits: EngineLimits | None = None,
        *,
        poll_only: bool = False,
    ) -> None:
        # Only the methods that a SyncDriver has are used.
        self._driver = cast(Driver, driver)
        self._changed = threading.Condition()
        self._hinted: set[int] = set()
        """Jobs that have ended according to a notification."""
        self._limits = limits = limits or EngineLimits()
        self._looked_at = self._notified_at = float("-inf")
        self._looking = False
        self._unannounced: set[int] = set()
        """Jobs that working clients were not notified about yet."""
        self._waiting: dict[Waiting, None] = {}
        self.notifier: SyncNotifier | None = None
        """Listens for ends of jobs; None if the driver cannot."""
        if not poll_only and isinstance(driver, SyncListeningDriver) and driver.listens:
            self.notifier = SyncNotifier(
                driver, limits, ended=self._on_end, connected=self._on_connect
            )

    def ended(self, ids: list[int], seconds: float | None) -> Iterator[JobRow]:
        """Yield the rows of jobs as they end; see JobResults."""
        if not ids:
            return
        waiting = Waiting(ids, time.monotonic(), seconds)
        with self._changed:
            self._waiting[waiting] = None
            self._unannounced.update(ids)
        try:
            while True:
                while waiting.ended:
                    yield waiting.ended.popleft()
                if waiting.error is not None:
                    raise waiting.error
                if not waiting.left:
                    return
                if waiting.is_over(time.monotonic()):
                    raise waiting.timeout()
                self._turn(waiting)
        finally:
            with self._changed:
                self._waiting.pop(waiting, None)

    def all_ended(self, params: JobListParams, seconds: float | None) -> Mapping[JobState, int]:
        """Return the counts of the jobs that match, once all have ended; see JobResults."""
        looks = looks_until_ended(self._driver, params, seconds, self._limits, time.monotonic)
        with suppress(StopAsyncIteration):
            while True:
                time.sleep(at_once(anext(looks)))
        with entered(self._driver.autocommit()) as executor:
            return at_once(count_jobs(executor, params))

    def close(self) -> None:
        """Stop listening for ended jobs; safe to call twice."""
        if self.notifier is not None:
            self.notifier.close()

    def _turn(self, waiting: Waiting) -> None:
        """Poll, or wait until the next poll is due or another thread has polled."""
        with self._changed:
            if waiting.ended or waiting.error or not waiting.left:
                return
            now = time.monotonic()
            look_at = next_look(self._waiting, self._looked_at, self._limits)
            if self._looking or not (self._hinted or now >= look_at):
                until = None if self._looking else look_at
                if waiting.looked and waiting.deadline is not None:
                    until = min(until or waiting.deadline, waiting.deadline)
                self._changed.wait(None if until is None else max(until - now, 0))
                return
            self._looking = True
            ids, self._hinted = self._hinted, set()
            if now >= look_at:
                ids, self._looked_at = self._ids(), now
                # Drop old ids, as there may be no notifier for a long time.
                self._unannounced &= ids
        try:
            self._look(ids)
            if self.notifier is not None:
                self.notifier.open()
                if self.notifier.listening:
                    self._notify(now)
        finally:
            with self._changed:
                self._looking = False
                self._changed.notify_all()

    def _look(self, ids: set[int]) -> None:
        try:
            found = at_once(look(self._driver, ids))
        except DatabaseError as error:
            with self._changed:
                fail(self._waiting, error)
        else:
            with self._changed:
                for each in self._waiting:
                    each.learn(ids, found)

    def _notify(self, now: float) -> None:
        """Notify working clients which jobs are waited for; if that fails, polling is enough."""
        with self._changed:
            left = self._ids()
            if now - self._notified_at >= self._limits.results_renew_seconds:
                self._unannounced, self._notified_at = left, now
            unannounced, self._unannounced = self._unannounced & left, set()
        if unannounced:
            with suppress(DatabaseError):
                at_once(notify_wanted(self._driver, unannounced))

    def _ids(self) -> set[int]:
        return {job_id for each in self._waiting for job_id in each.left}

    def _on_connect(self) -> None:
        with self._changed:
            # Sent with the next poll, which is due now.
            self._unannounced, self._looked_at = self._ids(), float("-inf")
            self._changed.notify_all()

    def _on_end(self, ids: Sequence[int]) -> None:
        with self._changed:
            if hinted := self._ids().intersection(ids):
                self._hinted |= hinted
                self._changed.notify_all()
