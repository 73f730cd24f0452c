"""Marks in `riverui_mark`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.marks import Mark
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkInsertParams:
    """The values of a new mark."""

    label: str
    at: datetime | None = None
    """None for the current time, by the database's clock."""
    release: str = ""
    url: str = ""
    user: str = ""


_COLUMNS = Fragment("mark_columns")


class MarkStore(Store):
    """Operations on marks."""

    async def mark_insert(
        self, params: MarkInsertParams, *, within: timedelta
    ) -> tuple[Mark, bool]:
        """Insert a mark, rounded down to its minute, and return it with True; if one with the same
        label exists, its minute at most `within` before or after, return that one with False.

        Call it in a transaction: concurrent calls wait for its end, so that only one mark is made.
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
        """Insert the mark of a release; return None if a mark names it already, as its release or
        as its label. Call it in a transaction, as `mark_insert`.
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
        """Delete marks of before `before`, at most `limit`; return how many."""
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
