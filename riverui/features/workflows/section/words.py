"""The status of a workflow's task, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from riverui.domain.time import duration
from riverui.features.workflows.domain.pages import (
    DELETED,
    TASK_STATES,
    WORST_FIRST,
    WorkflowTaskRow,
)
from riverui.web.view.format import STATE_ICONS, beyond_calendar, number

TASK_ICONS = {**STATE_ICONS, DELETED: "trash-2"}
"""The icon of each state of a task, as the sprite names them."""


def task_words(task: WorkflowTaskRow, now: datetime) -> str:
    """Return the progress of a task, such as "3.2 s", "waits for 2 tasks", "failed, attempt 3 of
    25".
    """
    match task.state:
        case "completed":
            return _ran(task)
        case "running":
            return f"for {duration(now - task.attempted_at)}" if task.attempted_at else "running"
        case "retryable":
            return f"attempt {task.attempt} of {task.max_attempts} failed{_due(task, now)}"
        case "discarded":
            return f"failed, attempt {task.attempt} of {task.max_attempts}"
        case "available":
            at = task.scheduled_at
            return f"due for {duration(now - at)}" if at is not None and at <= now else "due"
        case "scheduled":
            return _due(task, now).removeprefix(", ") or "scheduled"
        case "pending" if task.waits_for_terms:
            return "waits for its own terms"
        case "pending" if task.waits_for:
            return f"waits for {number(task.waits_for)} task{'' if task.waits_for == 1 else 's'}"
        case _:
            return task.state


def counts_words(counts: Mapping[str, int], because: int = 0) -> str:
    """Return the progress of several tasks: "3,120 of 3,998 done, 1 failed, 4 cancelled because of
    it". So many of the cancelled ones were cancelled because another one failed.
    """
    total, done = sum(counts.values()), counts.get("completed", 0)
    failed = counts.get("discarded", 0) + counts.get(DELETED, 0)
    cancelled = max(counts.get("cancelled", 0) - because, 0)
    text = (
        f"all {number(total)} done" if done == total else f"{number(done)} of {number(total)} done"
    )
    text += f", {number(failed)} failed" if failed else ""
    text += f", {number(cancelled)} cancelled" if cancelled else ""
    of = "it" if failed + cancelled == 1 else "them"
    return text + (f", {number(because)} cancelled because of {of}" if because else "")


def counts_parts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the states with their numbers for a bar, finished ones first."""
    return [(state, counts[state]) for state in reversed(WORST_FIRST) if counts.get(state)]


def worst(counts: Mapping[str, int]) -> str:
    """Return the state that several tasks are shown in: the worst."""
    return next((state for state in WORST_FIRST if counts.get(state)), TASK_STATES[0])


def middle_cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut in the middle if it is longer: similar names
    differ at their ends.
    """
    if len(text) <= most:
        return text
    tail = (most - 1) * 2 // 5
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def _ran(task: WorkflowTaskRow) -> str:
    if task.attempted_at is None or task.ended_at is None:
        return "completed"
    return duration(task.ended_at - task.attempted_at)


def _due(task: WorkflowTaskRow, now: datetime) -> str:
    at = task.scheduled_at
    if at is None or at <= now or beyond_calendar(at):
        return ""
    return f", in {duration(at - now)}"
