"""What every queue did in the last hour, minute by minute, out of what a collector knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from riverui.domain.figures import Tally
from riverui.domain.queues import QueueMinute
from riverui.web.live.figure_buckets import MINUTE, Bucket, Buckets
from riverui.web.live.figure_cells import Cells

MINUTES = 60
"""Minutes that are told: those that a collector keeps apart."""


class _Ended(NamedTuple):
    """What ended of one queue in one minute."""

    jobs: int
    wait: timedelta | None


class QueueMinutes:
    """Puts them together, and keeps what cannot change any more."""

    def __init__(self) -> None:
        self._ended: dict[int, Mapping[str, _Ended]] = {}
        self._version = -1
        self._minutes: Mapping[str, Sequence[QueueMinute | None]] = {}

    def of(self, buckets: Buckets) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return the minutes of each queue of which anything is known, the oldest first and the
        newest not yet over; None where nothing is known of a minute.
        """
        if not buckets.read_until:
            return {}
        if buckets.version != self._version:
            self._version = buckets.version
            self._minutes = self._read(buckets)
        return self._minutes

    def _read(self, buckets: Buckets) -> Mapping[str, Sequence[QueueMinute | None]]:
        newest = int(buckets.read_until) // MINUTE * MINUTE
        starts = [newest - n * MINUTE for n in range(MINUTES - 1, -1, -1)]
        self._ended = {start: ended for start, ended in self._ended.items() if start >= starts[0]}
        told = [self._minute(buckets, start) for start in starts]
        queues = {queue for minute in told for queue in minute or ()}
        # What is under the empty name stands for queues of which there was nothing.
        return {
            queue: [None if minute is None else minute.get(queue, minute[""]) for minute in told]
            for queue in queues - {""}
        }

    def _minute(self, buckets: Buckets, start: int) -> Mapping[str, QueueMinute] | None:
        bucket = buckets.minutes.get(start)
        if bucket is None or not bucket.known(buckets.read_until):
            return None
        ended = self._of(bucket)
        came: dict[str, int] = {}
        for (queue, _), jobs in bucket.inserted.items():
            came[queue] = came.get(queue, 0) + jobs
        looked = "" in bucket.waiting
        found = {}
        for queue in ended.keys() | came.keys() | (bucket.waiting.keys() - {""}) | {""}:
            seen, done = bucket.waiting.get(queue) if queue else None, ended.get(queue)
            found[queue] = QueueMinute(
                ended=done.jobs if done else 0,
                inserted=came.get(queue, 0),
                sampled=bucket.sampled,
                wait=done.wait if done else None,
                waiting=seen.jobs if seen else 0 if looked else None,
                waiting_capped=seen is not None and seen.capped,
            )
        return found

    def _of(self, bucket: Bucket) -> Mapping[str, _Ended]:
        known = self._ended.get(bucket.start)
        if known is not None:
            return known
        cells: Cells = {}
        bucket.merge_ended(cells)
        tallies: dict[str, Tally] = {}
        for (queue, _), tally in cells.items():
            tallies.setdefault(queue, Tally()).merge(tally)
        ended = {
            queue: _Ended(tally.ended, tally.wait.quantile(0.95))
            for queue, tally in tallies.items()
        }
        if bucket.complete:
            self._ended[bucket.start] = ended
        return ended
