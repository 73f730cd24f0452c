"""What people and programs do to jobs that are there: one method a verb, and what each answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
