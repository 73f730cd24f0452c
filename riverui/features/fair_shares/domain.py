"""Deals jobs to the keys of a partition in rounds, so that a key with many jobs does not keep the
others waiting.

The keys form a ring, in their order. The dealer goes round it and gives each key as many jobs per
round as its weight. Several dealers that each do so are fair together, so no state is stored.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite
from typing import Any, TypeVar

from riverui.domain.json import ODD_VALUE
from riverui.domain.partitions import Partition
from riverui.errors import ConfigError

MAX_WEIGHTS = 10_000
"""Most keys with a weight of their own: each process keeps them in memory."""
MAX_RATIO = 1_000
"""Most times that the largest weight may be the smallest: so many jobs of a key are dealt
at once.
"""
_MAX_REPORTED = 20
"""Most weights reported in heartbeats; of more, only that there are weights."""
_MAX_OWED = 10_000
"""Most keys that are owed jobs: those of the last few fetches."""
_NEARLY = 1e-9
"""The rounding error of a sum, as part of a job: three thirds are one."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class FairShare:
    """Deals the jobs of a queue in turn to the keys of a partition. Raises ConfigError that names
    the problem.
    """

    partition: Partition
    weights: Mapping[str, float] = field(default_factory=dict)
    """Key → jobs it gets where other keys get one. Besides whole keys, such as `{"tenant":
    "gold"}`, the value alone works if one arg or the kind is the key: `gold`.
    """
    default_weight: float = 1.0
    """The weight of all other keys."""

    def __post_init__(self) -> None:
        if not isinstance(self.partition, Partition) or self.partition.whole:
            raise ConfigError("fair_share: partition must name args or set by_kind.")
        if not isinstance(self.weights, Mapping) or len(self.weights) > MAX_WEIGHTS:
            raise ConfigError(f"fair_share: weights must be a dict of at most {MAX_WEIGHTS:,}.")
        all_weights = [*self.weights.values(), self.default_weight]
        for weight in all_weights:
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise ConfigError(f"fair_share: a weight must be a number, not {weight!r}.")
            if not isfinite(weight) or weight <= 0:
                raise ConfigError(f"fair_share: a weight must be above 0, not {weight!r}.")
        if max(all_weights) > MAX_RATIO * min(all_weights):
            raise ConfigError(
                f"fair_share: the largest weight may be at most {MAX_RATIO:,} times the smallest."
            )

    def as_terms(self) -> dict[str, Any]:
        """Return the terms for heartbeats; weights are None if there are too many."""
        return {
            "partition": self.partition.as_object(),
            "weights": dict(self.weights) if len(self.weights) <= _MAX_REPORTED else None,
            "default_weight": self.default_weight,
        }

    def weight_of(self, key: str) -> float:
        """Return the weight of a key."""
        weight = self.weights.get(key)
        if weight is None and self.weights:
            weight = self.weights.get(_value_of(key, self.partition))
        return self.default_weight if weight is None else weight


def read_terms(terms: Mapping[str, Any]) -> tuple[FairShare, bool] | None:
    """Return the fair share written by `as_terms`, and whether its weights are known; None if it
    cannot be read.
    """
    try:
        weights = terms["weights"]
        share = FairShare(
            partition=Partition.read(terms["partition"]),
            weights=weights or {},
            default_weight=terms["default_weight"],
        )
    except (ConfigError, *ODD_VALUE):
        return None
    return share, weights is not None


def _value_of(key: str, partition: Partition) -> str:
    """Return the value of a key's only arg, or any other key as it is."""
    if partition.by_kind or partition.by_args is None or len(partition.by_args) != 1:
        return key
    try:
        found = json.loads(key)
    except (ValueError, RecursionError):
        return key
    value = found.get(partition.by_args[0]) if isinstance(found, dict) else None
    return value if isinstance(value, str) else json.dumps(value)


class Ring:
    """Goes round the keys, continuing where it last stopped."""

    def __init__(self, share: FairShare, *, after: str = "") -> None:
        self.after = after
        """The key that was last dealt to."""
        self._before = ""
        """A key before that one, after which that one comes first."""
        self._lap = 0
        self._left = 0
        """Jobs that this key still gets in this round."""
        self._owed: dict[str, tuple[int, int]] = {}
        """Key → extra jobs that it is owed, and the round in which it was last updated."""
        self._share = share
        # In units of the smallest weight, so that every key gets a job in every round.
        self._unit = min([*share.weights.values(), share.default_weight])

    @property
    def start(self) -> str:
        """Return the key after which dealing continues."""
        return self._before if self._left else self.after

    def most(self, wanted: int, keys: int) -> int:
        """Return how many jobs of each key to read if `wanted` are to be dealt to so many keys."""
        share = self._share
        heaviest = max([*share.weights.values(), share.default_weight]) / self._unit
        turns = 2 if self._owed else 1
        return min(wanted, floor(turns * heaviest + 1) * -(-wanted // max(keys, 1)))

    def deal(
        self,
        waiting: Mapping[str, Sequence[T]],
        wanted: int,
        take: Callable[[T], bool],
        *,
        whole: bool = True,
    ) -> list[T]:
        """Return up to `wanted` of the jobs that wait under each key, those that `take` accepts.

        Without `whole` these are not all keys: the round ends after the last one.
        """
        keys = sorted(key for key, jobs in waiting.items() if jobs)
        at = dict.fromkeys(keys, 0)
        dealt: list[T] = []
        if not keys or wanted <= 0:
            return dealt
        place = bisect_left(keys, self.after) if self._left else bisect_right(keys, self.after)
        while keys:
            if place >= len(keys):
                if not whole:
                    break
                place = 0
                self._lap += 1
            key = keys[place]
            if key != self.after or not self._left:
                self._left = self._quota(key)
                self._before = self.after if self.after < key else ""
            self.after = key
            jobs = waiting[key]
            while self._left and at[key] < len(jobs):
                job = jobs[at[key]]
                at[key] += 1
                if take(job):
                    self._left -= 1
                    dealt.append(job)
                    if len(dealt) == wanted:
                        return dealt
            self._left = 0
            if at[key] >= len(jobs):
                del keys[place]
            else:
                place += 1
        return dealt

    def skip_to(self, key: str) -> None:
        """Continue after this key without dealing a job to it."""
        self.after = key
        self._left = 0

    def begin_again(self) -> None:
        """Start the next round if there are no keys after the last one."""
        self.after = ""
        self._left = 0
        self._lap += 1

    def owe(self, key: str) -> None:
        """In the key's next turn, make up for a job that was dealt to it and not worked by this
        client; never for more than it gets in a round.
        """
        count, lap = self._owed.pop(key, (0, self._lap))
        if lap < self._lap - 1:
            count = 0
        most = ceil(self._share.weight_of(key) / self._unit)
        self._owed[key] = (min(count + 1, most), self._lap)
        if len(self._owed) > _MAX_OWED:
            del self._owed[next(iter(self._owed))]

    def _quota(self, key: str) -> int:
        """Return how many jobs a key gets in this round; fractions are carried over."""
        weight = self._share.weight_of(key) / self._unit
        owed, lap = self._owed.pop(key, (0, self._lap))
        due = floor(weight * (self._lap + 1) + _NEARLY) - floor(weight * self._lap + _NEARLY)
        # A key without jobs saves nothing up.
        return due + (owed if lap >= self._lap - 1 else 0)
