"""Marks, moments that charts show, kept in a table of riverui's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.marks import Mark
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

MARK_TABLE = OwnTable("riverui_mark", 3)
"""Where they are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkInsertParams:
    """A mark to keep."""

    label: str
    at: datetime | None = None
    """None for now, by the database's clock."""
    release: str = ""
    url: str = ""
    user: str = ""


class MarkExecutor(Protocol):
    """Reads and writes marks. Without their table every call raises SchemaMissing."""

    async def mark_insert(
        self, params: MarkInsertParams, *, within: timedelta
    ) -> tuple[Mark, bool]:
        """Keep a mark, rounded down to its minute, and return it with True; with False the one of
        the same label that is there already, its minute at most `within` before or after.

        In a transaction: whoever else makes a mark waits for its end, so that many at once make
        one.
        """
        ...

    async def mark_insert_release(self, params: MarkInsertParams) -> Mark | None:
        """Keep the mark of a release unless there is one that names it, as its release or as its
        label; None where there is. In a transaction, as `mark_insert`.
        """
        ...

    async def mark_list(self, *, since: datetime, until: datetime, limit: int) -> Sequence[Mark]:
        """Return the marks from `since` on and before `until`, newest first."""
        ...

    async def mark_delete_before(self, before: datetime, *, limit: int) -> int:
        """Forget marks of before then, at most `limit`; return how many."""
        ...


MARKS: Capability[MarkExecutor] = Capability(
    "marks", "There are no marks, such as deploys, in charts."
)
