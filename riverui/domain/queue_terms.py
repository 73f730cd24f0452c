"""By which rules a client works a queue, as it tells with its signs of life."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from riverui.domain.partitions import Partition
from riverui.domain.stored_json import ODD_VALUE
from riverui.errors import ConfigError
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit

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
                "partition": _partition(rate.partition),
                "weight": _weight(rate),
            }
        if (share := self.fair_share) is not None:
            known = len(share.weights) <= _MOST_WEIGHTS
            told["fair_share"] = {
                "partition": _partition(share.partition),
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


def _partition(partition: Partition) -> dict[str, Any]:
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
