"""Jobs in steps that resume after a failure: River's resumable jobs, with its metadata and rules.

An attempt that ends in an error, a snooze or an interruption stores which step it completed last,
and the cursors of unfinished steps. The next attempt skips the steps up to that one, and passes
each cursor to its step. Names must be unique in a job, and steps cannot be nested. Code outside of
steps runs in every attempt.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from riverui.domain.jobs import JobState
from riverui.engine.hooks import settle
from riverui.engine.work.attempt import Attempt, Work
from riverui.engine.work.context import own_client, running_attempt
from riverui.engine.work.metadata_json import json_text
from riverui.engine.work.progress import CURSOR, MARK, STEP, Progress
from riverui.engine.work.worker import A, Job
from riverui.errors import NotFound, ResumableError


async def resumable_step(name: str, step: Callable[[], Awaitable[None] | None]) -> None:
    """Run one step of this job, unless an earlier attempt completed it.

    Its exception ends the job like any other. If the job catches it and continues, no further step
    runs, and the exception still is the job's error.
    """
    progress = _progress()
    if progress.reach(name):
        with progress.within(name):
            await settle(step())


async def resumable_step_cursor(
    name: str, step: Callable[[Any], Awaitable[None] | None], *, start: Any = None
) -> None:
    """Run one step with the cursor left by an earlier attempt (`resumable_set_cursor`), or
    `start`.
    """
    progress = _progress()
    if progress.reach_cursor(name):
        cursor = progress.cursors.get(name)
        with progress.within(name, cursor=True):
            await settle(step(start if cursor is None else cursor))


def resumable_step_sync(name: str, step: Callable[[], None]) -> None:
    """Run one step as `resumable_step` does, for synchronous workers."""
    progress = _progress()
    if progress.reach(name):
        with progress.within(name):
            step()


def resumable_step_cursor_sync(
    name: str, step: Callable[[Any], None], *, start: Any = None
) -> None:
    """Run one step as `resumable_step_cursor` does, for synchronous workers."""
    progress = _progress()
    if progress.reach_cursor(name):
        cursor = progress.cursors.get(name)
        with progress.within(name, cursor=True):
            step(start if cursor is None else cursor)


def resumable_set_cursor(cursor: Any) -> None:
    """Set the cursor of this step, from which the next attempt resumes it. ValueError for values
    that JSON cannot hold.
    """
    progress = _progress()
    progress.inside()
    progress.set_cursor(json.loads(json_text(cursor)))


async def resumable_set_step_tx(tx: object, job: Job[A]) -> Job[A]:
    """Record the current step as completed in the caller's transaction; return the job's new row.

    A rollback also reverts this progress, and earlier steps may run again. Commit before the step
    returns.
    """
    return await _set_step_tx(tx, job, {})


async def resumable_set_step_cursor_tx(tx: object, job: Job[A], cursor: Any) -> Job[A]:
    """Record the current step and its cursor in the caller's transaction: see
    `resumable_set_step_tx`.
    """
    return await _set_step_tx(tx, job, {_progress().step: json.loads(json_text(cursor))})


def with_saved_progress(work: Work) -> Work:
    """Return `work` wrapped so that an attempt that fails saves its progress for the next one."""

    async def kept(attempt: Attempt) -> None:
        if CURSOR in attempt.row.metadata and not _progress_of(attempt).readable:
            raise ResumableError(f"The metadata {CURSOR} is not an object.")
        try:
            await work(attempt)
        except BaseException:
            if attempt.progress is not None:
                attempt.progress.keep(attempt.update)
            raise
        if attempt.progress is None and MARK not in attempt.row.metadata:
            return
        progress = _progress_of(attempt)
        if error := progress.unfinished():
            progress.keep(attempt.update)
            raise error

    return kept


async def _set_step_tx(tx: object, job: Job[A], cursor: dict[str, Any]) -> Job[A]:
    if job.state is not JobState.RUNNING:
        raise ValueError("Only a running job can record progress.")
    progress = _progress()
    progress.inside()
    if progress.pending:
        raise ResumableError(
            f"The step {progress.pending[0]!r} has a saved cursor, so it must come first."
        )
    cursors = progress.cursors | cursor
    executor = await own_client().driver.adopt(tx)
    row = await executor.jobs.update(
        job.id, metadata=json_text({STEP: progress.step, CURSOR: cursors or None})
    )
    if row is None:
        raise NotFound(f"Job not found: {job.id}.")
    # Writing it again at the end could restore what the caller rolled back.
    progress.completed = ""
    progress.cursors = cursors
    progress.cursors_changed = False
    return Job(row, job.args)


def _progress() -> Progress:
    return _progress_of(running_attempt())


def _progress_of(attempt: Attempt) -> Progress:
    if attempt.progress is None:
        attempt.progress = attempt.new_progress()
    return attempt.progress
