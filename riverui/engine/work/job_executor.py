"""Works fetched jobs, each in its own task, and reports their outcomes to the completer."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from riverui.engine.hooks import Extensions, settle
from riverui.engine.work import outcome
from riverui.engine.work.attempt import Attempt, Cause, Slots, Work, running
from riverui.engine.work.batches import Batches
from riverui.engine.work.cpu_time import CpuMeter, stepwise
from riverui.engine.work.failure_log import log_cancellation, log_failure
from riverui.engine.work.outcome import Outcome
from riverui.engine.work.pipeline import pipeline
from riverui.engine.work.worker import JobCancel, JobSnooze, retry_for
from riverui.errors import UnknownJobKind

if TYPE_CHECKING:
    import logging

    from riverui.domain.jobs import JobRow
    from riverui.domain.retries import Retry
    from riverui.engine.config import ClientConfig
    from riverui.engine.work.deadlines import Deadlines
    from riverui.engine.work.job_log import JobLogs
    from riverui.engine.work.processes.job_processes import JobProcesses
    from riverui.engine.work.threads import WorkerThreads


_INTERRUPTIONS = {
    Cause.FULL: "as other jobs kept its slot",
    Cause.SILENT: "as its client was cut off",
    Cause.STOP: "by the client's stop",
}
"""Why an attempt was interrupted, in words; such an attempt does not count."""
_TURN = 0.002
"""Seconds of one turn of the event loop that starting jobs may take, as everything else waits."""
_FIRST_TASKS = 8
"""Tasks that start in the first turn, before it is known how long their first steps take; and that
may be created in that time without another turn.
"""
_MAX_GROWTH = 8
"""Maximum factor by which more start in the next turn: a thousand quick ones need four turns."""


class OutcomeTaker(Protocol):
    """The completer, which writes how attempts ended."""

    @property
    def full(self) -> bool:
        """Whether its queue is full: wait for `room` before the next outcome."""
        ...

    async def room(self) -> None:
        """Wait until the queue has room."""
        ...

    def succeed(self, attempt: Attempt) -> None:
        """Write that an attempt succeeded, without data to store."""
        ...

    def settle(self, attempt: Attempt, ended: Outcome) -> None:
        """Write how an attempt ended."""
        ...


class JobExecutor:
    """Works the jobs of one client."""

    def __init__(
        self,
        config: ClientConfig,
        extensions: Extensions,
        *,
        clock: Callable[[], datetime],
        completer: OutcomeTaker,
        deadlines: Deadlines,
        logger: logging.Logger,
        logs: JobLogs | None,
        threads: WorkerThreads,
        processes: Callable[[], JobProcesses] | None = None,
    ) -> None:
        """Create an executor; without `processes` it works isolated jobs in threads."""
        self._begun = asyncio.Event()
        self._begun.set()
        self.meter: CpuMeter | None = None
        """Measures the processor time of attempts."""
        self.batches = Batches(self.begun, deadlines=deadlines, logger=logger, threads=threads)
        self._clock = clock
        self._completer = completer
        self._config = config
        self._context = copy_context()
        """The context in which jobs start, including those fetched for another job's batch."""
        self._created, self._counted_at = 0, 0.0
        """Tasks created without another turn, and since when (`perf_counter`)."""
        self._deadlines = deadlines
        self._extensions = extensions
        self._logger = logger
        self._logs = logs
        self._loop = asyncio.get_running_loop()
        self._pipelines: dict[str, Work] = {}
        self._processes = processes
        self._threads = threads
        self._at_once = _FIRST_TASKS
        """Tasks to start in one turn."""
        self._turned_at: float | None = None
        """When this turn's tasks were created; None before the first turn of a series."""
        self._waiting: deque[Attempt] = deque()
        """Attempts that were not started yet."""
        assert config.workers is not None
        self._workers = config.workers

    def attempt(self, row: JobRow, slots: Slots, *, ephemeral: bool = False) -> Attempt:
        """Create an attempt at a job, to be started; `ephemeral` if its queue is."""
        unit = self._workers.get(row.kind)
        attempt = Attempt(row, unit, slots)
        attempt.ephemeral = ephemeral or (unit is not None and unit.ephemeral)
        return attempt

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Start jobs from the next turn of the event loop on, in as many turns as they need."""
        if not self._waiting and self._few(len(attempts)):
            for attempt in attempts:
                run, context = self._run(attempt), self._context.copy()
                attempt.task = asyncio.Task(run, loop=self._loop, context=context)
            return
        if not self._waiting:
            self._at_once, self._turned_at = _FIRST_TASKS, None
            self._loop.call_soon(self._start_some, context=self._context)
            self._begun.clear()
        self._waiting.extend(attempts)

    def _few(self, tasks: int) -> bool:
        """Return whether so many tasks may be created at once, and count them."""
        now = time.perf_counter()
        if now - self._counted_at > _TURN:
            self._created, self._counted_at = 0, now
        self._created += tasks
        return self._created <= _FIRST_TASKS

    async def begun(self) -> None:
        """Wait until all attempts passed to `start` have begun."""
        await self._begun.wait()

    if sys.version_info >= (3, 12):

        def _start_some(self) -> None:
            """Run each job to its first wait: many have none, and are never scheduled."""
            until = time.perf_counter() + _TURN
            waiting = self._waiting
            while waiting:
                attempt = waiting.popleft()
                task = asyncio.Task(self._run(attempt), loop=self._loop, eager_start=True)
                if not attempt.done:
                    attempt.task = task
                if time.perf_counter() >= until:
                    break
            if waiting:
                self._loop.call_soon(self._start_some)
            else:
                self._begun.set()

    else:

        def _start_some(self) -> None:
            """Create as many tasks as the last turn had time for: they start before this is called
            again.
            """
            waiting, now = self._waiting, time.perf_counter()
            if self._turned_at is not None:
                fit = int(self._at_once * _TURN / max(now - self._turned_at, 1e-6))
                self._at_once = max(1, min(fit, _MAX_GROWTH * self._at_once))
            for _ in range(min(self._at_once, len(waiting))):
                attempt = waiting.popleft()
                attempt.task = asyncio.Task(self._run(attempt), loop=self._loop)
            if waiting:
                self._turned_at = time.perf_counter()
                self._loop.call_soon(self._start_some)
            else:
                # The tasks' first steps run before those that wait for it.
                self._begun.set()

    async def _run(self, attempt: Attempt) -> None:
        running.set(attempt)
        attempt.working = True
        attempt.started_at = self._clock()
        error: BaseException | None = None
        try:
            try:
                if attempt.cause is not None:
                    raise asyncio.CancelledError
                work = self._pipelines.get(attempt.row.kind) or self._pipeline(attempt)
                if self.meter is not None:
                    attempt.cpu = self.meter.begin(attempt.row.kind, attempt.started_at)
                if attempt.cpu is None:
                    await work(attempt)
                else:
                    await stepwise(work(attempt), attempt.cpu)
            except BaseException as raised:
                if isinstance(raised, GeneratorExit) and attempt.closing:
                    raise
                # SystemExit and KeyboardInterrupt too: they are this job's error, and must not end
                # other jobs.
                error = raised
            attempt.done = True
            attempt.ended_at = self._clock()
            if attempt.cpu is not None and self.meter is not None:
                self.meter.add(attempt.row, attempt.ended_at, attempt.cpu)
            if error is None and attempt.updates is None and attempt.log is None:
                self._completer.succeed(attempt)
            else:
                await self._conclude(attempt, error)
            if self._completer.full:
                await self._completer.room()
        except (Exception, KeyboardInterrupt, SystemExit):
            self._logger.exception(
                "the outcome of job %s is lost: the job will be rescued", attempt.row.id
            )
        finally:
            attempt.done = True
            # They refer to this frame, and this frame to them; and args may be large.
            error = attempt.task = attempt.job = None
            attempt.slots.release(attempt)

    def _pipeline(self, attempt: Attempt) -> Work:
        """Return how to work the kind of this attempt; UnknownJobKind if it has no worker."""
        if attempt.unit is None:
            raise UnknownJobKind(attempt.row.kind)
        work = self._pipelines[attempt.row.kind] = pipeline(
            attempt.unit,
            self._extensions,
            job_timeout=self._config.job_timeout,
            batches=self.batches,
            deadlines=self._deadlines,
            logger=self._logger,
            processes=self._processes,
            threads=self._threads,
        )
        return work

    async def _conclude(self, attempt: Attempt, error: BaseException | None) -> None:
        """Settle a job that did not simply succeed."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # A job that has cancelled its own task may leave the CancelledError to this task.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        if self._logs is not None:
            await self._logs.finish(attempt)
        if error is not None and attempt.cause is Cause.REMOTE:
            error = JobCancel("job cancelled remotely")
        try:
            ended = await self._outcome(attempt, error)
        except (Exception, KeyboardInterrupt, SystemExit) as broken:
            # Such as a snooze beyond the calendar: treat it as any other error.
            ended = await self._failure(attempt, broken)
        self._completer.settle(attempt, ended)

    async def _outcome(self, attempt: Attempt, error: BaseException | None) -> Outcome:
        row, now = attempt.row, attempt.ended_at
        if error is None:
            return outcome.completed(row, now, attempt.metadata(), ephemeral=attempt.ephemeral)
        if snooze := outcome.find(error, JobSnooze):
            attempt.update(outcome.SNOOZES, str(outcome.next_snoozes(row)))
            return outcome.snoozed(row, now, attempt.metadata(), snooze.duration)
        if cancel := outcome.find(error, JobCancel):
            with suppress(Exception):
                log_cancellation(self._logger, row, cancel)
            text = outcome.attempt_error(row, attempt.started_at, cancel)
            return outcome.cancelled(row, now, attempt.metadata(), text)
        if attempt.cause in _INTERRUPTIONS and isinstance(error, asyncio.CancelledError):
            why = _INTERRUPTIONS[attempt.cause]
            self._logger.info("job %s was interrupted %s, and is available again", row.id, why)
            due_at = None if attempt.cause is Cause.FULL else now
            return outcome.interrupted(row, due_at, attempt.metadata())
        return await self._failure(attempt, error)

    async def _failure(self, attempt: Attempt, error: BaseException) -> Outcome:
        set_cancelled = await self._handle(attempt, error)
        now = self._clock()
        row, retry = attempt.row, retry_for(attempt.unit, self._config.retry)
        ended = self._failed(attempt, error, now, retry, set_cancelled=set_cancelled)
        attempts = row.max_attempts if retry is None else retry.attempts_of(row)
        # A log filter of the program may raise: the outcome matters more.
        with suppress(Exception):
            log_failure(self._logger, row, error, ended, now, attempts)
        return ended

    def _failed(
        self,
        attempt: Attempt,
        error: BaseException,
        now: datetime,
        retry: Retry | None,
        *,
        set_cancelled: bool,
    ) -> Outcome:
        row, unit, metadata = attempt.row, attempt.unit, attempt.metadata()
        last, why = row.attempt >= row.max_attempts, ""
        if retry is not None and not last and not set_cancelled:
            why = retry.rejects(row, error) or ""
        text = outcome.attempt_error(row, attempt.started_at, error, why)
        if set_cancelled:
            return outcome.cancelled(row, now, metadata, text)
        if last or why:
            return outcome.discarded(row, now, metadata, text, why)
        retry_at = outcome.next_retry(
            row,
            now,
            worker=unit.worker if unit else None,
            job=attempt.job,
            retry=retry,
            policy=self._config.retry_policy,
            logger=self._logger,
        )
        return outcome.failed(row, now, metadata, text, retry_at)

    async def _handle(self, attempt: Attempt, error: BaseException) -> bool:
        """Return whether the client's error handler wants to cancel the job."""
        if self._config.error_handler is None:
            return False
        try:
            result = await settle(self._config.error_handler(attempt.row, error))
        except (Exception, GeneratorExit, KeyboardInterrupt, SystemExit) as broken:
            if isinstance(broken, GeneratorExit) and attempt.closing:
                raise
            self._logger.exception("the error handler failed on job %s", attempt.row.id)
            return False
        return result is not None and result.set_cancelled
