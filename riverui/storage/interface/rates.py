"""Rate limits: buckets of tokens in a table of riverui's own, shared by all clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, Protocol

from riverui.domain.rates import Rate, RateRow
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

RATE_TABLE = OwnTable("riverui_rate", 12)
"""Where they are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketParams:
    """How the buckets of one queue fill, and how much they hold."""

    queue: str
    limit: float
    """Tokens that come in each span of `per`."""
    per: timedelta
    burst: float

    @property
    def rate(self) -> Rate:
        """Return the same by the second."""
        return Rate(self.limit / self.per.total_seconds(), self.burst)


class Take(NamedTuple):
    """Tokens that somebody wants out of one bucket."""

    key: str
    tokens: float
    unit: float
    """Only whole multiples of so many are of use; as many as `tokens`, where only all are."""


class Taken(NamedTuple):
    """What one bucket gave."""

    tokens: float
    full_in: float
    """Seconds until the bucket is full, afterwards; negative where it has been full for so long."""


class RateExecutor(Protocol):
    """Reads and empties buckets. Without their table every call raises SchemaMissing."""

    async def rate_take(self, params: BucketParams, takes: Sequence[Take]) -> Mapping[str, Taken]:
        """Take tokens out of buckets, one take a key, and return what each gave: all that were
        wanted, or the most whole units that there are.

        A single unit that is larger than a full bucket is given where the bucket is full; what
        lacks has to come in before the next one. Buckets that were not there are made, full.
        """
        ...

    async def rate_give_back(self, params: BucketParams, tokens: Mapping[str, float]) -> None:
        """Put tokens that were not used back into their buckets, as far as these are not full."""
        ...

    async def rate_list(self, queue: str, *, limit: int) -> Sequence[RateRow]:
        """Return the buckets of a queue, the emptiest first."""
        ...

    async def rate_get(self, queue: str, key: str) -> RateRow | None:
        """Return one bucket; None where it has no row, and so is full."""
        ...

    async def rate_delete_full(
        self, *, after: tuple[str, str] | None, limit: int
    ) -> tuple[int, tuple[str, str] | None]:
        """Look at up to `limit` buckets by queue and key and forget those that are full and of
        which nobody took tokens lately; return how many, and behind which to go on, None at the
        end.
        """
        ...


RATES: Capability[RateExecutor] = Capability("rates", "There are no rate limits of queues.")
