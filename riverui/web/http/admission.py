"""How many requests for something to look at are worked on at once. Others wait in line for a
moment, and those for whom the line is too long are told so at once: a server that takes on
everything answers nobody.
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
"""Seconds of waiting for a turn from which on live regions are asked to come back later than they
would: a page then takes a second.
"""
TOO_SLOW = 1.0
"""Seconds of waiting for a turn from which on live regions are sent away."""
_COME_BACK = (3, 8)
"""Seconds, from and to, after which they are to come back: not all at once again."""

_BEAT = 0.1
"""Seconds between two looks at how late it is."""
_BEATS = 3
"""Looks that have to agree: anything may keep a process busy, or from its processor, once."""
_TELL = 10.0
"""Seconds between two lines of the log that tell the same."""


class AdmissionLimits(Struct, frozen=True, kw_only=True):
    """How much one process takes on."""

    working: int = 16
    """Requests worked on at once: enough to keep a processor and a pool of connections busy."""
    waiting: int = 128
    """Requests in line, beyond which the next one is sent away."""
    refreshes: int = 32
    """The same for what live regions ask for by themselves, so that people come first."""
    longest_wait: timedelta = timedelta(seconds=4)
    """Longest wait in line."""


class Pulse:
    """Tells how long what is ready waits for its turn in the event loop.

    A page needs several turns, one for each answer of the database.
    """

    def __init__(self) -> None:
        self._beats: deque[float] = deque(maxlen=_BEATS)
        """Seconds by which the last beats were late."""
        self._due = self._told = -1e9
        self._asked = False
        self._beat: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def late(self) -> float:
        """Return the seconds by which each of the last beats was late at least: a single one that
        is means nothing. It beats only as long as somebody asks.
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
        """Return whether somebody asked lately."""
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
        if len(self._beats) == _BEATS and late > SLOW and loop.time() - self._told > _TELL:
            self._told = loop.time()
            log.warning("slow: %.1f s until what is ready gets its turn", late)


class Admission:
    """The line before one dashboard."""

    def __init__(self, limits: AdmissionLimits | None = None) -> None:
        self._limits = limits or AdmissionLimits()
        self._places = asyncio.Semaphore(self._limits.working)
        self.pulse = Pulse()
        self._refused = 0
        self._told = -1e9
        self.working = 0
        """Requests that are worked on."""
        self.waiting = 0
        """Requests in line."""

    async def enter(self, *, refresh: bool = False) -> Place:
        """Return a place once there is one, for a refresh or for what a person or a program asks.

        Raises TooBusy where that would take too long.
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
        """Return whether a live region is to come back later than it would. Raises TooBusy where
        even that is too much.
        """
        late = self.pulse.late()
        if late > TOO_SLOW:
            raise self._too_busy()
        return late > SLOW

    def release(self) -> None:
        """Let the next one in line enter."""
        self.working -= 1
        self._places.release()

    def _too_busy(self) -> TooBusy:
        self._refused += 1
        now = time.monotonic()
        if now - self._told > _TELL:
            log.warning("too busy: requests are sent away", extra={"refused": self._refused})
            self._refused, self._told = 0, now
        return TooBusy()


def later() -> str:
    """Return the seconds after which somebody is to come back, as Retry-After says it."""
    return str(random.randint(*_COME_BACK))  # noqa: S311 - spreads them, and hides nothing


class Place:
    """What a request holds while it is worked on."""

    def __init__(self, admission: Admission) -> None:
        admission.working += 1
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Give it to the next one; nothing more happens when it is called again."""
        if self._admission is not None:
            self._admission.release()
            self._admission = None
