"""Reads figures from River's rows, and from the table in which they are stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import log
from typing import Any, NamedTuple

from riverui.domain.figures import COUNTS, OTHER, Tally
from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.sketch import FIRST_BIN, GAMMA, LAST_BIN, Sketch
from riverui.domain.time import FIRST, LAST
from riverui.features.figures import packed_bins
from riverui.features.figures.domain import (
    KEPT,
    MINUTE,
    PARTS,
    Pair,
    Range,
    Rollup,
    RollupRow,
    Stretch,
    Waiting,
    add_pairs,
    begin,
    fold,
    from_rows,
)
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

CLIENT_LATE = timedelta(seconds=100)
"""From the end of a minute, how long clients may still write their figures of it: less than the two
minutes after which dashboards read it for good, so none reads half of what a client counted.
"""
CLIENT_KEPT = timedelta(hours=2)
"""How long figures of clients are kept: dashboards read the last hour."""

_COLUMNS = Fragment("rollup_columns")
_BINS = {"first": FIRST_BIN, "last": LAST_BIN, "log_gamma": log(GAMMA)}
_MICROSECOND = timedelta(microseconds=1)
"""The unit of spans in the table."""
_TURN = 250
"""Rows that are converted in one go, some 5 milliseconds, before other tasks run."""
_FOLDED = 60
"""Rollups of each span that one transaction makes at most, so that none takes long."""
_DELETED = 2_000
"""Old rows of each span that one transaction deletes at most: more than a minute adds."""
_MAX_CLIENT_ROWS = 20_000
"""Rows of clients that are read at once, half a second of a processor's time: three hundred clients
may have counted sixty kinds in a minute.
"""
_MAX_BIGINT = 2**63 - 1
"""The largest sum that is stored."""
_MAX_INTEGER = 2**31 - 1
"""The largest count of waiting jobs that is stored."""


class FailedAttempt(NamedTuple):
    """An attempt that ended with an error."""

    id: int
    """The job's id."""
    attempt: int
    """Its number: together with the id it identifies the attempt."""
    at: datetime
    """When it began."""
    queue: str
    kind: str


class InsertedTally(NamedTuple):
    """Inserted jobs of one queue and kind in one minute."""

    at: datetime
    """When the minute begins."""
    queue: str
    kind: str
    jobs: int


