"""Actions of people and programs on existing jobs: one method per verb, and their results."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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
    """In a sequence of River Pro, which riverui cannot notify."""
    KEPT = "kept"
    """A dead letter with its id exists already."""
    WORKFLOW = "workflow"
    """A waiting task whose workflow has continued without it."""


class JobChanges(Struct, frozen=True, kw_only=True):
    """What an action on several jobs did. Every requested id is in exactly one of the three."""

    changed: tuple[int, ...] = ()
    requested: tuple[int, ...] = ()
    """Running jobs asked to stop by cancel: they end when their worker answers."""
    skipped: tuple[tuple[int, SkipReason], ...] = ()
