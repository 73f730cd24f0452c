"""How many requests for something to look at are worked on at once. Others wait in line for a
moment, and those for whom the line is too long are told so at once: a server that takes on
everything answers nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import timedelta

from riverui.errors import TooBusy

log = logging.getLogger("riverui.http")

_TELL = 10.0
"""Seconds between two lines of the log that tell of those who were sent away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionLimits:
    """How much one process takes on."""

    working: int = 16
    """Requests worked on at once: enough to keep a processor and a pool of connections busy."""
    waiting: int = 128
    """Requests in line, beyond which the next one is sent away."""
    refreshes: int = 32
    """The same for what live regions ask for by themselves, so that people come first."""
    patience: timedelta = timedelta(seconds=4)
    """Longest wait in line."""


class Admission:
    """The line before one dashboard."""

    def __init__(self, limits: AdmissionLimits | None = None) -> None:
        self._limits = limits or AdmissionLimits()
        self._places = asyncio.Semaphore(self._limits.working)
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
            async with asyncio.timeout(self._limits.patience.total_seconds()):
                await self._places.acquire()
        except TimeoutError:
            raise self._too_busy() from None
        finally:
            self.waiting -= 1
        return Place(self)

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
