"""Figures out of the rows of jobs: what ended, failed, came and waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import log

from riverui.domain.figures import OTHER
from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.sketch import FIRST_BIN, GAMMA, LAST_BIN, Sketch
from riverui.domain.time import FIRST, LAST
from riverui.storage.interface.figures import (
    EndedTally,
    FailedAttempt,
    FigureClock,
    InsertedPage,
    InsertedTally,
    QueueWaiting,
    TimeSlice,
)
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.statements import Statements, instant
from riverui.storage.rows import Rows

_BINS = {"first": FIRST_BIN, "last": LAST_BIN, "log_gamma": log(GAMMA)}


class FigureStatements(Statements):
    """Reading figures."""

    async def figure_clock_get(self) -> FigureClock:
        """Return the database's clock and the newest job's id."""
        row = await self.row("figure_clock_get")
        return FigureClock(now=row.now.astimezone(UTC), last_id=row.last_id)

    async def job_ended_tally_list(
        self, slices: Sequence[TimeSlice], *, pairs: int = 1_000
    ) -> Sequence[EndedTally]:
        """Return the jobs that ended in these spans, added up. Queues and kinds are told apart for
        the `pairs` that ended most; the others are `OTHER`.
        """
        if not slices:
            return []
        values = {
            "places": array_literals.numbers(part.place for part in slices),
            **_ranges(slices),
            **_BINS,
            "pairs": pairs,
            "other": OTHER,
        }
        rows = await self.rows("job_ended_tally_list", values)
        return [
            EndedTally(
                row.place,
                row.queue,
                row.kind,
                JobState(row.state),
                row.jobs,
                _sketch(row.run_bins, row.run_sum, row.run_max),
                _sketch(row.wait_bins, row.wait_sum, row.wait_max),
            )
            for row in rows.records()
        ]

    async def job_ended_failure_list(
        self,
        slices: Sequence[TimeSlice],
        *,
        states: Sequence[JobState] = tuple(FINALIZED),
        limit: int = 20_000,
    ) -> Sequence[FailedAttempt]:
        """Return failed attempts of jobs that ended in these spans and states, of `limit` jobs at
        most and the last ten of each, whenever they began.
        """
        if not slices:
            return []
        told = [state.value for state in states]
        values = {**_ranges(slices), "states": told, "limit": limit}
        return _attempts(await self.rows("job_ended_failure_list", values))

    async def job_unfinished_failure_list(
        self, since: datetime, *, earlier: bool = True, cap: int = 50_000, limit: int = 20_000
    ) -> Sequence[FailedAttempt]:
        """Return failed attempts of jobs that have not ended and whose last attempt began since
        then: of retryable, running and available ones, of which `cap` are looked at, `limit` told.
        Without `earlier` only the last one of each retryable job, which costs a tenth.
        """
        values = {"since": instant(since), "earlier": earlier, "cap": cap, "limit": limit}
        return _attempts(await self.rows("job_unfinished_failure_list", values))

    async def job_inserted_tally_list(
        self, *, after: int = 0, upto: int, since: datetime, limit: int = 20_000
    ) -> InsertedPage:
        """Return the jobs with ids above `after` up to `upto` that came since then, added up: the
        newest `limit` of them.
        """
        values = {"after": after, "upto": upto, "limit": limit}
        rows = (await self.rows("job_inserted_tally_list", values)).records()
        return InsertedPage(
            tallies=[
                InsertedTally(row.at.astimezone(UTC), row.queue, row.kind, row.jobs)
                for row in rows
                if since <= row.at < LAST
            ],
            first_id=min((row.first_id for row in rows), default=0),
        )

    async def queue_waiting_list(self, *, cap: int, limit: int = 200) -> Sequence[QueueWaiting]:
        """Return what waits in each queue that has available jobs, by name."""
        rows = await self.rows("queue_waiting_list", {"cap": cap, "limit": limit})
        return [QueueWaiting(row.queue, row.waiting, row.oldest_at) for row in rows.records()]

    async def job_first_completed_at(self, since: datetime) -> datetime | None:
        """Return when the first job was completed since then that is still there."""
        row = await self.row("job_first_completed_at", {"since": instant(since)})
        return None if row is None else row.at


def _sketch(bins: bytes | None, sum_us: int | None, max_us: int | None) -> Sketch:
    counts = {FIRST_BIN + found: n for found, n in Counter(bins or b"").items()}
    return Sketch(counts, sum_us=sum_us or 0, max_us=max_us or 0)


def _ranges(slices: Sequence[TimeSlice]) -> dict[str, str]:
    return {
        "since": array_literals.instants(part.since for part in slices),
        "until": array_literals.instants(part.until for part in slices),
    }


def _attempts(rows: Rows) -> list[FailedAttempt]:
    """Return the attempts whose number and time can be read: both may be anything."""
    found = []
    for row in rows.records():
        at = row.at if row.at is not None else _time(row.told_at)
        number = row.attempt
        if at is None or at in (FIRST, LAST) or number is None or not number.isdecimal():
            continue
        found.append(FailedAttempt(row.id, int(number), at.astimezone(UTC), row.queue, row.kind))
    return found


def _time(told: str | None) -> datetime | None:
    """Return a time as an error tells it; None where it is none."""
    try:
        at = datetime.fromisoformat(told or "")
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None
