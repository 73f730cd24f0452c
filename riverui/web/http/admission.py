"""Limit how many read requests are worked on at once. Others wait in a queue for a moment; if it is
full, they are rejected with 503 at once. A server that accepts everything answers no one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from datetime import timedelta

from msgspec import Struct

from riverui.errors import TooBusy

log = logging.getLogger("riverui.http")

SLOW = 0.25
"""Lateness of the event loop, in seconds, from which live regions are asked to refresh less often:
a page then takes about a second.
"""
TOO_SLOW = 1.0
"""Lateness, in seconds, from which refreshes of live regions are rejected."""
_COME_BACK = (3, 8)
"""Range of Retry-After in seconds: random, so that clients do not all return at once."""

_BEAT = 0.1
"""Seconds between two measurements of the lateness."""
_BEATS = 3
"""Consecutive late measurements required: a process may be busy or suspended once for any
reason.
"""
_LOG_EVERY = 10.0
"""Seconds between two log lines of the same kind."""


class AdmissionLimits(Struct, frozen=True, kw_only=True):
    """How many requests one process accepts."""

    working: int = 16
    """Requests worked on at once: enough to keep a processor and a pool of connections busy."""
    waiting: int = 128
    """Requests in the queue; beyond that, new ones are rejected."""
    refreshes: int = 32
    """The same limit for refreshes of live regions, so that people come first."""
    longest_wait: timedelta = timedelta(seconds=4)
    """Longest wait in the queue."""


class Pulse:
    """Measures how long ready callbacks wait for their turn in the event loop.

    A page needs several turns, one for each answer of the database.
    """

    def __init__(self) -> None:
        self._beats: deque[float] = deque(maxlen=_BEATS)
        """Seconds by which the last beats were late."""
        self._due = self._logged_at = -1e9
        self._asked = False
        self._beat: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def late(self) -> float:
        """Return the least lateness, in seconds, of the last beats: a single late beat means
        nothing. It beats only while it is asked.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._beat = loop, None
        self._asked = True
        if self._beat is None:
            self._beats.clear()
            self._schedule(loop)
        return min(self._beats) if len(self._beats) == _BEATS else 0.0

    @property
    def beats(self) -> bool:
        """Whether the lateness was asked for recently."""
        return self._beat is not None

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + _BEAT
        self._beat = loop.call_at(self._due, self._feel, loop)

    def _feel(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beats.append(loop.time() - self._due)
        self._beat = None
        if not self._asked:
            return
        self._asked = False
        self._schedule(loop)
        late = min(self._beats)
        logged_lately = loop.time() - self._logged_at <= _LOG_EVERY
        if len(self._beats) == _BEATS and late > SLOW and not logged_lately:
            self._logged_at = loop.time()
            log.warning("slow: the event loop is %.1f s late", late)


class Admission:
    """The queue of requests of one dashboard."""

    def __init__(self, limits: AdmissionLimits | None = None) -> None:
        self._limits = limits or AdmissionLimits()
        self._places = asyncio.Semaphore(self._limits.working)
        self.pulse = Pulse()
        self._refused = 0
        self._logged_at = -1e9
        self.working = 0
        """Requests being worked on."""
        self.waiting = 0
        """Requests in the queue."""

    async def enter(self, *, refresh: bool = False) -> Place:
        """Wait for a place, for a refresh or for a request of a person or a program.

        Raise TooBusy if the queue is full or the wait too long.
        """
        if not self._places.locked():
            await self._places.acquire()
            return Place(self)
        longest = self._limits.waiting
        if self.waiting >= (min(longest, self._limits.refreshes) if refresh else longest):
            raise self._too_busy()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.longest_wait.total_seconds()):
                await self._places.acquire()
        except TimeoutError:
            raise self._too_busy() from None
        finally:
            self.waiting -= 1
        return Place(self)

    def check(self) -> bool:
        """Return whether live regions should refresh less often. Raise TooBusy if the process is
        too slow even for that.
        """
        late = self.pulse.late()
        if late > TOO_SLOW:
            raise self._too_busy()
        return late > SLOW

    def release(self) -> None:
        """Let the next request in the queue enter."""
        self.working -= 1
        self._places.release()

    def _too_busy(self) -> TooBusy:
        self._refused += 1
        now = time.monotonic()
        if now - self._logged_at > _LOG_EVERY:
            log.warning("too busy: requests are rejected", extra={"refused": self._refused})
            self._refused, self._logged_at = 0, now
        return TooBusy()


def retry_after() -> str:
    """Return a random value for Retry-After, in seconds."""
    return str(random.randint(*_COME_BACK))  # noqa: S311 - spreads them, and hides nothing


class Place:
    """The place of a request that is worked on."""

    def __init__(self, admission: Admission) -> None:
        admission.working += 1
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Release the place for the next request; further calls do nothing."""
        if self._admission is not None:
            self._admission.release()
            self._admission = None
