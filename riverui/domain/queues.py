"""Queues and the leader as River keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from riverui.domain.jobs import JsonText

ALL_QUEUES = "*"
"""What River's clients take for every queue where they are told to pause or resume one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueRow:
    """A queue: its `river_queue` row, or only its name when jobs wait in one that no client has
    served.
    """

    name: str
    created_at: datetime | None
    """None where no `river_queue` row exists."""
    metadata: JsonText
    paused_at: datetime | None
    updated_at: datetime | None
    """Touched by a serving client about every 10 minutes, and by pause and resume."""

    @property
    def served(self) -> bool:
        """Whether any client has ever registered this queue (and its row has not been cleaned
        since).
        """
        return self.created_at is not None

    @property
    def pausable(self) -> bool:
        """Whether it can be paused alone: clients have registered it, and take its name for no
        other.
        """
        return self.served and self.name != ALL_QUEUES


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueListRow:
    """A queue with its waiting work; counts are exact up to the cap they were asked with."""

    queue: QueueRow
    available: int
    running: int
    scheduled: int
    retryable: int
    oldest_waiting_at: datetime | None
    """`scheduled_at` of the oldest available job; None when nothing waits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueCountRow:
    """A queue's row with the counts that River UI's API gives."""

    queue: QueueRow
    available: int
    running: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderRow:
    """The `river_leader` row: who does the maintenance, since when and until when unless it is
    renewed.
    """

    leader_id: str
    elected_at: datetime
    expires_at: datetime
