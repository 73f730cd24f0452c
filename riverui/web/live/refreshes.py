"""One drawing for everybody who looks at the same thing: what live regions ask for by themselves.

A drawing is made from its key alone, so nothing of a viewer is in it but what is in the key: the
address, the fragment, rights and preferences.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from types import MappingProxyType

from msgspec import Struct

from riverui.web.live.cancelling import cancel_all
from riverui.web.view.preferences import LIVE_SECONDS, Preferences

_SHARE = 0.95
"""Of the time between two refreshes, for which a drawing answers all: a viewer who is alone does
not get the same one again, and of many at random moments every twentieth costs one too many.
"""
_REST = 2.0
"""A drawing answers all for at least this many times as long as it took: no more than half of the
time is spent on one of them, however slow the database is.
"""
_SLOW = 3.0
"""How many times as old a drawing may be where all is slow, and a new one takes long."""
_PAUSE = 0.25
"""Seconds between the beginnings of two drawings of the same thing, however many actions there are:
who asks meanwhile waits for the second.
"""
_LONGEST = max(LIVE_SECONDS)
"""Seconds after which no drawing is good for anybody."""
_LEVEL = 4
"""Of compression: half the work of the usual 9, and a tenth more bytes."""
_TICKING = re.compile(rb'(<time datetime="[^>]*>|<span data-since="[^>]*>)[^<]*')
"""Times, whose words the page keeps up to date by itself."""

Headers = tuple[tuple[bytes, bytes], ...]


class RefreshKey(Struct, frozen=True, kw_only=True):
    """All that a drawing is made of."""

    base: str
    """Path at which the dashboard is mounted, unquoted."""
    path: str
    query: bytes
    target: bytes
    """The element that the answer goes into, as htmx names it."""
    rights: frozenset[str]
    read_only: str
    """Why the database takes no changes; empty where it does."""
    preferences: Preferences


class RefreshLimits(Struct, frozen=True, kw_only=True):
    """How much is kept of drawings that are still good."""

    entries: int = 1_000
    """As many as one process can draw within two seconds, and more than people look at."""
    bytes: int = 32 * 1024 * 1024
    """Of all of them. A list of 100 jobs has some 80 kB."""


class Drawing:
    """An answer as it was drawn: whole, compressed once, and named by what is in it."""

    def __init__(self, status: int, headers: Headers, body: bytes, *, route: str) -> None:
        self.status = status
        self.route = route
        """Name of the route that answered."""
        self.headers = headers
        """Those that the page's own code set, without the length."""
        self.body = body
        self.began = self.took = 0.0
        self._etag = self._zipped = b""

    def holds(self, now: float, seconds: float) -> bool:
        """Return whether it is new enough for who asks every so many seconds."""
        return now - self.began <= max(_SHARE * seconds, _REST * self.took)

    @property
    def etag(self) -> bytes:
        """Return the name of what is shown. Two drawings that differ only in how long ago something
        was have the same.
        """
        if not self._etag:
            told = _TICKING.sub(rb"\1", self.body)
            self._etag = b'W/"%s"' % hashlib.blake2b(told, digest_size=12).hexdigest().encode()
        return self._etag

    @property
    def zipped(self) -> bytes:
        """Return the body as gzip."""
        if not self._zipped:
            self._zipped = gzip.compress(self.body, _LEVEL, mtime=0)
        return self._zipped

    @property
    def size(self) -> int:
        """Return the bytes that it takes at most."""
        return len(self.body) + (len(self.body) >> 1) + 2_000


class _Flight(Struct, frozen=True, kw_only=True):
    began: float
    """When the first query is sent at the earliest."""
    task: asyncio.Task[Drawing | None]


class Refreshes:
    """The drawings of one dashboard that are under way or still good."""

    def __init__(
        self,
        limits: RefreshLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or RefreshLimits()
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: OrderedDict[RefreshKey, Drawing] = OrderedDict()
        """In the order in which they were made."""
        self._bytes = 0
        self._flights: dict[RefreshKey, _Flight] = {}
        self._tasks: set[asyncio.Task[Drawing | None]] = set()
        self.refusal: Drawing | None = None
        """What is said where there is too much to do."""
        self.kept = MappingProxyType(self._kept)
        """What is still good, the oldest first."""
        self._acted = -1e9
        """When something was changed last: what was begun before is old."""

    async def answer(
        self,
        key: RefreshKey,
        make: Callable[[], Awaitable[Drawing | None]],
        seconds: float,
        *,
        slow: bool = False,
    ) -> Drawing | None:
        """Return what is shown to somebody who asks every so many seconds.

        That is the kept drawing where it is still good, else a new one, for which all who ask
        meanwhile wait together. It is made to its end whoever gives up waiting; where all is
        `slow`, they get the old one meanwhile. What `make` raises all of them get; that, None, and
        any status but 200 is not kept.
        """
        last, now = self._kept.get(key), self._clock()
        kept = last if last is not None and last.began > self._acted else None
        if kept is not None and kept.holds(now, seconds):
            return kept
        self._enter_loop()
        flight = self._flights.get(key)
        if flight is None or flight.began <= self._acted:
            # Actions that come fast do not have the same thing drawn all the time.
            pause = last.began + _PAUSE - now if last is not None else 0.0
            flight = self._start(key, make, max(0.0, pause))
        if slow and kept is not None and kept.holds(now, _SLOW * seconds):
            return kept
        return await asyncio.shield(flight.task)

    def expire(self) -> None:
        """Have all who ask from now on get a new drawing, as something was changed."""
        self._acted = self._clock()

    async def close(self) -> None:
        """Give up what is under way."""
        await cancel_all(self._tasks)

    def _enter_loop(self) -> None:
        # A task of a loop that is gone would never end.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._flights, self._tasks = loop, {}, set()

    def _start(
        self, key: RefreshKey, make: Callable[[], Awaitable[Drawing | None]], pause: float
    ) -> _Flight:
        began = self._clock() + pause

        async def fly() -> Drawing | None:
            if pause:
                await asyncio.sleep(pause)
            drawing = await make()
            if drawing is not None and drawing.status == 200:
                drawing.began, drawing.took = began, self._clock() - began
                self._keep(key, drawing)
            return drawing

        task = asyncio.create_task(fly())
        flight = self._flights[key] = _Flight(began=began, task=task)
        # The loop itself holds no task.
        self._tasks.add(task)

        def ended(task: asyncio.Task[Drawing | None]) -> None:
            self._tasks.discard(task)
            if self._flights.get(key) is flight:
                del self._flights[key]
            if not task.cancelled():
                # Known, even where all who waited have left.
                task.exception()

        task.add_done_callback(ended)
        return flight

    def _keep(self, key: RefreshKey, drawing: Drawing) -> None:
        self._drop(key)
        if drawing.size > self._limits.bytes:
            return
        self._kept[key] = drawing
        self._bytes += drawing.size
        oldest = self._clock() - _LONGEST
        while self._kept:
            key, first = next(iter(self._kept.items()))
            within = len(self._kept) <= self._limits.entries and self._bytes <= self._limits.bytes
            if within and first.began >= oldest:
                return
            self._drop(key)

    def _drop(self, key: RefreshKey) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped.size
