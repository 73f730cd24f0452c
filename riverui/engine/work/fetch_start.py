"""Where the fetches of one queue begin, so that they do not read all that was fetched before.

In Postgres, each fetched job leaves an index entry in front of those that wait. As long as a
transaction anywhere on the server holds an older snapshot, nothing can remove these entries, and
each fetch from the beginning reads them all. Once there are many, a fetch begins in each priority
after the job that was fetched last.

A job may become available behind that place: its transaction commits late, the clock that scheduled
it is slow, a client gives it back. Therefore fetches also go back, each of `_SPANS` at its own
pace: a job that becomes available up to so many seconds after its place was passed is fetched
within as many seconds. All others are found by a look at the first available job of each priority,
made beside the fetches. It reads all entries, so it is repeated when they are few for the number of
jobs and seconds since the last look (`_PER_JOB`, `_PER_SECOND`).

If features choose among the jobs, others stay in front of those that were fetched. Then fetches
begin at the first one that is there, which a statement of its own finds from time to time
(`_STEP_FETCHES`, `_STEP_JOBS`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from riverui.domain.time import FIRST
from riverui.storage.interface.engine_params import Place

if TYPE_CHECKING:
    from riverui.domain.jobs import JobRow
    from riverui.storage.stores.first_places import FirstPlaces

_PRIORITIES = 4
"""River's."""
_BEGINNING = (Place(FIRST, 0),) * _PRIORITIES
_SPANS = (0.1, 1.0, 10.0)
"""Seconds: inserts commit within the first, transactions within the second, and a statement of a
client that fetches within the third. Each costs up to two index entries a job.
"""
_FEW = 50
"""Entries that a fetch from the beginning may always read: some 10 µs."""
_PER_JOB = 2
"""Entries a job that looks may read."""
_PER_SECOND = 5_000
"""Entries a second that they may read: up to a hundredth of the time of one core."""
_MANY = 3_000_000
"""Entries that a look is assumed to read if it fails: the next one follows after ten minutes."""
_LOOK_FETCHES = 16
"""Fetches from the beginning before the next look, if they brought jobs."""
_LOOK_EMPTY_FETCHES = 256
"""The same if they brought none: four minutes of polls."""
_STEP_FETCHES = 8
"""Fetches after which the first job is looked for from the last place on."""
_STEP_JOBS = 64
"""Jobs after which it is: until then each fetch reads the entries of so many again."""
_LOOK_SECONDS = 1.0
"""Shortest time between two looks while fetches begin later."""
_CLOCKS = timedelta(seconds=2)
"""How far the clocks that schedule jobs may be behind: where a fetch has found no more jobs, the
next one begins so long ago.
"""
_MARGIN = timedelta(seconds=_SPANS[-1])
"""The same where a look has found none, which knows nothing about transactions before it."""

Places = tuple[Place, ...]
"""One of each priority."""


class Begun(NamedTuple):
    """Where one fetch begins."""

    start: Places
    passed: Places
    """What had been passed by then."""
    spans: Sequence[_Span]
    """Those for which it goes back."""
    recent: Place
    """Where it may have ended without further jobs."""


@dataclass(slots=True)
class _Span:
    """Goes back to what had been passed two fetches of this span ago."""

    seconds: float
    older: Places
    newer: Places
    at: float
    """When the last fetch of this span ended (monotonic)."""


