"""Looks after sequences that nobody else has moved on: the leader's safety net."""

from __future__ import annotations

from datetime import timedelta

from riverui.actions.job_part import KnownTables
from riverui.engine.lead.maintenance.service import BatchSize, ServiceContext
from riverui.storage.interface import SEQUENCES
from riverui.storage.interface.sequences import SEQUENCE_TABLE

_MOST_ROUNDS = 10
"""Intervals without a round after which another client may have led: then all keys are looked at
once, not a part in each round.
"""


class SequenceScheduler:
    """Gives every key the next job whose head was ended, or removed, by somebody who knows of no
    sequences: Go's River, River UI, SQL. Forgets keys that nobody uses any more.

    Each round takes on all keys without a head, which are few and have an index, and a part of the
    others, one after the other in the order of their names. It reads no jobs but their heads.
    """

    name = "sequence scheduler"

    def __init__(
        self,
        context: ServiceContext,
        interval: timedelta,
        tables: KnownTables,
        *,
        size: BatchSize | None = None,
    ) -> None:
        self.interval = interval
        self._after = ""
        """The key that was looked at last."""
        self._context = context
        self._last: float | None = None
        self._size = size or BatchSize(1_000, 100)
        self._tables = tables

    async def run_once(self) -> int:
        """Do one round, and return how many keys it has changed."""
        context, now = self._context, self._context.now()
        async with context.executor() as executor:
            if SEQUENCE_TABLE.name not in await self._tables.names(executor):
                return 0
        gap = self.interval.total_seconds() * _MOST_ROUNDS
        whole = self._last is None or now - self._last > gap
        self._last = now
        changed = await self._sweep()
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

    async def _sweep(self) -> int:
        """Go through the keys without a head."""
        changed, after = 0, ""
        while True:
            with self._size.measured() as most:
                async with self._context.transaction() as transaction:
                    sequences = SEQUENCES.on(transaction)
                    keys = await sequences.sequence_dry_list(after=after, limit=most)
                    if keys:
                        changed += await sequences.sequence_sweep(keys)
            if len(keys) < most:
                return changed
            after = keys[-1]
            await self._context.timing.pause()

    async def _look(self) -> int:
        """Look at the heads of some keys, behind those of the last time."""
        with self._size.measured() as most:
            async with self._context.transaction() as transaction:
                sequences = SEQUENCES.on(transaction)
                looks = await sequences.sequence_look(after=self._after, limit=most)
                due = [look.key for look in looks if look.due]
                changed = await sequences.sequence_advance(due) if due else ()
        self._after = looks[-1].key if len(looks) == most else ""
        return len(changed)
