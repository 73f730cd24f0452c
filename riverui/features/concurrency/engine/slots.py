"""The slots of one limited queue that a client has borrowed, and which of them are in use."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping

Lend = Callable[[Mapping[str, int]], Awaitable[Mapping[str, int]]]
"""Asks for so many slots by key in all, and returns how many there are now."""

_REFUSED_SECONDS = 0.25
"""How long a key is not asked for again after others had all of its slots, unless there is news."""


_REMEMBERED_SECONDS = 60.0
"""How long it is remembered that a key was refused: it may have no jobs any more."""


class Slots:
    """Counts slots in memory; `Lend` asks the database. One call that asks at a time."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        """Slots by key that jobs use, or are set aside for."""
        self._had: dict[str, int] = {}
        """Slots by key that are borrowed."""
        self._idle: dict[str, int] = {}
        """Slots by key that were not used at any time since the last look."""
        self._refused: dict[str, float] = {}
        """Until when no more slots of a key are asked for (monotonic)."""
        self._unsure: set[str] = set()
        """Keys of which the database may lend us more than we know of."""

    @property
    def keys(self) -> set[str]:
        """Keys of which slots are or may be borrowed."""
        return {*self._had, *self._unsure}

    @property
    def unsure(self) -> Collection[str]:
        """Keys of which what the database says need not hold: a change may be on its way."""
        return self._unsure

    @property
    def busy(self) -> bool:
        """Whether there is anything to give back sooner or later."""
        return bool(self._had or self._unsure)

    def free(self, key: str) -> int:
        """Return how many slots can be used without asking."""
        return self._had.get(key, 0) - self.used[key]

    def use(self, key: str) -> None:
        """Use a slot that is free."""
        self.used[key] += 1
        free = self.free(key)
        if free < self._idle.get(key, 0):
            self._idle[key] = free

    def release(self, key: str) -> None:
        """Take back a slot."""
        self.used[key] -= 1
        if self.used[key] <= 0:
            del self.used[key]

    def is_refused(self, key: str) -> bool:
        """Return whether others have all other slots of the key, as far as is known."""
        until = self._refused.get(key)
        return until is not None and until > time.monotonic()

    def was_refused(self, key: str) -> bool:
        """Return whether others had all other slots of the key when they were asked for last."""
        return key in self._refused

    def refused(self) -> list[str]:
        """Return the keys that have no free slot here, and no more elsewhere."""
        now = time.monotonic()
        return [key for key, until in self._refused.items() if until > now and self.free(key) <= 0]

    def ask_again(self) -> None:
        """Ask again for what was refused: slots may have become free."""
        self._refused = dict.fromkeys(self._refused, 0.0)

    async def borrow(self, more: Mapping[str, int], lend: Lend) -> None:
        """Have so many slots more of some keys than are in use, as far as there are any; on the
        way, give back those of all other keys that are not in use.
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
        """Take note of how many slots of some keys there are now."""
        self._unsure -= slots.keys()
        for key, count in slots.items():
            if count:
                self._had[key] = count
            else:
                self._had.pop(key, None)

    def compare(self, slots: Mapping[str, int]) -> None:
        """Doubt what is known of the keys of which the database has lent us more than we know of,
        given all that it has.
        """
        self._unsure |= {key for key, count in slots.items() if count > self._had.get(key, 0)}

    async def give_back_idle(self, lend: Lend) -> None:
        """Give back the slots that were not used since the last time."""
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
        """Begin anew with slots for these jobs at work, and give back all others; `lend` must give
        all that it is asked for.
        """
        wanted = {**dict.fromkeys(self.keys, 0), **used}
        self._refused.clear()
        self._idle.clear()
        if wanted:
            await self._set(wanted, lend)

    def forget(self) -> None:
        """Forget what was borrowed: the database has taken it back."""
        self._had.clear()
        self._idle.clear()
        self._refused.clear()
        self._unsure.clear()

    async def _set(self, wanted: Mapping[str, int], lend: Lend) -> None:
        # Until there is an answer, the fewer count: the database may have written that or not.
        for key, count in wanted.items():
            if count < self._had.get(key, 0):
                self._had[key] = count
        self._unsure |= wanted.keys()
        got = await lend(wanted)
        self.lent({key: got.get(key, 0) for key in wanted})
