"""Rate limits in `riverui_rate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from riverui.features.rate_limits.buckets import PACE_SECONDS, SPARE, Rate, RateRow, pace_now
from riverui.storage.postgres import array_literals
from riverui.storage.sql import Fragment
from riverui.storage.store import Store


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


_COLUMNS = Fragment("rate_columns")
_LOOKED_AT = 10_000
"""Buckets of a queue that are looked at for the emptiest: 20 ms."""
_QUIET = 60.0
"""Seconds for which a bucket has been full, and untouched, before it is forgotten: its pace is told
by then as nothing.
"""


class RateStore(Store):
    """Operations on riverui_rate."""

    async def rate_take(self, params: BucketParams, takes: Sequence[Take]) -> Mapping[str, Taken]:
        """Take tokens out of buckets, one take a key, and return what each gave: all that were
        wanted, or the most whole units that there are.

        A single unit that is larger than a full bucket is given where the bucket is full; what
        lacks has to come in before the next one. Buckets that were not there are made, full.
        """
        wanted = {take.key: take for take in takes if take.tokens > 0}
        if not wanted:
            return {}
        given = await self._take(params, list(wanted.values()))
        missing = sorted(wanted.keys() - given.keys())
        if missing:
            values = {"queue": params.queue, "keys": array_literals.texts(missing)}
            await self._sql.prepared("rate_open", values | _settings(params))
            given |= await self._take(params, [wanted[key] for key in missing])
        return given

    async def rate_give_back(self, params: BucketParams, tokens: Mapping[str, float]) -> None:
        """Put tokens that were not used back into their buckets, as far as these are not full."""
        await self._sql.prepared("rate_give_back", _of(params, tokens))

    async def _take(self, params: BucketParams, takes: Sequence[Take]) -> dict[str, Taken]:
        values = _of(params, {take.key: take.tokens for take in takes}) | {
            "units": _floats(take.unit for take in takes),
            **_settings(params),
        }
        rows = await self._sql.prepared("rate_take", values)
        return {row.key: Taken(row.given, row.full_in) for row in rows.records()}

    async def rate_list(self, queue: str, *, limit: int) -> Sequence[RateRow]:
        """Return the buckets of a queue, the emptiest first."""
        values = {"queue": queue, "limit": limit, "looked_at": _LOOKED_AT}
        rows = await self._sql.rows("rate_list", values, columns=_COLUMNS)
        return [_bucket(row) for row in rows.records()]

    async def rate_get(self, queue: str, key: str) -> RateRow | None:
        """Return one bucket; None where it has no row, and so is full."""
        row = await self._sql.row("rate_get", {"queue": queue, "key": key}, columns=_COLUMNS)
        return None if row is None else _bucket(row)

    async def rate_delete_full(
        self, *, after: tuple[str, str] | None, limit: int
    ) -> tuple[int, tuple[str, str] | None]:
        """Look at up to `limit` buckets by queue and key and forget those that are full and of
        which nobody took tokens lately; return how many, and behind which to go on, None at the
        end.
        """
        queue, key = after or ("", "")
        values = {"after_queue": queue, "after_key": key, "limit": limit, "quiet": _QUIET}
        row = await self._sql.row("rate_delete_full", values)
        return row.gone, (row.queue, row.key) if row.seen == limit else None


def _of(params: BucketParams, tokens: Mapping[str, float]) -> dict[str, Any]:
    rate = params.rate
    return {
        "queue": params.queue,
        "keys": array_literals.texts(list(tokens)),
        "tokens": _floats(tokens.values()),
        "per_second": rate.per_second,
        "spare": SPARE,
        "pace_seconds": PACE_SECONDS,
    }


def _bucket(row: Any) -> RateRow:
    return RateRow(
        queue=row.queue,
        key=row.key,
        limit=row.limited_to,
        per=row.per,
        burst=row.burst,
        full_in=row.full_in,
        pace=pace_now(row.pace, row.spent_seconds_ago),
    )


def _settings(params: BucketParams) -> dict[str, Any]:
    return {"limit": params.limit, "per": params.per, "burst": params.burst}


def _floats(values: Iterable[float]) -> str:
    return "{" + ",".join([repr(float(value)) for value in values]) + "}"
