"""Durable periodic jobs: their next run is stored, so it survives a change of the leader."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

MAX_SCHEDULE = 200
"""Longest schedule expression, in characters; useful ones need about a hundred."""
MAX_USER = 200
"""Longest name of the user who changed something, in characters."""


class DurablePeriodicRow(NamedTuple):
    """The stored row of one periodic job."""

    id: str
    created_at: datetime
    updated_at: datetime
    """When a leader last confirmed the job."""
    next_run_at: datetime | None
    """None if the leader has yet to compute it: at first, and after a change."""
    paused_at: datetime | None
    run_requested_at: datetime | None
    """When a user asked for an extra run; None once it is inserted."""
    changed_at: datetime | None
    """When a user last changed something; None for never."""
    changed_by: str
    program_schedule: str
    """The program's own schedule, as a cron expression."""
    schedule: str
    """The schedule that a user set instead; empty if there is none."""


class PeriodicChange(StrEnum):
    """What a user can change about a durable periodic job."""

    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    SCHEDULE = "schedule"
