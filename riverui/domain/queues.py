"""Queues and the leader as River stores them, the rules that clients report, and forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.jobs import JsonText
from riverui.domain.json import ODD_VALUE
from riverui.domain.partitions import Partition
from riverui.errors import ConfigError
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit

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


_MOST_BATCHES = 20
"""Kinds that are worked in batches of which is told."""

_MOST_WEIGHTS = 20
"""Weights that are told: where there are more, only that there are."""

_ODD = (ConfigError, *ODD_VALUE)
"""What comes of reading what somebody else has written there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchTerms:
    """How the jobs of a kind are gathered to be worked together."""

    max_count: int
    max_delay: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueTerms:
    """The rules of one queue that cannot be seen from its jobs."""

    rate_limit: RateLimit | None = None
    weighs: bool = True
    """Whether the weights of the rate limit are known here: a function is not."""
    fair_share: FairShare | None = None
    shares: bool = True
    """Whether the weights of the fair share are known here: very many are not."""
    ephemeral: bool = False
    """Whether jobs are removed when they have gone well."""
    batches: Mapping[str, BatchTerms] = field(default_factory=dict)
    """Kind → how its jobs are gathered."""

    @property
    def any(self) -> bool:
        """Return whether there is anything to tell."""
        return bool(self.rate_limit or self.fair_share or self.ephemeral or self.batches)

    def as_object(self) -> dict[str, Any]:
        """Return what is told of it, for JSON."""
        told: dict[str, Any] = {}
        if (rate := self.rate_limit) is not None:
            told["rate_limit"] = {
                "limit": rate.limit,
                "per_seconds": rate.per.total_seconds(),
                "burst": rate.burst,
                "partition": _partition_object(rate.partition),
                "weight": _weight(rate),
            }
        if (share := self.fair_share) is not None:
            known = len(share.weights) <= _MOST_WEIGHTS
            told["fair_share"] = {
                "partition": _partition_object(share.partition),
                "weights": dict(share.weights) if known else None,
                "default_weight": share.default_weight,
            }
        if self.ephemeral:
            told["ephemeral"] = True
        if self.batches:
            told["batches"] = {
                kind: [batch.max_count, batch.max_delay.total_seconds()]
                for kind, batch in list(self.batches.items())[:_MOST_BATCHES]
            }
        return told

    @classmethod
    def read(cls, told: object) -> QueueTerms:
        """Return what an object out of JSON tells; what cannot be read is left out."""
        found: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        rate, share = found.get("rate_limit"), found.get("fair_share")
        rate_limit = fair_share = None
        weighs = shares = True
        with suppress(*_ODD):
            if isinstance(rate, Mapping):
                weight = rate["weight"]
                weighs = weight is not None
                rate_limit = RateLimit(
                    limit=rate["limit"],
                    per=timedelta(seconds=rate["per_seconds"]),
                    burst=rate["burst"],
                    partition=_read_partition(rate["partition"]),
                    weight=1.0 if weight is None else weight,
                )
        with suppress(*_ODD):
            if isinstance(share, Mapping):
                shares = share["weights"] is not None
                fair_share = FairShare(
                    partition=_read_partition(share["partition"]),
                    weights=share["weights"] or {},
                    default_weight=share["default_weight"],
                )
        return cls(
            rate_limit=rate_limit,
            weighs=weighs,
            fair_share=fair_share,
            shares=shares,
            ephemeral=found.get("ephemeral") is True,
            batches=_read_batches(found.get("batches")),
        )


def _weight(rate: RateLimit) -> float | str | dict[str, float] | None:
    """Return the weight of jobs; None where it cannot be told."""
    weight = rate.weight
    if isinstance(weight, int | float | str):
        return weight
    if isinstance(weight, Mapping) and len(weight) <= _MOST_WEIGHTS:
        return dict(weight)
    return None


def _partition_object(partition: Partition) -> dict[str, Any]:
    by_args = partition.by_args
    return {
        "by_args": None if by_args is None else list(by_args),
        "by_kind": partition.by_kind,
    }


def _read_partition(told: Mapping[str, Any]) -> Partition:
    return Partition(by_args=told["by_args"], by_kind=told["by_kind"] is True)


def _read_batches(told: object) -> Mapping[str, BatchTerms]:
    found: dict[str, BatchTerms] = {}
    for kind, batch in list(told.items())[:_MOST_BATCHES] if isinstance(told, Mapping) else ():
        with suppress(*_ODD):
            count, seconds = batch
            found[kind] = BatchTerms(max_count=int(count), max_delay=timedelta(seconds=seconds))
    return found


LOOKED_AT = 15
"""Minutes that a forecast is made of: long enough to be steady, short enough to be of now."""

_FEWEST_ENDS = 20
"""Ends from which a pace can be told: with fewer, chance makes half of it."""

_STEADY = 2.0
"""How many times as fast a queue may empty in one half of the time as in the other."""

_FURTHEST = timedelta(days=2)
"""Beyond this nobody can tell: nights and weekends are not like the last quarter of an hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueMinute:
    """What one queue did in one minute, as far as is known."""

    ended: int
    came: int
    """Jobs that were inserted."""
    sampled: int = 1
    """One in so many ended jobs was read, and counts were multiplied by it."""
    wait: timedelta | None = None
    """95 of 100 jobs that ended had waited no longer; None where none tells."""
    waiting: int | None = None
    """Available jobs, at most within the minute; None where it was not looked at."""
    waiting_capped: bool = False
    """Whether there were at least that many."""


def time_to_empty(minutes: Sequence[QueueMinute | None], waiting: int) -> timedelta | None:
    """Return in how long no job of a queue waits any more, at the pace of the last 15 minutes.

    `minutes` are over, the oldest first, None where nothing is known; `waiting` jobs wait now.
    None where none waits, where a minute is not known, where as many come as go, and where the pace
    is not steady or is not what the depths of the queue show.
    """
    known = [minute for minute in minutes[-LOOKED_AT:] if minute is not None]
    if not waiting or len(known) < LOOKED_AT:
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
    """Return how many more jobs ended than came, on average in a minute."""
    return sum(minute.ended - minute.came for minute in minutes) / len(minutes)


def _grew(minutes: Sequence[QueueMinute]) -> bool:
    """Return whether more waits than before, whatever the numbers of jobs say: jobs that come back
    for another attempt, or whose time has come, were inserted long ago.
    """
    depths = [minute.waiting for minute in minutes if minute.waiting is not None]
    return len(depths) > 1 and depths[-1] > depths[0]
