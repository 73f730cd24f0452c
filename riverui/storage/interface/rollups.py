"""Figures over time, kept in a table of riverui's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.rollups import Rollup, RollupRow, Stretch
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

ROLLUP_TABLE = OwnTable("riverui_rollup", 2)
"""Where they are kept."""


class RollupExecutor(Protocol):
    """Reads and writes stored figures. Without their table every call raises SchemaMissing."""

    async def rollup_lock(self) -> bool:
        """Become the only writer until the end of the transaction; False where another one is
        writing.
        """
        ...

    async def rollup_newest_list(self) -> Mapping[timedelta, datetime]:
        """Return when the newest bucket of each span begins, of the spans that have any."""
        ...

    async def rollup_told_list(
        self, span: timedelta, at: Sequence[datetime]
    ) -> Mapping[datetime, tuple[int, int]]:
        """Return the weight and the sampling of each of these buckets that is stored."""
        ...

    async def rollup_unfolded_list(
        self, span: timedelta, *, since: datetime, until: datetime
    ) -> Sequence[datetime]:
        """Return when the buckets of this span begin that are not stored though parts of them are,
        of the time from `since` up to `until`.
        """
        ...

    async def rollup_list(
        self, stretches: Sequence[Stretch], *, queue: str = "", kind: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows of these stretches that tell of everything, of one queue, of one kind in
        each queue, or of one kind in one queue.
        """
        ...

    async def rollup_pair_list(
        self, stretches: Sequence[Stretch], *, queue: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows of these stretches that tell of kinds in queues, of one queue where it is
        named.
        """
        ...

    async def rollup_get(self, span: timedelta, at: datetime) -> Rollup | None:
        """Return one bucket; None where it is not stored."""
        ...

    async def rollup_part_list(
        self, span: timedelta, *, since: datetime, until: datetime
    ) -> Sequence[Rollup]:
        """Return the buckets of this span from `since` up to `until`, the oldest first."""
        ...

    async def rollup_put(self, rollups: Sequence[Rollup]) -> None:
        """Store buckets, in place of what is stored of the same time and span."""
        ...

    async def rollup_delete_before(self, span: timedelta, before: datetime, *, limit: int) -> int:
        """Delete rows of buckets of this span that began before then, the oldest first, at most
        `limit`; return how many.
        """
        ...

    async def rollup_truncate(self) -> bool:
        """Delete all stored figures at once, and free their space; False where the database's user
        may not do that.
        """
        ...

    async def rollup_delete_some(self, *, limit: int) -> int:
        """Delete so many rows, whichever; return how many there were."""
        ...


ROLLUPS: Capability[RollupExecutor] = Capability(
    "rollups",
    "Figures are not kept: charts go back as far as the rows of jobs do.",
)
