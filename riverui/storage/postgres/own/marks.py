"""Marks in `riverui_mark`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.marks import Mark
from riverui.storage.interface.marks import MarkInsertParams
from riverui.storage.postgres.statements import Statements, instant
from riverui.storage.sql import Fragment

_COLUMNS = Fragment("mark_columns")


class Marks(Statements):
    """Operations on marks."""

    async def mark_insert(
        self, params: MarkInsertParams, *, within: timedelta
    ) -> tuple[Mark, bool]:
        """Keep a mark and return it with True, or with False the one that was there first."""
        await self._rows("mark_turn", {"schema": self._schema})
        values = {
            "label": params.label,
            "at": instant(params.at),
            "within": within.total_seconds(),
        }
        if near := await self._row("mark_near", values, columns=_COLUMNS):
            return _mark(near), False
        return await self._mark_insert(params), True

    async def mark_insert_release(self, params: MarkInsertParams) -> Mark | None:
        """Keep the mark of a release; None where there is one that names it."""
        await self._rows("mark_turn", {"schema": self._schema})
        if await self._row("mark_of_release", {"release": params.release}, columns=_COLUMNS):
            return None
        return await self._mark_insert(params)

    async def mark_list(self, *, since: datetime, until: datetime, limit: int) -> Sequence[Mark]:
        """Return the marks from `since` on and before `until`, newest first."""
        values = {"since": instant(since), "until": instant(until), "limit": limit}
        rows = await self._rows("mark_list", values, columns=_COLUMNS)
        return [_mark(row) for row in rows.records()]

    async def mark_delete_before(self, before: datetime, *, limit: int) -> int:
        """Forget marks of before then; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self._rows("mark_delete_before", values))

    async def _mark_insert(self, params: MarkInsertParams) -> Mark:
        values = {
            "at": instant(params.at),
            "label": params.label,
            "release": params.release,
            "url": params.url,
            "username": params.user,
        }
        return _mark(await self._row("mark_insert", values, columns=_COLUMNS))


def _mark(row: Any) -> Mark:
    return Mark(**row._asdict())
