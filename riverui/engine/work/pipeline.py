"""How jobs of one kind are worked: hooks, middleware and the worker, composed once for all jobs.

Outermost first, as in River: the worker's middleware, resumable steps, plugins, the client's
middleware, the args' middleware; inside them WorkBegin hooks, decoding, the time limit, `work`,
WorkEnd hooks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from riverui.engine.hooks import Extensions, Hook, Middleware, settle
from riverui.engine.work import django_connections
from riverui.engine.work.attempt import Attempt, Cause, Work
from riverui.engine.work.cpu_time import in_thread
from riverui.engine.work.resumable import with_saved_progress
from riverui.engine.work.worker import Job, Worker, WorkUnit
from riverui.engine.work.worker_settings import hard_seconds_of, middleware_of, timeout_of
from riverui.errors import JobTimedOut

if TYPE_CHECKING:
    from riverui.domain.jobs import JobRow
    from riverui.engine.work.batches import Batches
    from riverui.engine.work.deadlines import Deadlines
    from riverui.engine.work.processes.job_processes import JobProcesses
    from riverui.engine.work.threads import WorkerThreads


def pipeline(
    unit: WorkUnit,
    extensions: Extensions,
    *,
    job_timeout: timedelta,
    batches: Batches,
    deadlines: Deadlines,
    logger: logging.Logger,
    processes: Callable[[], JobProcesses] | None,
    threads: WorkerThreads,
) -> Work:
    """Return how jobs of this kind are worked by a client with these extensions. Without
    `processes` isolated jobs run in threads.
    """
    own = Extensions.collect_from_args(unit.args_type)
    if unit.batch is not None:
        work = _worked_together(unit, job_timeout, batches)
    elif unit.isolated and processes is not None:
        work = _isolated(unit, job_timeout, deadlines, processes())
    else:
        work = _worked(unit, job_timeout, deadlines, threads, logger)
    if ends := (*extensions.work_end, *own.work_end):
        work = _with_ends(ends, work)
    work = _decoded(unit, work)
    if begins := (*extensions.work_begin, *own.work_begin):
        work = _with_begins(begins, work)
    for middleware in reversed((*extensions.work, *own.work)):
        work = _within(middleware, work)
    work = with_saved_progress(work)
    if callable(unit.worker.middleware):
        return _within_chosen(unit.worker, work)
    for middleware in reversed(unit.worker.middleware):
        work = _within(middleware, work)
    return work


def _worked(
    unit: WorkUnit,
    job_timeout: timedelta,
    deadlines: Deadlines,
    threads: WorkerThreads,
    logger: logging.Logger,
) -> Work:
    worker, run = unit.worker, unit.worker.work
    same = None if callable(worker.timeout) else (worker.timeout or job_timeout).total_seconds()

    async def called(attempt: Attempt, seconds: float) -> None:
        def asked() -> None:
            if attempt.asked_by is Cause.TIMEOUT:
                logger.warning(
                    "job %s (%s) is past its time limit of %g s: its thread cannot be interrupted,"
                    " and runs on until the job calls raise_if_cancelled() or ends",
                    attempt.row.id,
                    attempt.row.kind,
                    seconds,
                )

        # A decorated coroutine function may look synchronous.
        call = in_thread(run, attempt.cpu)
        await settle(await threads.call(call, attempt.job, asked=asked))

    async def work(attempt: Attempt) -> None:
        assert attempt.job is not None
        seconds = same
        if seconds is None:
            seconds = timeout_of(worker, attempt.job, job_timeout).total_seconds()
        if seconds > 0:
            deadlines.watch(attempt, seconds)
        try:
            if unit.is_async and django_connections.in_use():
                await django_connections.close_old_of_async_jobs()
            await (run(attempt.job) if unit.is_async else called(attempt, seconds))  # type: ignore[misc]
        except asyncio.CancelledError as cancelled:
            if attempt.timed_out:
                raise _timed_out(seconds) from cancelled
            raise

    return work


def _isolated(
    unit: WorkUnit, job_timeout: timedelta, deadlines: Deadlines, processes: JobProcesses
) -> Work:
    worker = unit.worker

    async def work(attempt: Attempt) -> None:
        seconds = timeout_of(worker, attempt.job, job_timeout).total_seconds()
        hard_seconds = hard_seconds_of(worker, attempt.job)

        def begun() -> None:
            # Jobs may have to wait for a process, and processes may take seconds to start.
            if seconds > 0:
                deadlines.watch(attempt, seconds)

        try:
            await processes.work(unit, attempt, begun, hard_seconds=hard_seconds)
        except asyncio.CancelledError as cancelled:
            if attempt.timed_out:
                raise _timed_out(seconds) from cancelled
            raise

    return work


def _worked_together(unit: WorkUnit, job_timeout: timedelta, batches: Batches) -> Work:
    async def work(attempt: Attempt) -> None:
        assert attempt.job is not None
        seconds = timeout_of(unit.worker, attempt.job, job_timeout).total_seconds()
        try:
            await batches.work(unit, attempt, seconds)
        except asyncio.CancelledError as cancelled:
            if attempt.timed_out:
                raise _timed_out(seconds) from cancelled
            raise

    return work


def _timed_out(seconds: float) -> JobTimedOut:
    return JobTimedOut(f"The job took longer than its time limit of {seconds:g} s.")


def _decoded(unit: WorkUnit, work: Work) -> Work:
    decode = unit.decode

    async def decoded(attempt: Attempt) -> None:
        attempt.job = Job(attempt.seen, decode(attempt.seen.args))
        await work(attempt)

    return decoded


def _with_begins(hooks: tuple[Hook, ...], work: Work) -> Work:
    async def begun(attempt: Attempt) -> None:
        for hook in hooks:
            await settle(hook.work_begin(attempt.seen))
        await work(attempt)

    return begun


def _with_ends(hooks: tuple[Hook, ...], work: Work) -> Work:
    async def ended(attempt: Attempt) -> None:
        error: BaseException | None = None
        try:
            await work(attempt)
        except BaseException as raised:
            if isinstance(raised, GeneratorExit) and attempt.closing:
                raise
            error = raised
        try:
            for hook in hooks:
                error = await settle(hook.work_end(attempt.seen, error))
            if error is not None:
                raise error
        finally:
            # It refers to this frame, and this frame to it.
            error = None

    return ended


def _within(middleware: Middleware, work: Work) -> Work:
    async def within(attempt: Attempt) -> None:
        row = attempt.seen

        def inner(job: JobRow | None = None, /) -> Awaitable[None]:
            # A second call starts from the same row, not from the changes of inner middleware.
            attempt.seen = row if job is None else _same_job(job, row)
            return work(attempt)

        await middleware.work(row, inner)

    return within


def _same_job(job: JobRow, row: JobRow) -> JobRow:
    if job.id != row.id:
        raise ValueError(f"A middleware continued with job {job.id} in the work of job {row.id}.")
    return job


def _within_chosen(worker: Worker[object], work: Work) -> Work:
    async def within(attempt: Attempt) -> None:
        whole = work
        for middleware in reversed(middleware_of(worker, attempt.row)):
            whole = _within(middleware, whole)
        await whole(attempt)

    return within
