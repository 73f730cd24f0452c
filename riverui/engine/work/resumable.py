"""Jobs in steps that go on where they failed: River's resumable jobs, with its metadata and rules.

An attempt that ends in an error, a snooze or an interruption leaves behind which step it completed
last, and the cursors of steps that it was in the middle of. The next attempt skips the steps up to
that one, and gives the cursor to its step. Names must be unique in a job, and steps cannot be
nested. Code outside of steps runs in every attempt.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from riverui.domain.jobs import JobState
from riverui.domain.stored_json import read_object
from riverui.engine.args import gojson
from riverui.engine.hooks import settle
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.context import own_client, running_attempt
from riverui.engine.work.worker import A, Job
from riverui.errors import NotFound, ResumableError

STEP = "river:resumable_step"
CURSOR = "river:resumable_cursor"
_MARK = "river:resumable_"


async def resumable_step(name: str, step: Callable[[], Awaitable[None] | None]) -> None:
    """Runs one step of this job, unless an earlier attempt completed it.

    Its exception ends the job like any other. Where the job goes on nevertheless, no further step
    runs and the exception is the job's error all the same.
    """
    progress = _progress()
    if progress.reach(name):
        with progress.within(name):
            await settle(step())


async def resumable_step_cursor(
    name: str, step: Callable[[Any], Awaitable[None] | None], *, start: Any = None
) -> None:
    """Runs one step with the cursor left by an earlier attempt (`resumable_set_cursor`), or
    `start`.
    """
    progress = _progress()
    if progress.reach_cursor(name):
        cursor = progress.cursors.get(name)
        with progress.within(name, cursor=True):
            await settle(step(start if cursor is None else cursor))


def resumable_step_sync(name: str, step: Callable[[], None]) -> None:
    """`resumable_step` for synchronous workers."""
    progress = _progress()
    if progress.reach(name):
        with progress.within(name):
            step()


def resumable_step_cursor_sync(
    name: str, step: Callable[[Any], None], *, start: Any = None
) -> None:
    """`resumable_step_cursor` for synchronous workers."""
    progress = _progress()
    if progress.reach_cursor(name):
        cursor = progress.cursors.get(name)
        with progress.within(name, cursor=True):
            step(start if cursor is None else cursor)


def resumable_set_cursor(cursor: Any) -> None:
    """Remembers how far this step has come, should the attempt fail. ValueError for what JSON
    cannot hold.
    """
    progress = _progress()
    progress.inside()
    progress.cursors[progress.step] = json.loads(_json(cursor))
    progress.cursors_changed = True


async def resumable_set_step_tx(tx: object, job: Job[A]) -> Job[A]:
    """Records the current step as completed inside the caller's transaction; the job as it is then.

    The database owns this progress from then on: a rollback takes it back, and earlier steps may
    run again. Commit before the step returns.
    """
    return await _set_step_tx(tx, job, {})


async def resumable_set_step_cursor_tx(tx: object, job: Job[A], cursor: Any) -> Job[A]:
    """Records the current step and its cursor in the caller's transaction: see
    `resumable_set_step_tx`.
    """
    return await _set_step_tx(tx, job, {_progress().step: json.loads(_json(cursor))})


class Progress:
    """Where a resumable job is in this attempt."""

    def __init__(self, metadata: str) -> None:
        found = read_object(metadata) if _MARK in metadata else {}
        step, cursors = found.get(STEP), found.get(CURSOR)
        self.resume_step = step if isinstance(step, str) else ""
        """The step to resume after."""
        self.cursors: dict[str, Any] = cursors if isinstance(cursors, dict) else {}
        self.cursors_changed = False
        self.completed = ""
        """The step completed last, for the next attempt."""
        self.error: BaseException | None = None
        self.resumed = not self.resume_step
        # A cursor without a completed step marks no place to skip to, but its step has to come.
        self.pending = [] if self.resume_step else sorted(self.cursors)
        self.step = ""
        """The one that runs."""
        self._names: set[str] = set()

    def reach(self, name: str) -> bool:
        """Whether a step without a cursor is to be run now."""
        if not self._register(name):
            return False
        if name in self.pending:
            self._fail(
                f"The step {name!r} has a saved cursor: resume it with resumable_step_cursor."
            )
        if not self.resumed:
            self._skip(name)
            return False
        return True

    def reach_cursor(self, name: str) -> bool:
        """Whether a step with a cursor is to be run now: also the one completed last, if it left a
        cursor.
        """
        if not self._register(name):
            return False
        if not self.resumed:
            self._skip(name)
            if not self.resumed or name not in self.cursors:
                return False
        if name in self.pending:
            self.pending.remove(name)
        return True

    @contextmanager
    def within(self, name: str, *, cursor: bool = False) -> Iterator[None]:
        """The time in which a step runs; with a `cursor`, its end uses that up."""
        self.step = name
        try:
            yield
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.step = ""
        if self.error is not None:
            return
        self.completed = name
        if cursor and name in self.cursors:
            del self.cursors[name]
            self.cursors_changed = True

    def inside(self) -> None:
        """ResumableError outside of a step."""
        if not self.step:
            raise ResumableError("This works only inside a resumable step.")

    def unfinished(self) -> BaseException | None:
        """Why a job that ended well did not end well after all."""
        if self.error is not None:
            return self.error
        if not self.resumed:
            return ResumableError(f"The job has no step {self.resume_step!r} to resume after.")
        if self.pending:
            return ResumableError(f"The job has no step {self.pending[0]!r} to resume in.")
        return None

    def keep(self, attempt: Attempt) -> None:
        """Leaves the progress for the next attempt."""
        # Before the step with the cursor was found, a completed step would make it unreachable.
        if self.pending:
            return
        if self.cursors_changed:
            attempt.update(CURSOR, _json(self.cursors or None))
        if self.completed:
            attempt.update(STEP, _json(self.completed))

    def _register(self, name: str) -> bool:
        if self.step:
            self._fail(
                f"The step {name!r} is inside the step {self.step!r}: steps cannot be nested."
            )
        if self.error is not None:
            return False
        if name in self._names:
            self._fail(f"The job has two steps {name!r}.")
        self._names.add(name)
        return True

    def _skip(self, name: str) -> None:
        if name == self.resume_step:
            self.completed = name
            self.resumed = True

    def _fail(self, message: str) -> None:
        self.error = ResumableError(message)
        raise self.error


async def keeping_progress(attempt: Attempt, work: Callable[[Attempt], Awaitable[None]]) -> None:
    """Works an attempt, and leaves its progress for the next one unless it ends well."""
    try:
        await work(attempt)
    except BaseException:
        if attempt.progress is not None:
            attempt.progress.keep(attempt)
        raise
    if attempt.progress is None and _MARK not in attempt.row.metadata:
        return
    progress = _progress_of(attempt)
    if error := progress.unfinished():
        progress.keep(attempt)
        raise error


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
    row = await executor.job_update(
        job.id, metadata=_json({STEP: progress.step, CURSOR: cursors or None})
    )
    if row is None:
        raise NotFound(f"Job not found: {job.id}.")
    # Written again at the end, it would bring back what the caller may have rolled back.
    progress.completed = ""
    progress.cursors = cursors
    progress.cursors_changed = False
    return Job(row, job.args)


def _progress() -> Progress:
    return _progress_of(running_attempt())


def _progress_of(attempt: Attempt) -> Progress:
    if attempt.progress is None:
        attempt.progress = Progress(attempt.row.metadata)
    return attempt.progress


def _json(value: Any) -> str:
    try:
        return gojson.dump(value)
    except gojson.Unfit as unfit:
        raise ValueError(f"This cannot be stored as JSON: {unfit}") from None
