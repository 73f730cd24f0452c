"""The slots of one limited queue that a client has borrowed, and which are in use."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping

Lend = Callable[[Mapping[str, int]], Awaitable[Mapping[str, int]]]
"""Requests a total number of slots by key; returns how many the client has now."""

_REFUSED_SECONDS = 0.25
"""Seconds until a key is asked for again after others had all of its slots, unless
there is news.
"""


_REMEMBERED_SECONDS = 60.0
"""Seconds for which a refused key is remembered: it may have no jobs any more."""


class Slots:
    """Counts slots in memory; `Lend` asks the database. Only one call may ask at a time."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        """Slots by key that jobs use or that are set aside for them."""
        self._had: dict[str, int] = {}
        """Borrowed slots by key."""
        self._idle: dict[str, int] = {}
        """Slots by key that were unused all the time since the last check."""
        self._refused: dict[str, float] = {}
        """Until when no more slots of a key are requested (monotonic)."""
        self._unsure: set[str] = set()
        """Keys of which the database may have lent more slots than are known."""

    @property
    def keys(self) -> set[str]:
        """Keys of which slots are or may be borrowed."""
        return {*self._had, *self._unsure}

    @property
    def unsure(self) -> Collection[str]:
        """Keys whose slots in the database may be out of date: a change may be in progress."""
        return self._unsure

    @property
    def busy(self) -> bool:
        """Whether there are slots to return sooner or later."""
        return bool(self._had or self._unsure)

    def free(self, key: str) -> int:
        """Return how many slots can be used without asking the database."""
        return self._had.get(key, 0) - self.used[key]

    def use(self, key: str) -> None:
        """Use a free slot."""
        self.used[key] += 1
        free = self.free(key)
        if free < self._idle.get(key, 0):
            self._idle[key] = free

    def release(self, key: str) -> None:
        """Release a slot."""
        self.used[key] -= 1
        if self.used[key] <= 0:
            del self.used[key]

    def is_refused(self, key: str) -> bool:
        """Return whether other clients hold all remaining slots of the key, as far as is known."""
        until = self._refused.get(key)
        return until is not None and until > time.monotonic()

    def was_refused(self, key: str) -> bool:
        """Return whether other clients held all remaining slots of the key at the last request."""
        return key in self._refused

    def refused(self) -> list[str]:
        """Return the keys without a free slot in this client or elsewhere."""
        now = time.monotonic()
        return [key for key, until in self._refused.items() if until > now and self.free(key) <= 0]

    def ask_again(self) -> None:
        """Allow requests for refused keys again: slots may have become free."""
        self._refused = dict.fromkeys(self._refused, 0.0)

    async def borrow(self, more: Mapping[str, int], lend: Lend) -> None:
        """Borrow up to so many slots of some keys beyond those in use; return the unused slots of
        all other keys by the same call.
        """
        wanted = {key: self.used[key] + count for key, count in more.items()}
        for key, had in self._had.items():
            if key not in wanted and had > self.used[key]:
                wanted[key] = self.used[key]
        await self._set(wanted, lend)
        until = time.monotonic() + _REFUSED_SECONDS
        for key in more:
            if self._had.get(key, 0) < wanted[key]:
                self._refused[key] = until
            else:
                self._refused.pop(key, None)

    def lent(self, slots: Mapping[str, int]) -> None:
        """Record how many slots of some keys the client has now."""
        self._unsure -= slots.keys()
        for key, count in slots.items():
            if count:
                self._had[key] = count
            else:
                self._had.pop(key, None)

    def compare(self, slots: Mapping[str, int]) -> None:
        """Mark as unsure the keys of which the database has lent more than is known, given all that
        it has lent.
        """
        self._unsure |= {key for key, count in slots.items() if count > self._had.get(key, 0)}

    async def give_back_idle(self, lend: Lend) -> None:
        """Return the slots that were unused since the last call."""
        wanted = {key: self.used[key] for key in self._unsure}
        for key, had in self._had.items():
            if idle := min(self._idle.get(key, 0), self.free(key)):
                wanted[key] = had - idle
        if wanted:
            await self._set(wanted, lend)
        before = time.monotonic() - _REMEMBERED_SECONDS
        self._refused = {key: until for key, until in self._refused.items() if until > before}
        self._idle = {key: free for key in self._had if (free := self.free(key)) > 0}

    async def reset(self, used: Mapping[str, int], lend: Lend) -> None:
        """Start over: keep the slots that these running jobs use, and give all others back to the
        database. `lend` must grant every slot that is asked for.
        """
        wanted = {**dict.fromkeys(self.keys, 0), **used}
        self._refused.clear()
        self._idle.clear()
        if wanted:
            await self._set(wanted, lend)

    def forget(self) -> None:
        """Forget all borrowed slots: the database has reclaimed them."""
        self._had.clear()
        self._idle.clear()
        self._refused.clear()
        self._unsure.clear()

    async def _set(self, wanted: Mapping[str, int], lend: Lend) -> None:
        # Until the answer arrives, count the smaller number: the database may or may not have
        # written it.
        for key, count in wanted.items():
            if count < self._had.get(key, 0):
                self._had[key] = count
        self._unsure |= wanted.keys()
        got = await lend(wanted)
        self.lent({key: got.get(key, 0) for key in wanted})
