"""Shared renderings: refreshes of live regions with the same key are rendered once.

A rendering is made from its key alone, so it contains nothing of a viewer but what is in the key:
the address, the fragment, rights and preferences.
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

from riverui.web.http.cancelling import cancel_all
from riverui.web.view.preferences import LIVE_SECONDS, Preferences

_SHARE = 0.95
"""Share of a live region's interval for which a rendering is reused: a single viewer never gets the
same one twice, and of many at random times every twentieth causes an extra one.
"""
_REST = 2.0
"""A rendering is reused for at least this multiple of its duration: at most half of the time is
spent on rendering one view, however slow the database is.
"""
_SLOW = 3.0
"""How many times longer a rendering is reused while the process is slow and a new one
takes long.
"""
_PAUSE = 0.25
"""Seconds between the starts of two renderings of the same view, however many actions there are:
requests in between wait for the second.
"""
_LONGEST = max(LIVE_SECONDS)
"""Seconds after which no rendering is reused."""
_LEVEL = 4
"""Compression level: half the work of the usual 9, and a tenth more bytes."""
_TICKING = re.compile(rb'(<time datetime="[^>]*>|<span data-since="[^>]*>)[^<]*')
"""Times, whose text the page itself keeps up to date."""

Headers = tuple[tuple[bytes, bytes], ...]


class RefreshKey(Struct, frozen=True, kw_only=True):
    """All inputs of a rendering."""

    base: str
    """Path at which the dashboard is mounted, unquoted."""
    path: str
    query: bytes
    target: bytes
    """The element that the response replaces, as htmx names it."""
    rights: frozenset[str]
    read_only: str
    """Why the database accepts no changes; empty if it does."""
    preferences: Preferences


class RefreshLimits(Struct, frozen=True, kw_only=True):
    """Limits of the cache of renderings."""

    entries: int = 1_000
    """As many as one process can render within two seconds, and more than people view."""
    bytes: int = 32 * 1024 * 1024
    """Of all renderings together. A list of 100 jobs has some 80 kB."""


class Rendering:
    """A rendered response: its body, compressed once, and its ETag."""

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
        """Return whether it is new enough for an interval of so many seconds."""
        return now - self.began <= max(_SHARE * seconds, _REST * self.took)

    @property
    def etag(self) -> bytes:
        """Return the ETag. Renderings that differ only in relative times have the same."""
        if not self._etag:
            stable = _TICKING.sub(rb"\1", self.body)
            self._etag = b'W/"%s"' % hashlib.blake2b(stable, digest_size=12).hexdigest().encode()
        return self._etag

    @property
    def zipped(self) -> bytes:
        """Return the body as gzip."""
        if not self._zipped:
            self._zipped = gzip.compress(self.body, _LEVEL, mtime=0)
        return self._zipped

    @property
    def size(self) -> int:
        """Return an upper bound of its bytes."""
        return len(self.body) + (len(self.body) >> 1) + 2_000


class _Flight(Struct, frozen=True, kw_only=True):
    began: float
    """The earliest time at which its first query is sent."""
    task: asyncio.Task[Rendering | None]


class Refreshes:
    """The renderings of one dashboard that are in progress or cached."""

    def __init__(
        self,
        limits: RefreshLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or RefreshLimits()
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: OrderedDict[RefreshKey, Rendering] = OrderedDict()
        """In the order of creation."""
        self._bytes = 0
        self._flights: dict[RefreshKey, _Flight] = {}
        self._tasks: set[asyncio.Task[Rendering | None]] = set()
        self.refusal: Rendering | None = None
        """The response under overload."""
        self.kept = MappingProxyType(self._kept)
        """Cached renderings, the oldest first."""
        self._acted = -1e9
        """When something was last changed: renderings begun before are outdated."""

    async def answer(
        self,
        key: RefreshKey,
        make: Callable[[], Awaitable[Rendering | None]],
        seconds: float,
        *,
        slow: bool = False,
    ) -> Rendering | None:
        """Return the rendering for an interval of so many seconds.

        It is the cached one if new enough, else a new one, shared by all concurrent callers. It is
        finished even if the callers give up; if `slow`, they get the old one meanwhile. All of them
        get an exception of `make`; exceptions, None, and any status but 200 are not cached.
        """
        last, now = self._kept.get(key), self._clock()
        kept = last if last is not None and last.began > self._acted else None
        if kept is not None and kept.holds(now, seconds):
            return kept
        self._enter_loop()
        flight = self._flights.get(key)
        if flight is None or flight.began <= self._acted:
            # A fast series of actions must not render the same view continuously.
            pause = last.began + _PAUSE - now if last is not None else 0.0
            flight = self._start(key, make, max(0.0, pause))
        if slow and kept is not None and kept.holds(now, _SLOW * seconds):
            return kept
        return await asyncio.shield(flight.task)

    def expire(self) -> None:
        """Outdate all cached renderings, because something was changed."""
        self._acted = self._clock()

    async def close(self) -> None:
        """Cancel renderings in progress."""
        await cancel_all(self._tasks)

    def _enter_loop(self) -> None:
        # A task of a closed event loop would never end.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._flights, self._tasks = loop, {}, set()

    def _start(
        self, key: RefreshKey, make: Callable[[], Awaitable[Rendering | None]], pause: float
    ) -> _Flight:
        began = self._clock() + pause

        async def fly() -> Rendering | None:
            if pause:
                await asyncio.sleep(pause)
            rendering = await make()
            if rendering is not None and rendering.status == 200:
                rendering.began, rendering.took = began, self._clock() - began
                self._keep(key, rendering)
            return rendering

        task = asyncio.create_task(fly())
        flight = self._flights[key] = _Flight(began=began, task=task)
        # The event loop itself keeps no strong reference to tasks.
        self._tasks.add(task)

        def ended(task: asyncio.Task[Rendering | None]) -> None:
            self._tasks.discard(task)
            if self._flights.get(key) is flight:
                del self._flights[key]
            if not task.cancelled():
                # Mark the exception as retrieved, even if all callers have left.
                task.exception()

        task.add_done_callback(ended)
        return flight

    def _keep(self, key: RefreshKey, rendering: Rendering) -> None:
        self._drop(key)
        if rendering.size > self._limits.bytes:
            return
        self._kept[key] = rendering
        self._bytes += rendering.size
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
