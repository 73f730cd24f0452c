"""Dead letters: jobs that were discarded, past their retention, and kept apart since."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from riverui.domain.jobs import JobListRow, JobRow, JobShowRow

DELETED_BY = "riverui:deleted_by"
"""Where the metadata of a deleted job that is kept tell who deleted it."""
MOST_DELETED_BY = 200
"""Characters of that name."""


class DeadReason(StrEnum):
    """Why a job is a dead letter."""

    DISCARDED = "discarded"
    """It was discarded, and its retention was over."""
    DELETED = "deleted"
    """Somebody deleted it."""


class DeadJob(NamedTuple):
    """One dead letter, whole."""

    job: JobRow
    """As it was when it was moved."""
    died_at: datetime
    """When it was moved."""
    reason: DeadReason

    @property
    def id(self) -> int:
        """The job's id, which it keeps."""
        return self.job.id


class DeadJobListRow(NamedTuple):
    """A dead letter as lists show it."""

    job: JobListRow
    """Without tags; of long args nothing."""
    died_at: datetime
    reason: DeadReason
    deleted_by: str = ""
    """Who deleted it; empty where nobody did, or nobody knows."""


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
