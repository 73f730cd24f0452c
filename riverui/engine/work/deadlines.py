"""The time limits of all running jobs of a client, with one heap and one timer."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import copy_context
from itertools import count

from riverui.engine.work.attempt import Attempt, Cause

_FEW = 1_024
"""Entries below which those of ended attempts are not removed: 100 kB."""


class Deadlines:
    """Ends attempts that exceed their time limit, and reports those that keep running."""

    def __init__(
        self, stuck_after: float, stuck: Callable[[Attempt], None], *, few: int = _FEW
    ) -> None:
        self._context = copy_context()
        """The context in which stuck jobs are reported, instead of that of the job that set the
        timer.
        """
        self._few = few
        self._heap: list[tuple[float, int, Attempt]] = []
        self._loop = asyncio.get_running_loop()
        self._room = few
        self._serial = count()
        self._stuck = stuck
        self._stuck_after = stuck_after
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, attempt: Attempt, seconds: float) -> None:
        """End the attempt so many seconds from now, unless it has ended by then."""
        self._push(self._loop.time() + seconds, attempt)

    def close(self) -> None:
        """Stop watching."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _push(self, when: float, attempt: Attempt) -> None:
        heap = self._heap
        if len(heap) >= self._room:
            # Most attempts end early and leave their entry behind: remove these when they may be
            # half of all.
            heap[:] = [entry for entry in heap if not entry[2].done]
            heapq.heapify(heap)
            self._room = max(self._few, 2 * len(heap))
        heapq.heappush(heap, (when, next(self._serial), attempt))
        if self._timer is None or when < self._timer.when():
            self._arm(when)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._ring, context=self._context)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = []
        while self._heap and (self._heap[0][2].done or self._heap[0][0] <= now):
            attempt = heapq.heappop(self._heap)[2]
            if not attempt.done:
                late.append(attempt)
        if self._heap:
            self._arm(self._heap[0][0])
        for attempt in late:
            if attempt.overdue:
                self._stuck(attempt)
            else:
                attempt.overdue = True
                attempt.end(Cause.TIMEOUT)
                self._push(now + self._stuck_after, attempt)