class JobFigures(Store):
    """Reads figures from River's rows. Each statement reads a bounded part of an index."""

    async def figure_clock_get(self) -> tuple[datetime, int]:
        """Return the database's time, and the newest job's id: 0 without any."""
        row = await self._sql.row("figure_clock_get")
        return row.now.astimezone(UTC), row.last_id

    async def job_ended_tally_list(
        self, ranges: Sequence[Range], *, pairs: int = 1_000, step: timedelta = MINUTE
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return the jobs that ended in these ranges of time, by minute or in other steps. No range
        may reach into another step. The `pairs` busiest pairs are named; the others are `OTHER`.
        """
        if not ranges:
            return {}
        values = {**_ranges(ranges), **_BINS, "pairs": pairs, "other": OTHER}
        values["step"] = _seconds(step)
        rows = await self._sql.rows("job_ended_tally_list", values)
        return await _by_minute(rows.records())

    async def job_ended_failure_list(
        self,
        ranges: Sequence[Range],
        *,
        states: Sequence[JobState] = tuple(FINALIZED),
        limit: int = 20_000,
    ) -> Sequence[FailedAttempt]:
        """Return failed attempts of jobs that ended in these ranges and states, whenever they
        began: of at most `limit` jobs, the last ten of each.
        """
        if not ranges:
            return []
        names = [state.value for state in states]
        values = {**_ranges(ranges), "states": names, "limit": limit}
        return _attempts(await self._sql.rows("job_ended_failure_list", values))

    async def job_unfinished_failure_list(
        self, since: datetime, *, earlier: bool = True, cap: int = 50_000, limit: int = 20_000
    ) -> Sequence[FailedAttempt]:
        """Return failed attempts of jobs that have not ended and whose last attempt began since
        then. At most `cap` retryable jobs are read, fewer running and available ones, and at most
        `limit` returned. Without `earlier`, only the last attempt of each retryable job, at a tenth
        of the cost.
        """
        values = {"since": instant(since), "earlier": earlier, "cap": cap, "limit": limit}
        return _attempts(await self._sql.rows("job_unfinished_failure_list", values))

    async def job_inserted_tally_list(
        self, *, after: int = 0, upto: int, since: datetime, limit: int = 20_000
    ) -> tuple[Sequence[InsertedTally], int]:
        """Return the jobs that were created since then, with ids above `after` and up to `upto`,
        and the lowest id that was read: 0 without any. At most the newest `limit` are read.
        """
        values = {"after": after, "upto": upto, "limit": limit}
        rows = (await self._sql.rows("job_inserted_tally_list", values)).records()
        tallies = [
            InsertedTally(row.at.astimezone(UTC), row.queue, row.kind, row.jobs)
            for row in rows
            if since <= row.at < LAST
        ]
        return tallies, min((row.first_id for row in rows), default=0)

    async def queue_waiting_list(
        self, *, now: datetime, cap: int, limit: int = 200
    ) -> Mapping[str, Waiting]:
        """Return the waiting jobs of each queue that has available jobs. At most `cap` jobs of a
        queue are counted.
        """
        rows = await self._sql.rows("queue_waiting_list", {"cap": cap, "limit": limit})
        return {
            row.queue: Waiting(
                jobs=row.waiting,
                capped=row.waiting >= cap,
                oldest=max(timedelta(0), now - (row.oldest_at or now)),
            )
            for row in rows.records()
        }

    async def job_completed_pace_get(self, since: datetime, *, most: int) -> tuple[int, datetime]:
        """Return how many jobs completed since then, counted up to `most`, and until when."""
        values = {"since": instant(since), "most": most}
        row = await self._sql.row("job_completed_pace_get", values)
        return row.jobs, since if row.until is None else row.until.astimezone(UTC)

    async def job_first_completed_at(self, since: datetime) -> datetime | None:
        """Return when the oldest remaining job was completed since then."""
        row = await self._sql.row("job_first_completed_at", {"since": instant(since)})
        return None if row is None else row.at


class RollupStore(Store):
    """Statements on `riverui_rollup`. Without the table every one raises SchemaMissing."""

    async def rollup_newest_list(self) -> Mapping[timedelta, datetime]:
        """Return the start of the newest rollup of each span, for spans that have any."""
        values = {"steps": [*map(_seconds, KEPT)]}
        rows = await self._sql.rows("rollup_newest_list", values)
        return {timedelta(seconds=row.step): row.bucket.astimezone(UTC) for row in rows.records()}

    async def rollup_list(
        self, stretches: Sequence[Stretch], *, queue: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows of one queue, or of everything."""
        return await self._rollup_rows(stretches, Fragment("rollup_of_queue", {"queue": queue}))

    async def rollup_pair_list(
        self, stretches: Sequence[Stretch], *, queue: str = "", kind: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows of kinds in queues; of one queue or kind only if given."""
        named = {"queue": queue, "kind": kind}
        return await self._rollup_rows(stretches, Fragment("rollup_of_pairs", named))

    async def rollup_part_list(
        self, span: timedelta, *, since: datetime, until: datetime
    ) -> Sequence[Rollup]:
        """Return the rollups of this span that begin from `since` up to `until`, the oldest
        first.
        """
        return from_rows(span, await self._rollup_rows([Stretch(span, since, until)], None))

    async def rollup_add(self, rollups: Sequence[Rollup]) -> bool:
        """Store rollups, and make the wider ones that are over by the end of the newest stored
        minute; return False if another transaction is storing some.

        Of two rollups of the same time the heavier one is stored, so it does no harm to add one
        twice, in any order or from several processes. Rollups older than `KEPT` are deleted.
        """
        row = await self._sql.row("rollup_lock", {"schema": self._sql.schema})
        if not row.locked:
            return False
        changed = await self._put_heavier(rollups)
        until = (await self.rollup_newest_list())[MINUTE] + MINUTE
        for span, part in PARTS.items():
            over = begin(until, span)
            wanted = {begin(each.at, span) for each in changed if each.span == part}
            wanted |= set(await self._missing_rollups(span, since=begin(until - KEPT[part], span)))
            folded = []
            for at in sorted(at for at in wanted if at < over)[:_FOLDED]:
                parts = await self.rollup_part_list(part, since=at, until=at + span)
                folded.append(fold(parts, at=at, span=span))
            changed += await self._put_heavier(folded)
        await self.rollup_client_delete_old(limit=_DELETED)
        for span, kept in KEPT.items():
            await self.rollup_delete_before(span, begin(until - kept, span), limit=_DELETED)
        return True

    async def rollup_put(self, rollups: Sequence[Rollup]) -> None:
        """Store rollups in place of those of the same time and span."""
        for span in {rollup.span for rollup in rollups}:
            at = [rollup.at for rollup in rollups if rollup.span == span]
            values = {"step": _seconds(span), "buckets": at}
            await self._sql.rows("rollup_delete", values)
        rows = [(rollup.span, row) for rollup in rollups for row in rollup.rows()]
        await self._sql.rows("rollup_insert", {"rows": _json(rows)})

    async def rollup_delete_before(self, span: timedelta, before: datetime, *, limit: int) -> int:
        """Delete rows of rollups of this span that began before then, the oldest first, at most
        `limit`; return how many.
        """
        values = {"step": _seconds(span), "before": instant(before), "limit": limit}
        return len(await self._sql.rows("rollup_delete_before", values))

    async def rollup_truncate(self) -> bool:
        """Delete all rows at once and free their space; return False if the database's user may
        not.
        """
        if not (await self._sql.row("rollup_may_truncate")).may:
            return False
        await self._sql.rows("rollup_truncate")
        return True

    async def rollup_delete_some(self, *, limit: int) -> int:
        """Delete any rows, at most `limit`; return how many."""
        return len(await self._sql.rows("rollup_delete_some", {"limit": limit}))

    async def rollup_client_put(self, source: str, rows: Sequence[RollupRow]) -> None:
        """Store the counts of one client by queue and kind, replacing its earlier counts of the
        same minutes. Minutes that have been over for `CLIENT_LATE` are ignored.
        """
        # In the order of the table's key, so that no two statements wait for each other.
        counted = [(MINUTE, row) for row in sorted(rows, key=lambda row: row[:3])]
        put = Fragment("rollup_client_put", {"late": (MINUTE + CLIENT_LATE).total_seconds()})
        await self._sql.rows("rollup_insert", {"rows": _json(counted, source)}, put=put)

    async def rollup_client_list(
        self, since: datetime, until: datetime
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return the counts of all clients together in these minutes. If there are too many rows,
        the oldest minutes are left out.
        """
        values = {"since": instant(since), "until": instant(until), "limit": _MAX_CLIENT_ROWS}
        rows = await self._sql.rows("rollup_client_list", values, columns=_COLUMNS)
        records = rows.records()
        minutes = await _by_minute(records)
        if len(records) == _MAX_CLIENT_ROWS:
            # The oldest minute may have more rows.
            del minutes[min(minutes)]
        return minutes

    async def rollup_client_count_list(
        self, since: datetime
    ) -> Mapping[datetime, Mapping[Pair, Tally]]:
        """Return the failed, snoozed, interrupted and measured attempts that clients counted since
        then.
        """
        rows = await self._sql.rows("rollup_client_count_list", {"since": instant(since)})
        minutes: dict[datetime, dict[Pair, Tally]] = {}
        for row in rows.records():
            minutes.setdefault(row.bucket.astimezone(UTC), {})[row.queue, row.kind] = Tally(
                failed=row.failed,
                snoozed=row.snoozed,
                interrupted=row.interrupted,
                cpu_us=row.cpu_us,
                cpu_attempts=row.cpu_attempts,
            )
        return minutes

    async def rollup_client_delete_old(self, *, limit: int) -> int:
        """Delete rows of clients that are older than `CLIENT_KEPT`, at most `limit`; return how
        many.
        """
        values = {"age": CLIENT_KEPT.total_seconds(), "limit": limit}
        return len(await self._sql.rows("rollup_client_delete_old", values))

    async def _put_heavier(self, rollups: Sequence[Rollup]) -> list[Rollup]:
        """Store those that are heavier than the stored ones, and return them."""
        heavier = []
        for span in {each.span for each in rollups}:
            offered = [each for each in rollups if each.span == span]
            at = [each.at for each in offered]
            values = {"step": _seconds(span), "buckets": at}
            rows = (await self._sql.rows("rollup_weight_list", values)).records()
            stored = {row.bucket.astimezone(UTC): row.weight for row in rows}
            heavier += [each for each in offered if each.weight > stored.get(each.at, -1)]
        await self.rollup_put(heavier)
        return heavier

    async def _missing_rollups(self, span: timedelta, *, since: datetime) -> Sequence[datetime]:
        """Return the starts of the rollups of this span that are missing although rollups of
        shorter spans in them are stored.
        """
        values = {
            "step": _seconds(span),
            "part": _seconds(PARTS[span]),
            "since": instant(since),
        }
        rows = await self._sql.rows("rollup_missing_list", values)
        return [at.astimezone(UTC) for at in rows.values()]

    async def _rollup_rows(
        self, stretches: Sequence[Stretch], terms: Fragment | None
    ) -> list[RollupRow]:
        if not stretches:
            return []
        values = {
            "steps": [_seconds(each.step) for each in stretches],
            "since": [each.since for each in stretches],
            "until": [each.until for each in stretches],
        }
        slots = {} if terms is None else {"terms": terms}
        rows = await self._sql.rows("rollup_list", values, columns=_COLUMNS, **slots)
        found: list[RollupRow] = []
        records = rows.records()
        for start in range(0, len(records), _TURN):
            found += map(_row, records[start : start + _TURN])
            await asyncio.sleep(0)
        return found


async def _by_minute(records: Sequence[Any]) -> dict[datetime, dict[Pair, Tally]]:
    """Return the tallies of rows by minute, added up by queue and kind."""
    minutes: dict[datetime, dict[Pair, Tally]] = {}
    for start in range(0, len(records), _TURN):
        for row in records[start : start + _TURN]:
            pairs = minutes.setdefault(row.bucket.astimezone(UTC), {})
            add_pairs(pairs, [((row.queue, row.kind), _tally(row))])
        await asyncio.sleep(0)
    return minutes


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _ranges(ranges: Sequence[Range]) -> dict[str, list[datetime]]:
    return {"since": [since for since, _ in ranges], "until": [until for _, until in ranges]}


def _attempts(rows: Any) -> list[FailedAttempt]:
    """Return the attempts whose number and time can be read: errors may hold anything."""
    found = []
    for row in rows.records():
        at = row.at if row.at is not None else _time(row.written_at)
        number = row.attempt
        if at is None or at in (FIRST, LAST) or number is None or not number.isdecimal():
            continue
        found.append(FailedAttempt(row.id, int(number), at.astimezone(UTC), row.queue, row.kind))
    return found


def _time(text: str | None) -> datetime | None:
    """Return the time of an error; None if it cannot be read."""
    try:
        at = datetime.fromisoformat(text or "")
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _json(rows: Iterable[tuple[timedelta, RollupRow]], source: str = "") -> str:
    """Return rows as objects with the names of their columns."""
    return json.dumps(
        [
            {
                "step": _seconds(span),
                "bucket": row.at.isoformat(),
                "queue": row.queue,
                "kind": row.kind,
                "source": source,
                "sampled": row.sampled,
                **{name: getattr(row.tally, name) for name in COUNTS},
                "cpu_us": min(row.tally.cpu_us, _MAX_BIGINT),
                "cpu_attempts": row.tally.cpu_attempts,
                **_sketch_columns("run", row.tally.run),
                **_sketch_columns("failed_run", row.tally.failed_run),
                **_sketch_columns("wait", row.tally.wait),
                **_waiting_columns(row.waiting),
            }
            for span, row in rows
        ]
    )


def _sketch_columns(name: str, sketch: Sketch) -> Mapping[str, object]:
    return {
        f"{name}_sum_us": min(sketch.sum_us, _MAX_BIGINT),
        f"{name}_max_us": min(sketch.max_us, _MAX_BIGINT),
        f"{name}_bins": f"\\x{packed_bins.pack(sketch.counts).hex()}",
    }


def _waiting_columns(seen: Waiting | None) -> Mapping[str, object]:
    if seen is None:
        return {"waiting_capped": False}
    return {
        "waiting": min(seen.jobs, _MAX_INTEGER),
        "waiting_capped": seen.capped,
        "oldest_waiting_us": seen.oldest // _MICROSECOND,
    }


def _row(row: Any) -> RollupRow:
    at = row.bucket.astimezone(UTC)
    return RollupRow(at, row.queue, row.kind, row.sampled, _tally(row), _waiting(row))


def _tally(row: Any) -> Tally:
    unpack = packed_bins.unpack
    return Tally(
        **{name: getattr(row, name) for name in COUNTS},
        cpu_us=row.cpu_us,
        cpu_attempts=row.cpu_attempts,
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
