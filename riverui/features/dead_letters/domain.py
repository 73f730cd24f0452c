"""Dead letters: discarded jobs past their retention, and deleted jobs, kept in a table of their
own.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from riverui.domain.jobs import JobListRow, JobRow, JobShowRow

DELETED_BY = "riverui:deleted_by"
"""The metadata key that names who deleted a kept job."""
MAX_DELETED_BY = 200
"""Longest name under that key, in characters."""


class DeadReason(StrEnum):
    """Why a job is a dead letter."""

    DISCARDED = "discarded"
    """The job was discarded and its retention is over."""
    DELETED = "deleted"
    """A user deleted the job."""


class DeadJob(NamedTuple):
    """One complete dead letter."""

    job: JobRow
    """The job as it was when it was moved."""
    died_at: datetime
    """When it was moved."""
    reason: DeadReason

    @property
    def id(self) -> int:
        """The job's id, which does not change."""
        return self.job.id


class DeadJobListRow(NamedTuple):
    """A dead letter as shown in lists."""

    job: JobListRow
    """Without tags; long args are left out."""
    died_at: datetime
    reason: DeadReason
    deleted_by: str = ""
    """Who deleted it; empty if it was not deleted or the user is unknown."""


class DeadJobDeath(NamedTuple):
    """When and why a job became a dead letter."""

    died_at: datetime
    reason: DeadReason
    deleted_by: str = ""


class DeadJobShowRow(NamedTuple):
    """A dead letter for its own page; long texts are cut."""

    job: JobShowRow
    died_at: datetime
    reason: DeadReason
    deleted_by: str = ""
