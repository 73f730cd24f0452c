"""Queues and the leader as River stores them, the rules that clients report, and forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, convert

from riverui.domain.jobs import JsonText
from riverui.domain.json import ODD_VALUE, read_object

ALL_QUEUES = "*"
"""The name by which River's clients pause and resume every queue."""

PAUSE_KEY = "riverui:pause"
"""The key in a queue's metadata of its last `QueuePause`."""
MAX_NOTE = 200
"""Longest note of a pause, in characters: it stands in one line of the list of queues."""


class Reason(Struct, frozen=True, kw_only=True):
    """Who pauses or resumes a queue, and why it is paused; both may be empty."""

    by: str = ""
    note: str = ""


NO_REASON = Reason()


class QueuePause(Reason, frozen=True, kw_only=True):
    """The last pause of a queue that has a reason, as the queue's metadata keeps it."""

    at: datetime
    resumed_at: datetime | None = None
    resumed_by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueRow:
    """A queue: its `river_queue` row, or only a name if it has jobs but was never served."""

    name: str
    created_at: datetime | None
    """None if no `river_queue` row exists."""
    metadata: JsonText
    paused_at: datetime | None
    updated_at: datetime | None
    """Updated by a serving client about every 10 minutes, and by pause and resume."""

    @property
    def served(self) -> bool:
        """Whether a client has registered this queue, and its row has not been deleted since."""
        return self.created_at is not None

    @property
    def pausable(self) -> bool:
        """Whether it can be paused alone: clients have registered it, and its name is not `*`."""
        return self.served and self.name != ALL_QUEUES

    @property
    def last_pause(self) -> QueuePause | None:
        """Its last pause that has a reason, also after it was resumed; None if it has none."""
        found = read_object(self.metadata.text) if PAUSE_KEY in self.metadata.text else {}
        try:
            return convert(found.get(PAUSE_KEY), QueuePause)
        except ValidationError:
            return None

    @property
    def reason(self) -> Reason:
        """Who paused it, and why; both are empty if it is not paused or that is unknown."""
        last = self.last_pause if self.paused_at else None
        return last if last is not None and last.at == self.paused_at else Reason()


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueListRow:
    """A queue with counts of its jobs, which are exact up to the cap of the query."""

    queue: QueueRow
    available: int
    running: int
    scheduled: int
    retryable: int
    oldest_waiting_at: datetime | None
    """`scheduled_at` of the oldest available job; None if there is none."""


class ProducerRow(NamedTuple):
    """How one client fetches from one queue, as River Pro's `river_producer` has it."""

    id: int
    client_id: str
    created_at: datetime
    max_workers: int
    metadata: str
    """A JSON object: limits, and what runs by partition."""
    paused_at: datetime | None
    queue_name: str
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueCountRow:
    """A queue's row with the counts of River UI's API."""

    queue: QueueRow
    available: int
    running: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderRow:
    """The `river_leader` row: which client is the leader, since when, and when its term ends."""

    leader_id: str
    elected_at: datetime
    expires_at: datetime


