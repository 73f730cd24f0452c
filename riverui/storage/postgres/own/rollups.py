"""Figures over time in `riverui_rollup`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.domain.figures import Tally
from riverui.domain.rollups import (
    KEPT,
    MINUTE,
    PARTS,
    Pair,
    Rollup,
    RollupRow,
    Stretch,
    Waiting,
    add_pairs,
    busiest,
    from_rows,
)
from riverui.domain.sketch import Sketch
from riverui.storage.interface.rollups import CLIENT_FOLDED, CLIENT_KEPT, CLIENT_LATE
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.own import packed_bins
from riverui.storage.postgres.statements import Statements, instant
from riverui.storage.sql import Fragment

_COLUMNS = Fragment("rollup_columns")
_PAIRS = Fragment("rollup_pairs")
_SEVERAL = "*"
"""The source of what several clients told, together; those of clients have an @ in them."""
_MICROSECOND = timedelta(microseconds=1)
"""The unit of spans in the table."""
_TURN = 250
"""Rows that are unpacked in one go, some 5 milliseconds, before others have their turn."""
_MOST_CLIENT_ROWS = 20_000
"""Rows of clients that are read at once, half a second of a processor's time: three hundred clients
may have told of sixty kinds in a minute.
"""
_MOST_BIGINT = 2**63 - 1
"""Beyond which sums of odd rows are cut."""
_MOST_INTEGER = 2**31 - 1
"""The same for counts that are read with a cap."""


class Rollups(Statements):
    """Operations on stored figures."""

    async def rollup_lock(self) -> bool:
        """Become the only writer until the end of the transaction."""
        return bool((await self.rows("rollup_lock", {"schema": self.schema})).value())

    async def rollup_newest_list(self) -> Mapping[timedelta, datetime]:
        """Return when the newest bucket of each span begins, of the spans that have any."""
        values = {"steps": array_literals.numbers(map(_seconds, KEPT))}
        rows = await self.rows("rollup_newest_list", values)
        return {timedelta(seconds=row.step): row.bucket.astimezone(UTC) for row in rows.records()}

    async def rollup_told_list(
        self, span: timedelta, at: Sequence[datetime]
    ) -> Mapping[datetime, tuple[int, int]]:
        """Return the weight and the sampling of each of these buckets that is stored."""
        values = {"step": _seconds(span), "buckets": array_literals.instants(at)}
        rows = await self.rows("rollup_told_list", values)
        return {row.bucket.astimezone(UTC): (row.weight, row.sampled) for row in rows.records()}

    async def rollup_unfolded_list(
        self, span: timedelta, *, since: datetime, until: datetime
    ) -> Sequence[datetime]:
        """Return when the buckets of this span begin that are not stored though parts are."""
        values = {
            "step": _seconds(span),
            "part": _seconds(PARTS[span]),
            "since": instant(since),
            "until": instant(until),
        }
        rows = await self.rows("rollup_unfolded_list", values)
        return [at.astimezone(UTC) for at in rows.values()]

    async def rollup_list(
        self, stretches: Sequence[Stretch], *, queue: str = "", kind: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows that tell of everything, of one queue, of one kind, or of one pair."""
        if queue and kind:
            terms = Fragment("rollup_of_pair", {"queue": queue, "kind": kind})
        elif kind:
            terms = Fragment("rollup_of_kind", {"kind": kind})
        else:
            terms = Fragment("rollup_of_queue", {"queue": queue})
        return await self._rollup_rows(stretches, terms)

    async def rollup_pair_list(
        self, stretches: Sequence[Stretch], *, queue: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows that tell of kinds in queues, or in one queue."""
        named = Fragment("rollup_pairs_of_queue", {"queue": queue})
        return await self._rollup_rows(stretches, named if queue else _PAIRS)

    async def rollup_get(self, span: timedelta, at: datetime) -> Rollup | None:
        """Return one bucket; None where it is not stored."""
        found = await self.rollup_part_list(span, since=at, until=at + span)
        return found[0] if found else None

    async def rollup_part_list(
        self, span: timedelta, *, since: datetime, until: datetime
    ) -> Sequence[Rollup]:
        """Return the buckets of this span from `since` up to `until`, the oldest first."""
        return from_rows(span, await self._rollup_rows([Stretch(span, since, until)], None))

    async def rollup_put(self, rollups: Sequence[Rollup]) -> None:
        """Store buckets, in place of what is stored of the same time and span."""
        for span in {rollup.span for rollup in rollups}:
            at = [rollup.at for rollup in rollups if rollup.span == span]
            values = {"step": _seconds(span), "buckets": array_literals.instants(at)}
            await self.rows("rollup_delete", values)
        if rows := [(rollup.span, row) for rollup in rollups for row in rollup.rows()]:
            await self.rows("rollup_insert", _columns(rows))

    async def rollup_client_put(self, source: str, rows: Sequence[RollupRow]) -> None:
        """Store what one client tells of minutes, in place of what it has told of them."""
        # In the order of the table's key, so that no two statements wait for each other.
        told = [(MINUTE, row) for row in sorted(rows, key=lambda row: row[:3])]
        if told:
            late = {"late": (MINUTE + CLIENT_LATE).total_seconds()}
            put = Fragment("rollup_client_put", late)
            await self.rows("rollup_insert", _columns(told, source), put=put)

    async def rollup_client_list(
        self, since: datetime, until: datetime
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return what clients told of these minutes, all of them together."""
        values = {"since": instant(since), "until": instant(until), "limit": _MOST_CLIENT_ROWS}
        rows = await self.rows("rollup_client_list", values, columns=_COLUMNS)
        records = rows.records()
        told = await _together(records)
        if len(records) == _MOST_CLIENT_ROWS:
            # There may be more of the oldest minute.
            del told[min(told)]
        return told

    async def rollup_client_count_list(
        self, since: datetime
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return the same since then, without times."""
        rows = await self.rows("rollup_client_count_list", {"since": instant(since)})
        told: dict[datetime, dict[Pair, Tally]] = {}
        for row in rows.records():
            told.setdefault(row.bucket.astimezone(UTC), {})[row.queue, row.kind] = Tally(
                failed=row.failed, snoozed=row.snoozed, interrupted=row.interrupted
            )
        return told

    async def rollup_client_fold(self, *, limit: int) -> int:
        """Tell what several clients told of a minute as one; return how many minutes there were."""
        values = {"age": CLIENT_FOLDED.total_seconds(), "limit": limit}
        rows = await self.rows("rollup_client_take", values, columns=_COLUMNS)
        told = await _together(rows.records())
        folded = [
            (MINUTE, RollupRow(at, queue, kind, 1, tally, None))
            for at, pairs in told.items()
            for (queue, kind), tally in busiest(pairs).items()
        ]
        if folded:
            await self.rows("rollup_insert", _columns(folded, _SEVERAL))
        return len(told)

    async def rollup_client_delete_old(self, *, limit: int) -> int:
        """Delete rows that clients told long ago; return how many."""
        values = {"age": CLIENT_KEPT.total_seconds(), "limit": limit}
        return len(await self.rows("rollup_client_delete_old", values))

    async def rollup_delete_before(self, span: timedelta, before: datetime, *, limit: int) -> int:
        """Delete rows of buckets of this span that began before then; return how many."""
        values = {"step": _seconds(span), "before": instant(before), "limit": limit}
        return len(await self.rows("rollup_delete_before", values))

    async def rollup_truncate(self) -> bool:
        """Delete all stored figures at once; False where the user may not."""
        if not (await self.rows("rollup_may_truncate")).value():
            return False
        await self.rows("rollup_truncate")
        return True

    async def rollup_delete_some(self, *, limit: int) -> int:
        """Delete so many rows, whichever; return how many there were."""
        return len(await self.rows("rollup_delete_some", {"limit": limit}))

    async def _rollup_rows(
        self, stretches: Sequence[Stretch], terms: Fragment | None
    ) -> list[RollupRow]:
        if not stretches:
            return []
        values = {
            "steps": array_literals.numbers(_seconds(each.step) for each in stretches),
            "since": array_literals.instants(each.since for each in stretches),
            "until": array_literals.instants(each.until for each in stretches),
        }
        slots = {} if terms is None else {"terms": terms}
        rows = await self.rows("rollup_list", values, columns=_COLUMNS, **slots)
        found: list[RollupRow] = []
        records = rows.records()
        for start in range(0, len(records), _TURN):
            found += map(_row, records[start : start + _TURN])
            await asyncio.sleep(0)
        return found


async def _together(records: Sequence[Any]) -> dict[datetime, dict[Pair, Tally]]:
    """Return what the rows of clients tell of each minute."""
    told: dict[datetime, dict[Pair, Tally]] = {}
    for start in range(0, len(records), _TURN):
        for row in records[start : start + _TURN]:
            pairs = told.setdefault(row.bucket.astimezone(UTC), {})
            add_pairs(pairs, [((row.queue, row.kind), _tally(row))])
        await asyncio.sleep(0)
    return told


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _columns(rows: Sequence[tuple[timedelta, RollupRow]], source: str = "") -> dict[str, Any]:
    """Return the columns of rows, each as one array."""
    tallies = [row.tally for _, row in rows]
    waiting = [row.waiting for _, row in rows]
    columns = {
        "step": array_literals.numbers(_seconds(span) for span, _ in rows),
        "bucket": array_literals.instants(row.at for _, row in rows),
        "queue": array_literals.texts([row.queue for _, row in rows]),
        "kind": array_literals.texts([row.kind for _, row in rows]),
        "source": array_literals.texts([source] * len(rows)),
        "sampled": array_literals.numbers(row.sampled for _, row in rows),
        "waiting": array_literals.numbers(
            None if seen is None else min(seen.jobs, _MOST_INTEGER) for seen in waiting
        ),
        "waiting_capped": array_literals.numbers(
            0 if seen is None else int(seen.capped) for seen in waiting
        ),
        "oldest_waiting_us": array_literals.numbers(
            None if seen is None else seen.oldest // _MICROSECOND for seen in waiting
        ),
    }
    for name in (
        "completed",
        "cancelled",
        "discarded",
        "failed",
        "snoozed",
        "interrupted",
        "inserted",
    ):
        columns[name] = array_literals.numbers(getattr(tally, name) for tally in tallies)
    for name in ("run", "failed_run", "wait"):
        sketches: list[Sketch] = [getattr(tally, name) for tally in tallies]
        columns[f"{name}_bins"] = array_literals.keys(
            packed_bins.pack(sketch.counts) for sketch in sketches
        )
        for part in ("sum_us", "max_us"):
            columns[f"{name}_{part}"] = array_literals.numbers(
                min(getattr(sketch, part), _MOST_BIGINT) for sketch in sketches
            )
    return columns


def _row(row: Any) -> RollupRow:
    at = row.bucket.astimezone(UTC)
    return RollupRow(at, row.queue, row.kind, row.sampled, _tally(row), _waiting(row))


def _tally(row: Any) -> Tally:
    unpack = packed_bins.unpack
    return Tally(
        completed=row.completed,
        cancelled=row.cancelled,
        discarded=row.discarded,
        failed=row.failed,
        snoozed=row.snoozed,
        interrupted=row.interrupted,
        inserted=row.inserted,
        run=Sketch(unpack(row.run_bins), sum_us=row.run_sum_us, max_us=row.run_max_us),
        failed_run=Sketch(
            unpack(row.failed_run_bins), sum_us=row.failed_run_sum_us, max_us=row.failed_run_max_us
        ),
        wait=Sketch(unpack(row.wait_bins), sum_us=row.wait_sum_us, max_us=row.wait_max_us),
    )


def _waiting(row: Any) -> Waiting | None:
    if row.waiting is None:
        return None
    return Waiting(
        jobs=row.waiting,
        capped=row.waiting_capped,
        oldest=(row.oldest_waiting_us or 0) * _MICROSECOND,
    )
