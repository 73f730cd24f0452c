"""The progress of a resumable job, as stored in its metadata; `resumable` has the functions for
programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from riverui.domain.json import read_object
from riverui.engine.work.metadata_json import json_text
from riverui.errors import ResumableError

STEP = "river:resumable_step"
"""River's metadata key for the step completed last."""
CURSOR = "river:resumable_cursor"
"""River's metadata key for the cursors of steps, by name."""
MARK = "river:resumable_"
"""Part of the metadata of every job that has made progress."""


class Progress:
    """The progress of a resumable job in this attempt."""

    def __init__(self, metadata: str) -> None:
        found = read_object(metadata) if MARK in metadata else {}
        step, cursors = found.get(STEP), found.get(CURSOR)
        self.resume_step = step if isinstance(step, str) else ""
        """The step after which to resume."""
        self.cursors: dict[str, Any] = cursors if isinstance(cursors, dict) else {}
        self.readable = isinstance(cursors, dict | None)
        """Whether the saved cursors are an object, or missing."""
        self.cursors_changed = False
        self.completed = ""
        """The step completed last, for the next attempt."""
        self.error: BaseException | None = None
        self.resumed = not self.resume_step
        # With a cursor but no completed step nothing is skipped, but the cursor's step must exist.
        self.pending = [] if self.resume_step else sorted(self.cursors)
        self.step = ""
        """The running step."""
        self._names: set[str] = set()

    def reach(self, name: str) -> bool:
        """Return whether to run a step without a cursor now."""
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
        """Return whether to run a step with a cursor now: also the step completed last, if it left
        a cursor.
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
        """Run a step in the block; if it has a `cursor`, its end removes that."""
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
        """Raise ResumableError outside a step."""
        if not self.step:
            raise ResumableError("This works only inside a resumable step.")

    def set_cursor(self, cursor: Any) -> None:
        """Set the cursor of the running step."""
        self.cursors[self.step] = cursor
        self.cursors_changed = True

    def unfinished(self) -> BaseException | None:
        """Return the error of a job that returned although steps failed or are missing."""
        if self.error is not None:
            return self.error
        if not self.resumed:
            return ResumableError(f"The job has no step {self.resume_step!r} to resume after.")
        if self.pending:
            return ResumableError(f"The job has no step {self.pending[0]!r} to resume in.")
        return None

    def keep(self, update: Callable[[str, str], None]) -> None:
        """Keep the progress for the next attempt, by setting keys of the job's metadata."""
        # Before the step with the cursor was found, a completed step would make it unreachable.
        if self.pending:
            return
        if self.cursors_changed:
            update(CURSOR, json_text(self.cursors or None))
        if self.completed:
            update(STEP, json_text(self.completed))

    def _register(self, name: str) -> bool:
        if self.step:
            self._fail(
                f"The step {name!r} is inside the step {self.step!r}: steps cannot be nested."
            )
        if self.error is not None:
            return False
        if name in self._names:
            self._fail(f"The job has a duplicate resumable step: {name!r}.")
        self._names.add(name)
        return True

    def _skip(self, name: str) -> None:
        if name == self.resume_step:
            self.completed = name
            self.resumed = True

    def _fail(self, message: str) -> None:
        self.error = ResumableError(message)
        raise self.error
