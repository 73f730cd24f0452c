"""Stores what jobs log with `logging` in their metadata: River's riverlog, readable while a job
runs.

Records of a job's coroutines and threads are collected: see log_capture. The log is written with
the outcome of the attempt, and at intervals before that: each write rewrites the whole row, so
longer logs are written less often.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any

from riverui.domain.json import read_json
from riverui.engine.client_context import ClientContext
from riverui.engine.service import WakeUp
from riverui.engine.waiting import pass_on_cancellation
from riverui.engine.work import log_capture
from riverui.engine.work.attempt import Attempt, client as of_client, running
from riverui.engine.work.attempt_log import AttemptLog
from riverui.errors import DatabaseError

KEY = "river:log"

_BYTES_A_SECOND = 64 * 1024
"""Bytes of one job's log that are written per second while it runs, as each write rewrites the
row.
"""
_BYTES_A_SECOND_TOGETHER = 1024 * 1024
"""Bytes of all jobs' logs that are written per second while they run, as others need the pool
too.
"""


class JobLogs(logging.Handler):
    """Collects the logs of one client's jobs, and writes those of running ones."""

    def __init__(self, client: ClientContext) -> None:
        super().__init__()
        self._wake_up = WakeUp()
        self._client = client
        self._limits = client.limits
        self._hooks = client.extensions.log_emit
        self._due: list[tuple[float, int, AttemptLog]] = []
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._most = client.config.job_log_bytes
        self._most_together = client.config.job_log_total_bytes
        self._owner: object = None
        """The client whose jobs' records are collected."""
        self._serial = count()
        self.setFormatter(client.config.job_log_formatter or _formatter())

    def begin(self) -> None:
        """Start collecting."""
        self._owner = of_client.get(None)
        log_capture.begin(self._owner, self)

    def end(self) -> None:
        """Stop collecting. This is not named `close`, which logging.config calls for every
        handler.
        """
        log_capture.end(self._owner)

    def emit(self, record: logging.LogRecord) -> None:
        """Add a record to the log of its attempt."""
        try:
            attempt = running.get()
            if attempt.log is None:
                attempt.log = AttemptLog(attempt, self._most)
            log = attempt.log
            if log.append(self.format(record)) and not log.unwritten:
                log.unwritten = True
                if threading.get_ident() == self._loop_thread:
                    self._schedule(log, attempt)
                else:
                    self._loop.call_soon_threadsafe(self._schedule, log, attempt)
            for hook in self._hooks:
                hook.log_emit(record)
        except Exception:
            self.handleError(record)

    async def finish(self, attempt: Attempt) -> None:
        """Add the log to the attempt's outcome, after a current write of it has ended."""
        log = attempt.log
        if log is None:
            return
        if log.writing is not None:
            await asyncio.wait([log.writing])
        try:
            if text := self._array(log, attempt):
                attempt.update(KEY, text)
        except Exception:
            # The job's outcome matters more.
            self._client.logger.exception("the log of job %s is lost", attempt.row.id)
        log.end()

    async def run(self) -> None:
        """Write the logs of running jobs when they are due, until cancelled."""
        while True:
            pass_on_cancellation()
            wait = self._due[0][0] - self._loop.time() if self._due else None
            await self._wake_up.wait(wait)
            while self._due and self._due[0][0] <= self._loop.time():
                log = heapq.heappop(self._due)[2]
                log.unwritten = False
                if log.attempt is not None and not log.attempt.done:
                    size = await self._write(log, log.attempt)
                    await asyncio.sleep(
                        max(self._limits.log_gap_seconds, size / _BYTES_A_SECOND_TOGETHER)
                    )

    async def _write(self, log: AttemptLog, attempt: Attempt) -> int:
        """Write the current log; return its size in bytes."""
        text = self._array(log, attempt)
        if text is None:
            return 0
        log.writing = self._loop.create_future()
        try:
            async with self._client.driver.autocommit() as executor:
                await executor.jobs.update(attempt.row.id, metadata=f'{{"{KEY}":{text}}}')
        except DatabaseError as error:
            self._client.logger.debug(
                "the log of job %s could not be written yet: %s", attempt.row.id, error
            )
            if not log.unwritten:
                log.unwritten = True
                self._schedule(log, attempt)
        finally:
            log.writing.set_result(None)
            log.writing = None
        return len(text)

    def _schedule(self, log: AttemptLog, attempt: Attempt) -> None:
        # The logs of earlier attempts are in the same value, and written again.
        size = log.size + len(attempt.row.metadata)
        seconds = max(self._limits.log_seconds, size / _BYTES_A_SECOND)
        heapq.heappush(self._due, (self._loop.time() + seconds, next(self._serial), log))
        if self._due[0][2] is log:
            self._wake_up.set()

    def _array(self, log: AttemptLog, attempt: Attempt) -> str | None:
        """Return the value of `river:log` with this attempt's entry as the newest; None if the job
        has something other than logs under that key.
        """
        row = attempt.row
        entries = _entries(row.metadata)
        if entries is None:
            self._client.logger.warning("job %s has something other than logs in %s", row.id, KEY)
            return None
        with self.lock or nullcontext():
            newest = _dump({"attempt": row.attempt, "log": log.text()})
        return "[" + ",".join([*_newest(entries, newest, self._most_together), newest]) + "]"


def _entries(metadata: str) -> Sequence[str] | None:
    """Return the entries of `river:log`, each as JSON text; None if it is not a list."""
    if KEY not in metadata:
        return []
    try:
        found = read_json(metadata)
        entries = found.get(KEY, []) if isinstance(found, dict) else None
        return list(map(_dump, entries)) if isinstance(entries, list) else None
    except ValueError:
        return None


def _newest(entries: Sequence[str], newest: str, most: int) -> Sequence[str]:
    """Return the older entries that fit into so many bytes together with the newest one."""
    size = 2 + len(newest.encode())
    for at, entry in enumerate(reversed(entries)):
        size += 1 + len(entry.encode())
        if size > most:
            return entries[len(entries) - at :]
    return entries


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _formatter() -> logging.Formatter:
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    return formatter