_MAX_BATCHES = 20
"""Kinds worked in batches that are reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchTerms:
    """How jobs of a kind are collected into batches."""

    max_count: int
    max_delay: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueTerms:
    """The rules of one queue that cannot be seen from its jobs. Those of features are JSON objects,
    which the features write and read.
    """

    rate_limit: Mapping[str, Any] | None = None
    """See `RateLimit.as_terms`."""
    fair_share: Mapping[str, Any] | None = None
    """See `FairShare.as_terms`."""
    ephemeral: bool = False
    """Whether jobs are removed when they have succeeded."""
    batches: Mapping[str, BatchTerms] = field(default_factory=dict)
    """Batch rules by kind."""

    @property
    def any(self) -> bool:
        """Return whether there is anything to report."""
        return bool(self.rate_limit or self.fair_share or self.ephemeral or self.batches)

    def as_object(self) -> dict[str, Any]:
        """Return what is reported, for JSON."""
        found: dict[str, Any] = {}
        if self.rate_limit is not None:
            found["rate_limit"] = self.rate_limit
        if self.fair_share is not None:
            found["fair_share"] = self.fair_share
        if self.ephemeral:
            found["ephemeral"] = True
        if self.batches:
            found["batches"] = {
                kind: [batch.max_count, batch.max_delay.total_seconds()]
                for kind, batch in list(self.batches.items())[:_MAX_BATCHES]
            }
        return found

    @classmethod
    def read(cls, value: object) -> QueueTerms:
        """Return the rules in an object from JSON; invalid ones are left out."""
        found: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        rate, share = found.get("rate_limit"), found.get("fair_share")
        return cls(
            rate_limit=rate if isinstance(rate, Mapping) else None,
            fair_share=share if isinstance(share, Mapping) else None,
            ephemeral=found.get("ephemeral") is True,
            batches=_read_batches(found.get("batches")),
        )


def _read_batches(value: object) -> Mapping[str, BatchTerms]:
    found: dict[str, BatchTerms] = {}
    for kind, batch in list(value.items())[:_MAX_BATCHES] if isinstance(value, Mapping) else ():
        with suppress(*ODD_VALUE):
            count, seconds = batch
            found[kind] = BatchTerms(max_count=int(count), max_delay=timedelta(seconds=seconds))
    return found


FORECAST_MINUTES = 15
"""Minutes on which a forecast is based: long enough to be steady, short enough to be current."""

_FEWEST_ENDS = 20
"""Minimum ended jobs for a forecast: fewer vary too much by chance."""

_STEADY = 2.0
"""Maximum ratio of the paces in the two halves of the time."""

_FURTHEST = timedelta(days=2)
"""Maximum forecast: nights and weekends differ from the last quarter of an hour."""


class QueueMinute(Struct, frozen=True, kw_only=True):
    """What a queue did in one minute."""

    ended: int
    inserted: int
    sampled: int = 1
    """One in so many ended jobs was read, and counts are multiplied by it."""
    wait: timedelta | None = None
    """The 95th percentile of the waits of ended jobs; None if unknown."""
    waiting: int | None = None
    """Maximum number of available jobs within the minute; None if unknown."""
    waiting_capped: bool = False
    """Whether `waiting` is a lower bound."""


def time_to_empty(minutes: Sequence[QueueMinute | None], waiting: int) -> timedelta | None:
    """Return the time until a queue is empty at the pace of the last 15 minutes.

    `minutes` are complete minutes, the oldest first, None if unknown; `waiting` is the current
    number of waiting jobs. Return None if it is 0, if a minute is unknown, if the queue does not
    become shorter, or if its pace is not steady or contradicts its depths.
    """
    known = [minute for minute in minutes[-FORECAST_MINUTES:] if minute is not None]
    if not waiting or len(known) < FORECAST_MINUTES:
        return None
    if sum(minute.ended / minute.sampled for minute in known) < _FEWEST_ENDS:
        return None
    middle = len(known) // 2
    slow, fast = sorted((_pace(known[:middle]), _pace(known[middle:])))
    if slow <= 0 or fast > _STEADY * slow or _grew(known):
        return None
    needed = timedelta(minutes=waiting / _pace(known))
    return needed if needed <= _FURTHEST else None


def _pace(minutes: Sequence[QueueMinute]) -> float:
    """Return how many more jobs ended than were inserted, on average per minute."""
    return sum(minute.ended - minute.inserted for minute in minutes) / len(minutes)


def _grew(minutes: Sequence[QueueMinute]) -> bool:
    """Return whether the queue became longer. Numbers of inserted jobs do not show it: retried and
    scheduled jobs were inserted long ago.
    """
    depths = [minute.waiting for minute in minutes if minute.waiting is not None]
    return len(depths) > 1 and depths[-1] > depths[0]