class FetchStart:
    """Where the fetches of one queue begin."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.passed: Places | None = None
        """In each priority the place up to which jobs have been fetched; None if fetches begin at
        the beginning.
        """
        self._back: Places | None = None
        """Where the next fetch begins, if it is before what was passed."""
        self._entries: int | None = None
        """Index entries that the last look read; None before the first."""
        self._database_at = FIRST
        """The database's time at the last look."""
        self._fetches = self._jobs = 0
        """Fetches and jobs since the last look."""
        self._looked_at = now()
        self._now = now
        self._spans: Sequence[_Span] = ()
        self._step_fetches = self._step_jobs = 0
        """The same since the last step."""
        self._top = _BEGINNING
        """The last place that was passed."""

    @property
    def known(self) -> bool:
        """Whether there has been a look, without which no others are due."""
        return self._entries is not None

    @property
    def later(self) -> bool:
        """Whether fetches begin later than at the beginning."""
        return self.passed is not None

    @property
    def look_due(self) -> bool:
        """Whether to look for the first available jobs."""
        if self._entries is None:
            return False
        if self.passed is None:
            return self._fetches >= (_LOOK_FETCHES if self._jobs else _LOOK_EMPTY_FETCHES)
        seconds = self._now() - self._looked_at
        most: float = _PER_JOB * self._jobs + _PER_SECOND * seconds
        return seconds >= _LOOK_SECONDS and most >= self._entries

    def begin(self) -> Begun | None:
        """Return where the next fetch begins; None for the beginning."""
        if self.passed is None:
            return None
        now = self._now()
        due = [span for span in self._spans if now - span.at >= span.seconds]
        start = self.passed
        for back in (self._back, *(span.older for span in due)):
            if back is not None:
                start = _each(min, start, back)
        self._back = None
        return Begun(start, self.passed, due, Place(self._database_now() - _CLOCKS, 0))

    def failed(self, begun: Begun | None) -> None:
        """Begin again where a failed fetch began: what it had locked is free again."""
        if begun is not None:
            self._go_back(begun.start)

    def go_back(self) -> None:
        """Begin the next fetch at the beginning."""
        self._go_back(_BEGINNING)

    def end(self, begun: Begun | None, rows: Sequence[JobRow], limit: int) -> None:
        """Handle the jobs of a fetch that has succeeded, the first ones from its start on."""
        best = self.count(rows)
        if begun is None:
            return
        last = max(best) if len(rows) >= limit else _PRIORITIES + 1
        # Up to where it has read each priority.
        ends = list(begun.start)
        for n, top in enumerate(self._top):
            if n + 1 < last:
                ends[n] = max(top, begun.recent)
            elif n + 1 == last:
                ends[n] = best[last]
        self._pass(begun, ends)

    def step_due(self, begun: Begun) -> bool:
        """Return whether to look for the first job from this start on, before a fetch in which
        features choose.
        """
        return (
            begun.start != begun.passed
            or self._step_fetches >= _STEP_FETCHES
            or self._step_jobs >= _STEP_JOBS
        )

    def step(self, begun: Begun, found: FirstPlaces) -> None:
        """Handle the first jobs from a start on: `passed` is where fetches begin then."""
        self._step_fetches = self._step_jobs = 0
        tops = zip(found.places, self._top, strict=True)
        self._pass(begun, [place or max(top, begun.recent) for place, top in tops])

    def count(self, rows: Sequence[JobRow]) -> Mapping[int, Place]:
        """Count a fetch and its jobs; return the last place of each priority among them."""
        self._fetches += 1
        self._step_fetches += 1
        self._jobs += len(rows)
        self._step_jobs += len(rows)
        best: dict[int, Place] = {}
        for row in rows:
            place = Place(row.scheduled_at, row.id)
            if place > best.get(row.priority, _BEGINNING[0]):
                best[row.priority] = place
        self._top = tuple(max(top, best.get(n, top)) for n, top in enumerate(self._top, 1))
        return best

    def _pass(self, begun: Begun, ends: Sequence[Place]) -> None:
        """Pass the places before which there is nothing more after the start of a fetch."""
        if self.passed is None:
            return
        passed = list(self.passed)
        for n, (start, before, end) in enumerate(zip(begun.start, begun.passed, ends, strict=True)):
            if end < before:
                # It went back, and left jobs before it had caught up.
                passed[n] = min(passed[n], end)
            elif start <= passed[n]:
                passed[n] = max(passed[n], end)
        self.passed = tuple(passed)
        now = self._now()
        for span in self._spans:
            # Of two fetches at once, one counts.
            if span in begun.spans and now - span.at >= span.seconds:
                span.older, span.newer, span.at = span.newer, self.passed, now
            # What it has to pass again does not count as passed.
            span.older = _each(min, span.older, self.passed)
            span.newer = _each(min, span.newer, self.passed)

    def look_failed(self) -> None:
        """Handle a look that failed, perhaps because it took too long."""
        self._database_at = self._database_now()
        self._again(max(self._entries or 0, _MANY), self._now())

    def looked(self, found: FirstPlaces, began: float) -> bool:
        """Handle the result of a look that began then (monotonic); return whether jobs may have
        been passed over.
        """
        few = max(_FEW, _PER_JOB * self._jobs // max(self._fetches, 1))
        expected = self._database_at + timedelta(seconds=began - self._looked_at)
        if self.passed is not None and found.at < expected - _CLOCKS:
            # The database's clock was set back.
            self.passed = None
        self._again(found.entries, began)
        self._database_at = found.at
        # Not up to now, as transactions may be about to commit.
        recent = Place(found.at - _MARGIN, 0)
        before = tuple(min(place or recent, recent) for place in found.places)
        if self.passed is None:
            if found.entries > few:
                self._back = None
                self.passed = self._top = before
                self._spans = [_Span(seconds, before, before, 0.0) for seconds in _SPANS]
            return False
        back = tuple(
            min(place or passed, passed)
            for place, passed in zip(found.places, self.passed, strict=True)
        )
        behind = back != self.passed
        if found.entries <= few:
            self.passed = None
            return behind
        if behind:
            self._go_back(back)
        self.passed = _each(max, self.passed, before)
        self._top = _each(max, self._top, before)
        return behind

    def _database_now(self) -> datetime:
        """Return the database's time, if its clock was not set since the last look."""
        return self._database_at + timedelta(seconds=self._now() - self._looked_at)

    def _again(self, entries: int, began: float) -> None:
        """Count until the next look."""
        self._entries, self._fetches, self._jobs = entries, 0, 0
        self._looked_at = began

    def _go_back(self, places: Places) -> None:
        self._back = places if self._back is None else _each(min, self._back, places)


def _each(choose: Callable[[Place, Place], Place], some: Places, others: Places) -> Places:
    return tuple(map(choose, some, others))
