"""Which spans of time are read at once, whole or in samples, and what their rows add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby

from riverui.domain.figures import Tally
from riverui.domain.jobs import JobState
from riverui.domain.sketch import Sketch
from riverui.storage.interface.figures import EndedTally, TimeSlice
from riverui.web.live.figure_buckets import PART, Bucket
from riverui.web.live.figure_cells import Cells

_JOB_SECONDS = 3e-6
"""That reading one ended job takes at least."""

SAMPLED = 10
"""One second of each ten is read where there are too many rows."""


class Sampler:
    """How much of a span of time is read: all of it, or a sample where that costs too much."""

    def __init__(self, share: float, few_jobs: float) -> None:
        self._share = share
        """Of the time that passes, which reading its rows may take."""
        self._few_jobs = few_jobs
        self.sampling = 1
        self.cost = 0.0
        """Seconds that it took to read one second whole, as last measured."""
        self._rate = 0.0
        """Jobs that ended in each second then."""

    @property
    def few(self) -> bool:
        """Return whether so few jobs ended that reading them is not what takes time."""
        return self._rate < self._few_jobs

    def note(self, took: float, seconds: float, sampling: int, jobs: int) -> None:
        """Take note of how long it took to read so many seconds of rows, one in so many of them,
        and how many rows that were.
        """
        self.cost = took * sampling / seconds
        self._rate = jobs * sampling / seconds
        self._choose()

    def expect(self, jobs: float) -> None:
        """Expect so many jobs to have ended in each second, before anything was measured."""
        self.cost = jobs * _JOB_SECONDS
        self._rate = jobs
        self._choose()

    def ease(self) -> None:
        """Read samples, as it took too long."""
        self.sampling = SAMPLED

    def _choose(self) -> None:
        # Half-way back keeps it from going to and fro.
        if self.cost > self._share and not self.few:
            self.sampling = SAMPLED
        elif self.cost < self._share / 2 or self.few:
            self.sampling = 1


class Turn:
    """When something is read again: after a while, or later where it takes long."""

    def __init__(self, seconds: float, share: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._share = share
        """Of the time that passes, which reading it may take."""
        self._clock = clock
        self.reset()

    @property
    def due(self) -> bool:
        """Return whether it is time."""
        return self._clock() >= self._at

    def reset(self) -> None:
        """Make it due."""
        self._at = float("-inf")

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure a reading, also one that fails; the next turn comes after it."""
        started = self._clock()
        try:
            yield
        finally:
            took = self._clock() - started
            # A little early, so that a tick that comes in time finds it due.
            self._at = started + max(self._seconds * 0.9, took / self._share)


def slices(bucket: Bucket, parts: Iterable[int], *, sampling: int, place: int) -> list[TimeSlice]:
    """Return the spans to read for parts of a bucket: those that touch as one, or in samples one
    second of each part. That second goes round, so that what happens at whole minutes is met no
    more often than it happens.
    """
    found = []
    if sampling > 1:
        for part in parts:
            start = bucket.start + part * PART
            second = start + (start // PART * 7 + 3) % PART
            found.append(TimeSlice(place, _at(second), _at(second + 1)))
        return found
    for _, run in groupby(enumerate(sorted(parts)), lambda item: item[1] - item[0]):
        numbers = [part for _, part in run]
        since = bucket.start + numbers[0] * PART
        found.append(TimeSlice(place, _at(since), _at(since + len(numbers) * PART)))
    return found


def cells_of(rows: Sequence[EndedTally], *, times: int) -> dict[int, Cells]:
    """Return what the rows of a reading add up to, by place; all counts `times` as many."""
    places: dict[int, Cells] = {}
    for place, queue, kind, state, jobs, run, wait in rows:
        cells = places.setdefault(place, {})
        if (tally := cells.get((queue, kind))) is None:
            tally = cells[queue, kind] = Tally()
        tally.wait.merge(_times(wait, times))
        if state is JobState.COMPLETED:
            tally.completed += jobs * times
            tally.run.merge(_times(run, times))
        elif state is JobState.DISCARDED:
            tally.discarded += jobs * times
            tally.failed_run.merge(_times(run, times))
        else:
            tally.cancelled += jobs * times
    return places


def _times(sketch: Sketch, times: int) -> Sketch:
    if times == 1:
        return sketch
    counts = {found: n * times for found, n in sketch.counts.items()}
    return Sketch(counts, sum_us=sketch.sum_us * times, max_us=sketch.max_us)


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
