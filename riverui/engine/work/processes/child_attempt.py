"""An attempt as the child that works it knows it: what changes is told to the client at once, so
that a child that is killed has lost none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.processes.messages import Completed, Progressed, Report, Updated
from riverui.engine.work.progress import Progress

Tell = Callable[[Report], None]
"""Sends a report; ValueError for one that is too large."""


class ChildAttempt(Attempt):
    """One job at work in a child process."""

    __slots__ = ("_tell",)

    def __init__(self, row: JobRow, tell: Tell) -> None:
        super().__init__(row, None, _NO_SLOTS)
        self._tell = tell

    def update(self, key: str, text: str) -> None:
        """Set a key of the job's metadata, here and in the client."""
        self._tell(Updated(self.row.id, key, text))
        super().update(key, text)

    def complete_at(self, now: datetime) -> None:
        """Take note of the job's completion, here and in the client."""
        self._tell(Completed(self.row.id, now))
        super().complete_at(now)

    def new_progress(self) -> Progress:
        """Return where the job is, before its first step of this attempt."""
        progress = _ChildProgress(self.row, self._tell)
        progress.tell()
        return progress


class _ChildProgress(Progress):
    """Where a resumable job is; the client knows of each step."""

    def __init__(self, row: JobRow, tell: Tell) -> None:
        super().__init__(row.metadata)
        self._job_id = row.id
        self._tell = tell

    @contextmanager
    def within(self, name: str, *, cursor: bool = False) -> Iterator[None]:
        """Surround the time in which a step runs, and tell how far the job is then."""
        with super().within(name, cursor=cursor):
            yield
        self.tell()

    def set_cursor(self, cursor: Any) -> None:
        """Remember how far this step has come."""
        super().set_cursor(cursor)
        self.tell()

    def tell(self) -> None:
        """Tell what would be left for the next attempt if this one failed now."""
        updates: dict[str, str] = {}
        self.keep(updates.__setitem__)
        self._tell(Progressed(self._job_id, updates))


class _NoSlots:
    """A child has one slot, and whoever gave it the job takes care of it."""

    def release(self, attempt: Attempt) -> None:
        """Do nothing."""

    def stuck(self, attempt: Attempt) -> None:
        """Do nothing."""


_NO_SLOTS = _NoSlots()
