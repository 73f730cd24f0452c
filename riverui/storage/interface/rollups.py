"""Figures over time, kept in a table of riverui's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.figures import Tally
from riverui.domain.rollups import Pair, Rollup, RollupRow, Stretch
from riverui.storage.interface.capabilities import Capability

CLIENT_LATE = timedelta(seconds=100)
"""From the end of a minute, for which clients may still tell of it: less than the two minutes after
which it is read for good, and so nobody counts with half of what a client knows.
"""
CLIENT_FOLDED = timedelta(minutes=4)
"""Age of a minute from its beginning, after which several clients' rows of it become one: well
after the last statement can have told of it.
"""
CLIENT_KEPT = timedelta(hours=2)
"""For how long what clients told is kept: dashboards read the last hour, and store it."""


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

    async def rollup_client_put(self, source: str, rows: Sequence[RollupRow]) -> None:
        """Store what one client tells of queues and kinds in minutes, in place of what it has told
        of them. What it tells of minutes that were over for `CLIENT_LATE` already is dropped.
        """
        ...

    async def rollup_client_list(
        self, since: datetime, until: datetime
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return what clients told of the minutes from `since` up to `until`, by queue and kind,
        all clients together; of the newest minutes only, where they told very much.
        """
        ...

    async def rollup_client_count_list(
        self, since: datetime
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return the same since then, without times: a clients' minute may still grow."""
        ...

    async def rollup_client_fold(self, *, limit: int) -> int:
        """Tell what several clients told of a minute as one, in at most so many minutes of which
        nothing can be told any more; return how many there were.
        """
        ...

    async def rollup_client_delete_old(self, *, limit: int) -> int:
        """Delete at most so many rows that clients told before `CLIENT_KEPT`; return how many."""
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
