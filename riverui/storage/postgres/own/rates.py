"""Rate limits in `riverui_rate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from riverui.domain.rates import PACE_SECONDS, SPARE, RateRow, pace_now
from riverui.storage.interface.rates import BucketParams, Take, Taken
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.statements import Statements
from riverui.storage.sql import Fragment

_COLUMNS = Fragment("rate_columns")
_LOOKED_AT = 10_000
"""Buckets of a queue that are looked at for the emptiest: 20 ms."""
_QUIET = 60.0
"""Seconds for which a bucket has been full, and untouched, before it is forgotten: its pace is told
by then as nothing.
"""


class Rates(Statements):
    """Operations on riverui_rate."""

    async def rate_take(self, params: BucketParams, takes: Sequence[Take]) -> Mapping[str, Taken]:
        """Take tokens out of buckets; return what each gave."""
        wanted = {take.key: take for take in takes if take.tokens > 0}
        if not wanted:
            return {}
        given = await self._take(params, list(wanted.values()))
        missing = sorted(wanted.keys() - given.keys())
        if missing:
            values = {"queue": params.queue, "keys": array_literals.texts(missing)}
            await self._prepared("rate_open", values | _settings(params))
            given |= await self._take(params, [wanted[key] for key in missing])
        return given

    async def rate_give_back(self, params: BucketParams, tokens: Mapping[str, float]) -> None:
        """Put tokens that were not used back into their buckets."""
        await self._prepared("rate_give_back", _of(params, tokens))

    async def _take(self, params: BucketParams, takes: Sequence[Take]) -> dict[str, Taken]:
        values = _of(params, {take.key: take.tokens for take in takes}) | {
            "units": _floats(take.unit for take in takes),
            **_settings(params),
        }
        rows = await self._prepared("rate_take", values)
        return {row.key: Taken(row.given, row.full_in) for row in rows.records()}

    async def rate_list(self, queue: str, *, limit: int) -> Sequence[RateRow]:
        """Return the buckets of a queue, the emptiest first."""
        values = {"queue": queue, "limit": limit, "looked_at": _LOOKED_AT}
        rows = await self._rows("rate_list", values, columns=_COLUMNS)
        return [_bucket(row) for row in rows.records()]

    async def rate_get(self, queue: str, key: str) -> RateRow | None:
        """Return one bucket; None where it has no row, and so is full."""
        row = await self._row("rate_get", {"queue": queue, "key": key}, columns=_COLUMNS)
        return None if row is None else _bucket(row)

    async def rate_delete_full(
        self, *, after: tuple[str, str] | None, limit: int
    ) -> tuple[int, tuple[str, str] | None]:
        """Forget full buckets; see RateExecutor."""
        queue, key = after or ("", "")
        values = {"after_queue": queue, "after_key": key, "limit": limit, "quiet": _QUIET}
        row = await self._row("rate_delete_full", values)
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
