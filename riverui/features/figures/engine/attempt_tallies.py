"""Counts how the attempts of a client ended, by minute, queue and kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import itemgetter

from riverui.domain.figures import OTHER, Tally
from riverui.domain.jobs import JobRow, JobState
from riverui.domain.sketch import Sketch
from riverui.domain.time import FIRST
from riverui.engine.events import EventKind
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.cpu_time import CpuTime
from riverui.engine.work.outcome import Outcome
from riverui.features.figures.domain import MAX_PAIRS, MINUTE, Pair, RollupRow, begin

_MAX_NAME = 200
"""Characters of a queue's or kind's name that count, as for figures read from rows."""
_MAX_QUEUES = 50
"""Queues whose other kinds are added up, if there are too many pairs."""
_MAX_TIMED = 32
"""Jobs of one queue and kind that are timed of those that one statement completed. If more are
written at once, hundreds are timed each second.
"""
_pair = itemgetter(JobRow._fields.index("queue"), JobRow._fields.index("kind"))
_ENDLESS = 10**16
"""Microseconds, three hundred years: such a wait is of a job that was due at an infinite time."""

Ended = tuple[Attempt, Outcome]
_Cells = dict[Pair, Tally]


class AttemptTallies:
    """How one client's attempts ended, for minutes that can still be written."""

    def __init__(self, *, keep: timedelta, clock: Callable[[], datetime]) -> None:
        self._keep = keep
        """How long after its beginning a minute can still be written."""
        self._clock = clock
        self._minutes: dict[datetime, _Cells] = {}
        self._written: dict[tuple[datetime, Pair], int] = {}
        """How many attempts of each minute and pair are written."""
        self._cells: _Cells = {}
        """The minute that was counted last, and its ends."""
        self._since = self._until = FIRST

    def completed(
        self, attempts: Sequence[Attempt], ended_at: Sequence[datetime], written: Sequence[int]
    ) -> None:
        """Count successful attempts whose jobs are in `written`, or were completed by the attempt
        itself.
        """
        if len(written) != len(attempts):
            taken = set(written)
            both = zip(attempts, ended_at, strict=True)
            left = [
                (attempt, at if attempt.row.id in taken else attempt.completed_at)
                for attempt, at in both
            ]
            attempts = [attempt for attempt, at in left if at]
            ended_at = [at for _, at in left if at]
        # If many end at once, some are timed: timing all would take a tenth of what working them
        # takes.
        rows = [attempt.row for attempt in attempts]
        if len(rows) > _MAX_TIMED and _in_one_minute(ended_at):
            groups: dict[Pair, list[int]] = {}
            for place, pair in enumerate(map(_pair, rows)):
                if pair in groups:
                    groups[pair].append(place)
                else:
                    groups[pair] = [place]
            for places in groups.values():
                self._complete(rows, ended_at, places)
        else:
            for place in range(len(rows)):
                self._complete(rows, ended_at, (place,))

    def _complete(
        self, rows: Sequence[JobRow], ended_at: Sequence[datetime], places: Sequence[int]
    ) -> None:
        """Count jobs of one pair that completed in one minute."""
        jobs = len(places)
        stride = -(-jobs // _MAX_TIMED)
        timed = places[stride // 2 :: stride]
        times, more = divmod(jobs, len(timed))
        tally = self._tally(ended_at[places[0]], rows[places[0]])
        tally.completed += jobs
        for number, place in enumerate(timed):
            row, began = rows[place], rows[place].attempted_at
            if began is not None:
                n = times + (number < more)
                _add(tally.run, ended_at[place] - began, n)
                _add(tally.wait, began - row.scheduled_at, n)

    def ended(self, changes: Sequence[Ended], rows: Sequence[JobRow]) -> None:
        """Count attempts that ended in any way, with their rows as they are now."""
        of_id = {attempt.row.id: (attempt, ended) for attempt, ended in changes}
        for row in rows:
            # A feature may return rows of other jobs, and a job may have been taken by others.
            if found := of_id.get(row.id):
                self._end(row, *found)

    def measured(self, row: JobRow, at: datetime, cpu: CpuTime) -> None:
        """Count the processor time of an attempt that ended."""
        tally = self._tally(at, row)
        tally.cpu_us += cpu.nanoseconds // 1000
        tally.cpu_attempts += 1

    def unwritten(self) -> tuple[list[RollupRow], Callable[[], None]]:
        """Return the rows to write, and what to call once they are written."""
        oldest = self._clock() - self._keep
        self._minutes = {at: cells for at, cells in self._minutes.items() if at > oldest}
        self._written = {key: n for key, n in self._written.items() if key[0] in self._minutes}
        rows, weights = [], {}
        for at, cells in self._minutes.items():
            for pair, tally in cells.items():
                weight = tally.weight + tally.cpu_attempts
                if self._written.get((at, pair), 0) != weight:
                    weights[at, pair] = weight
                    rows.append(RollupRow(at, *pair, 1, tally, None))
        return rows, lambda: self._written.update(weights)

    def forget(self) -> None:
        """Forget everything."""
        self._minutes, self._written = {}, {}
        self._cells, self._since, self._until = {}, FIRST, FIRST

    def _end(self, row: JobRow, attempt: Attempt, ended: Outcome) -> None:
        """Count one attempt by the current state of its row, as events do."""
        state, kind = row.state, ended.event
        at = row.finalized_at or attempt.ended_at
        tally = self._tally(at, attempt.row)
        if state is JobState.COMPLETED:
            tally.completed += 1
        elif state is JobState.CANCELLED:
            tally.cancelled += 1
        elif state is JobState.DISCARDED:
            tally.discarded += 1
        elif state is JobState.SCHEDULED or kind is EventKind.JOB_SNOOZED:
            tally.snoozed += 1
        elif kind is EventKind.JOB_INTERRUPTED:
            tally.interrupted += 1
        began = attempt.row.attempted_at
        if began is None:
            return
        if state is JobState.COMPLETED:
            _add(tally.run, at - began)
        elif kind is EventKind.JOB_FAILED:
            # As with rows, a failure counts in the minute in which the attempt began.
            if self._clock() - begin(began, MINUTE) < self._keep:
                self._tally(began, attempt.row).failed += 1
            _add(tally.failed_run, at - began)
        if row.finalized_at is not None:
            _add(tally.wait, began - attempt.row.scheduled_at)

    def _tally(self, at: datetime, row: JobRow) -> Tally:
        cells = self._minute(at)
        return cells.get((row.queue, row.kind)) or _cell(cells, row)

    def _minute(self, at: datetime) -> _Cells:
        if not self._since <= at < self._until:
            self._since = begin(at, MINUTE)
            self._until = self._since + MINUTE
            self._cells = self._minutes.setdefault(self._since, {})
        return self._cells


def _in_one_minute(instants: Sequence[datetime]) -> bool:
    return begin(min(instants), MINUTE) == begin(max(instants), MINUTE)


def _add(sketch: Sketch, span: timedelta, n: int = 1) -> None:
    microseconds = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    if microseconds < _ENDLESS:
        sketch.add_microseconds(microseconds if microseconds > 0 else 0, n)


def _cell(cells: _Cells, row: JobRow) -> Tally:
    """Return the tally of a job's pair, a new one if it has none yet."""
    pair = (row.queue[:_MAX_NAME], row.kind[:_MAX_NAME])
    if pair not in cells and len(cells) >= MAX_PAIRS:
        pair = (pair[0], OTHER)
        if pair not in cells and len(cells) >= MAX_PAIRS + _MAX_QUEUES:
            pair = (OTHER, OTHER)
    return cells.setdefault(pair, Tally())
