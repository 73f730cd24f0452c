"""Marks in `riverui_mark`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.marks import Mark
from riverui.storage.postgres.statements import instant
from riverui.storage.sql import Fragment
from riverui.storage.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkInsertParams:
    """A mark to keep."""

    label: str
    at: datetime | None = None
    """None for now, by the database's clock."""
    release: str = ""
    url: str = ""
    user: str = ""


_COLUMNS = Fragment("mark_columns")


class MarkStore(Store):
    """Operations on marks."""

    async def mark_insert(
        self, params: MarkInsertParams, *, within: timedelta
    ) -> tuple[Mark, bool]:
        """Keep a mark, rounded down to its minute, and return it with True; with False the one of
        the same label that is there already, its minute at most `within` before or after.

        In a transaction: whoever else makes a mark waits for its end, so that many at once make
        one.
        """
        await self._sql.rows("mark_turn", {"schema": self._sql.schema})
        values = {
            "label": params.label,
            "at": instant(params.at),
            "within": within.total_seconds(),
        }
        if near := await self._sql.row("mark_near", values, columns=_COLUMNS):
            return _mark(near), False
        return await self._mark_insert(params), True

    async def mark_insert_release(self, params: MarkInsertParams) -> Mark | None:
        """Keep the mark of a release unless there is one that names it, as its release or as its
        label; None where there is. In a transaction, as `mark_insert`.
        """
        await self._sql.rows("mark_turn", {"schema": self._sql.schema})
        if await self._sql.row("mark_of_release", {"release": params.release}, columns=_COLUMNS):
            return None
        return await self._mark_insert(params)

    async def mark_list(self, *, since: datetime, until: datetime, limit: int) -> Sequence[Mark]:
        """Return the marks from `since` on and before `until`, newest first."""
        values = {"since": instant(since), "until": instant(until), "limit": limit}
        rows = await self._sql.rows("mark_list", values, columns=_COLUMNS)
        return [_mark(row) for row in rows.records()]

    async def mark_delete_before(self, before: datetime, *, limit: int) -> int:
        """Forget marks of before then, at most `limit`; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self._sql.rows("mark_delete_before", values))

    async def _mark_insert(self, params: MarkInsertParams) -> Mark:
        values = {
            "at": instant(params.at),
            "label": params.label,
            "release": params.release,
            "url": params.url,
            "username": params.user,
        }
        return _mark(await self._sql.row("mark_insert", values, columns=_COLUMNS))


def _mark(row: Any) -> Mark:
    return Mark(**row._asdict())
