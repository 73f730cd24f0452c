"""What people and programs do to jobs that are there: one method a verb, and what each answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from riverui.domain.jobs import JobOutcome


class SkipReason(StrEnum):
    """Why an action left a job as it was."""

    NOT_FOUND = "not_found"
    RUNNING = "running"
    FINALIZED = "finalized"
    ALREADY_AVAILABLE = "already_available"
    UNCHANGED = "unchanged"
    UNIQUE_CONFLICT = "unique_conflict"
    LOCKED = "locked"
    SEQUENCE = "sequence"
    """In a sequence of River Pro, which cannot be told of it."""
    KEPT = "kept"
    """There is a dead letter of its id already."""
    WORKFLOW = "workflow"
    """A waiting task, whose workflow has gone on without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanges:
    """What an action on several jobs did. Every id asked for is in exactly one of the three."""

    changed: tuple[int, ...] = ()
    requested: tuple[int, ...] = ()
    """Running jobs asked to stop by cancel: they end when their worker answers."""
    skipped: tuple[tuple[int, SkipReason], ...] = ()


class JobActions(Protocol):
    """The verbs on jobs; each method is one statement, and names every id asked for in its
    answer.
    """

    async def job_cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """Do River's JobCancel to each id; notify the workers of every job it touched."""
        ...

    async def job_delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Do River's JobDelete to each id: everything but running jobs."""
        ...

    async def job_move_many(
        self, ids: Sequence[int], *, queue: str | None = None, priority: int | None = None
    ) -> JobChanges:
        """Give waiting jobs another queue or priority; notify the workers of the queue that
        available ones came into. Unique keys stay as they are.
        """
        ...

    async def job_retry_many(self, ids: Sequence[int], *, pending: bool = False) -> JobChanges:
        """Do River's JobRetry to each id. Raises UniqueConflict for all when one conflicts.

        With `pending` that is what they become, for something else to make them available.
        """
        ...

    async def job_outcome_list(self, ids: Sequence[int]) -> Mapping[int, JobOutcome]:
        """Return where these jobs stand, by id; those that are gone are left out."""
        ...
