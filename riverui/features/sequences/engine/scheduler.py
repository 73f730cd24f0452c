"""Moves on sequences that are stuck: the leader's safety net."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.engine.lead.maintenance.service import BatchSize, ServiceContext
from riverui.features.sequences.store import SequenceStore

_MAX_ROUNDS = 10
"""Intervals without a round after which another client may have led; then all keys are read once,
not a part in each round.
"""
_REST = 5
"""Intervals until the next read after one that found no key at all."""
_REST_WITHOUT_TABLES = 60
"""Intervals between two checks for the tables while they are missing."""


class SequenceScheduler:
    """Moves on keys whose head was ended or removed by a program without riverui's sequences (Go's
    River, River UI, SQL), and deletes keys that are no longer used.

    Each round reads all keys without a head, which are few and have an index, and a part of the
    others, in the order of their names. It reads no jobs except their heads. While there are no
    sequences, it pauses.
    """

    name = "sequence scheduler"

    def __init__(
        self,
        context: ServiceContext,
        interval: timedelta,
        *,
        size: BatchSize | None = None,
    ) -> None:
        self._after = ""
        """The key that was read last."""
        self._all_at_once = False
        """Whether one read covered all keys."""
        self._context = context
        self._each = interval
        self._intervals = 1
        """Time from this round to the next."""
        self._last: float | None = None
        self._size = size or BatchSize(1_000, 100)

    @property
    def interval(self) -> timedelta:
        """Return the time between this round and the next."""
        return self._each * self._intervals

    async def run_once(self) -> int:
        """Do one round, and return how many keys were changed."""
        async with self._context.executor() as executor:
            there = await SequenceStore.installed(executor)
        if not there:
            self._intervals = _REST_WITHOUT_TABLES
            return 0
        self._intervals = 1
        return await self._round()

    async def _round(self) -> int:
        context, now = self._context, self._context.now()
        gap = self._each.total_seconds() * _MAX_ROUNDS
        whole = self._last is None or now - self._last > gap
        self._last = now
        changed = 0 if self._all_at_once else await self._sweep_all()
        if whole:
            self._after = ""
        while True:
            changed += await self._look()
            if not whole or not self._after:
                break
            await context.timing.pause()
        if changed:
            context.logger.debug("%s: %d keys changed", self.name, changed)
        return changed

    async def _sweep_all(self) -> int:
        """Move on all keys without a head."""
        changed, after = 0, ""
        while True:
            with self._size.measured() as most:
                async with self._context.executor() as executor:
                    found = SequenceStore(executor)
                    keys = await found.sequence_dry_list(after=after, limit=most)
                changed += await self._sweep(keys)
            if len(keys) < most:
                return changed
            after = keys[-1]
            await self._context.timing.pause()

    async def _sweep(self, keys: Sequence[str]) -> int:
        if not keys:
            return 0
        async with self._context.transaction() as transaction:
            return await SequenceStore(transaction).sequence_sweep(keys)

    async def _look(self) -> int:
        """Read the heads of the next keys."""
        first = not self._after
        with self._size.measured() as most:
            async with self._context.executor() as executor:
                found = SequenceStore(executor)
                looks = await found.sequence_list_heads(after=self._after, limit=most)
            changed = 0
            if self._all_at_once:
                changed += await self._sweep([look.key for look in looks if look.dry])
            if due := [look.key for look in looks if look.due]:
                async with self._context.transaction() as transaction:
                    changed += len(await SequenceStore(transaction).sequence_advance(due))
        self._after = looks[-1].key if len(looks) == most else ""
        self._all_at_once = first and not self._after
        if self._all_at_once and not looks:
            self._intervals = _REST
        return changed
