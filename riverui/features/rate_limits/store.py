"""Rate limits in `riverui_rate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from msgspec import Struct

from riverui.features.rate_limits.buckets import PACE_SECONDS, SPARE, Rate, RateRow, pace_now
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres import array_literals
from riverui.storage.store import Store


class BucketParams(Struct, frozen=True, kw_only=True):
    """How fast the buckets of one queue fill, and how much they hold."""

    queue: str
    limit: float
    """Tokens added in each span of `per`."""
    per: timedelta
    burst: float

    @property
    def rate(self) -> Rate:
        """Return the same numbers per second."""
        return Rate(self.limit / self.per.total_seconds(), self.burst)


class Take(NamedTuple):
    """Tokens wanted from one bucket."""

    key: str
    tokens: float
    unit: float
    """Only whole multiples of this number are useful; equal to `tokens` if only all of them are."""


class Taken(NamedTuple):
    """Tokens taken from one bucket."""

    tokens: float
    full_in: float
    """Seconds until the bucket is full afterwards; a negative value says for how long it has been
    full.
    """


_COLUMNS = Fragment("rate_columns")
_LOOKED_AT = 10_000
"""Buckets of a queue that are read to find the emptiest: 20 ms."""
_QUIET = 60.0
"""Seconds for which a bucket has been full and unused before it is deleted; by then its pace is
shown as 0.
"""


class RateStore(Store):
    """Operations on riverui_rate."""

    async def rate_take(self, params: BucketParams, takes: Sequence[Take]) -> Mapping[str, Taken]:
        """Take tokens out of buckets, one take per key, and return what each gave: all that were
        wanted, or as many whole units as there are.

        A single unit that is larger than a full bucket is given when the bucket is full; the
        deficit must be refilled before the next one. Missing buckets are created full.
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
        """Put unused tokens back into their buckets, until these are full."""
        await self._sql.prepared("rate_give_back", _values(params, tokens))

    async def _take(self, params: BucketParams, takes: Sequence[Take]) -> dict[str, Taken]:
        values = _values(params, {take.key: take.tokens for take in takes}) | {
            "units": _floats(take.unit for take in takes),
            **_settings(params),
        }
        rows = await self._sql.prepared("rate_take", values)
        return {row.key: Taken(row.given, row.full_in) for row in rows.records()}

    async def rate_list(self, queue: str, *, limit: int) -> Sequence[RateRow]:
        """Return the buckets of a queue, emptiest first."""
        values = {"queue": queue, "limit": limit, "looked_at": _LOOKED_AT}
        rows = await self._sql.rows("rate_list", values, columns=_COLUMNS)
        return [_bucket(row) for row in rows.records()]

    async def rate_get(self, queue: str, key: str) -> RateRow | None:
        """Return one bucket; None if it has no row, which means that it is full."""
        row = await self._sql.row("rate_get", {"queue": queue, "key": key}, columns=_COLUMNS)
        return None if row is None else _bucket(row)

    async def rate_delete_full(
        self, *, after: tuple[str, str] | None, limit: int
    ) -> tuple[int, tuple[str, str] | None]:
        """Read up to `limit` buckets by queue and key, and delete those that are full and have not
        been used for a while. Return how many, and the position to continue after, None at the end.
        """
        queue, key = after or ("", "")
        values = {"after_queue": queue, "after_key": key, "limit": limit, "quiet": _QUIET}
        row = await self._sql.row("rate_delete_full", values)
        return row.gone, (row.queue, row.key) if row.seen == limit else None


def _values(params: BucketParams, tokens: Mapping[str, float]) -> dict[str, Any]:
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
