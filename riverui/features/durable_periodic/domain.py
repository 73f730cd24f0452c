"""Durable periodic jobs: those whose next run outlives their leader."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

MOST_SCHEDULE = 200
"""Characters of a schedule's expression: the longest that makes sense has some hundred."""
MOST_USER = 200
"""Characters of the name of who changed something."""


class DurablePeriodicRow(NamedTuple):
    """What is kept of one periodic job."""

    id: str
    created_at: datetime
    updated_at: datetime
    """When a leader last knew the job."""
    next_run_at: datetime | None
    """None where the leader has to work it out: at first, and after a change."""
    paused_at: datetime | None
    run_requested_at: datetime | None
    """When somebody asked for a run besides; None once it is inserted."""
    changed_at: datetime | None
    """When somebody last changed something; None where nobody did."""
    changed_by: str
    program_schedule: str
    """The program's own schedule, as a cron expression."""
    schedule: str
    """What somebody has put in its place; empty where nobody did."""


class PeriodicChange(StrEnum):
    """What a person changes about a durable periodic job."""

    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    SCHEDULE = "schedule"
