"""What holds a job back that could run otherwise: limits, rates, shares and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit


class JobHolder(NamedTuple):
    """A running job that takes a slot of a limit."""

    id: int
    client: str
    """Who works it; empty where the row does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitHold:
    """How the limits of jobs at once stand for the job's partition."""

    limits: ConcurrencyConfig
    override: bool
    """Whether they were set in the database, in place of what clients are configured with."""
    key: str
    taken: int
    """Slots of the key that clients have borrowed under a global limit."""
    clients: Mapping[str, int]
    """Client → its slots, those with most."""
    here: Mapping[str, int]
    """Client that works the queue → jobs of the key that it ran some seconds ago."""
    jobs: Sequence[JobHolder]
    """The first of the jobs that run."""
    missing: str
    """Which migration lacks for global limits, as part of a sentence; empty where none does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateHold:
    """How the bucket of tokens stands of which the job takes some."""

    limit: RateLimit
    """As it counts now."""
    override: bool
    """Whether its numbers were set in the database."""
    key: str
    tokens: float
    """What is in the bucket."""
    pace: float
    """Tokens a second that were taken lately."""
    weight: float | None
    """Tokens that the job takes; None where that is not known here."""


class ShareLine(NamedTuple):
    """Whose jobs wait in a queue that is dealt in turn, as far as they were looked at."""

    key: str | None
    """The job's own; None where the job is gone."""
    before: int
    """Jobs of the same key that come before it."""
    reached: bool
    """Whether the job itself was among those looked at."""
    keys: int
    """Other keys with waiting jobs."""
    others: Mapping[str, int]
    """Those with most jobs → how many."""
    looked_at: int
    window: int

    @property
    def whole(self) -> bool:
        """Return whether all that wait were looked at, and are named."""
        return self.looked_at < self.window and len(self.others) == self.keys


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareHold:
    """Whose turn comes before the job's, in a queue that is dealt in turn."""

    share: FairShare
    known: bool
    """Whether the weights are known here."""
    line: ShareLine
    indexed: bool
    """Whether the partition has its index, so that clients see all keys."""

    @property
    def before(self) -> int:
        """Return about how many of the jobs that wait now begin before this one."""
        rounds = ceil((self.line.before + 1) / self._weight(self.line.key or ""))
        return self.line.before + sum(
            min(jobs, ceil(rounds * self._weight(key))) for key, jobs in self.line.others.items()
        )

    def _weight(self, key: str) -> float:
        """Return how many jobs a key gets in a round: at least one."""
        share = self.share
        return share.weight_of(key) / min([*share.weights.values(), share.default_weight])
