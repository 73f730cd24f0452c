"""Borrows the slots of a global limit from the database and returns them.

A client keeps what it borrowed until it is declared dead (see `heartbeats`), and starts no jobs
once that may have happened. Its heartbeats come from a thread beside its event loop, so that a job
that blocks the loop costs no slots. A client that was declared dead counts its running jobs before
it starts others.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import WHOLE
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.waiting import pass_on_cancellation
from riverui.errors import DatabaseUnavailable, RiveruiError, SchemaMissing
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.concurrency.engine.slots import Slots
from riverui.features.concurrency.store import LeaseParams, LimitStore
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface import Executor
from riverui.storage.stores.candidates import CandidateStore
from riverui.storage.tables import MISSING, REMEDY

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

T = TypeVar("T")

_DEAD_SECONDS = 2.0
"""Seconds between two checks for clients declared dead: their slots are unavailable for at most as
long.
"""
_IDLE_KEYS_SECONDS = 60.0
"""Seconds between two deletions of unused keys."""
_IDLE_SECONDS = 0.25
"""Seconds for which a slot may be unused before it is returned: longer than the next
fetch takes.
"""
_KEEP_IDLE = timedelta(minutes=10)
"""How long unused keys are kept, since they are often needed again."""
_MAX_IDLE_KEYS = 5_000
"""Keys deleted by one statement."""
_MAX_KEYS = 200
"""Keys for which a client reports its running jobs: as many as a page shows."""
_NO_TABLE_SECONDS = 60.0
"""Seconds until a missing table is looked for again."""
_STRAYS_SECONDS = 60.0
"""Seconds between two checks for slots that the database has lent to this client without its
knowledge, which happens if an answer was lost: in that case the check is made at once.
"""
_REPORT_SECONDS = 10.0
"""Seconds between two reports of what a client runs."""


class LeaseKeeper:
    """The slots of one queue: those this client has borrowed, and the jobs that use them.

    `lock` is held while borrowing or returning slots.
    """

    def __init__(self, work: Producer, connection: DedicatedConnection) -> None:
        self.begun = False
        """Whether the running jobs are counted under the current limits."""
        self.life: ClientLife | None = None
        """The life of the client for which slots were borrowed."""
        self.limits = ConcurrencyConfig()
        self.lock = asyncio.Lock()
        self.slots = Slots()
        self._connection = connection
        self._dead_at: datetime | None = None
        """When the last client died whose slots were freed."""
        self._due: dict[str, float] = {}
        """When each periodic task is due next (monotonic)."""
        self._jobs: dict[tuple[int, int], str] = {}
        """The key of each attempt, by id and attempt."""
        self._no_table_until = 0.0
        self._warned = False
        """Whether a missing table was logged."""
        self._work = work

    @property
    def most(self) -> int:
        """The global limit; 0 if unset, or if its table is missing."""
        return self.limits.global_limit if time.monotonic() >= self._no_table_until else 0

    @property
    def sure(self) -> bool:
        """Whether the borrowed slots certainly still belong to this client."""
        return not self.most or self._work.signs.trusted

    def keep_to(self, limits: ConcurrencyConfig) -> None:
        """Switch to new limits: the running jobs are counted again."""
        self.limits = limits
        self.begun = False
        if not limits.limits:
            self._jobs.clear()
            self.slots.used.clear()
        self._due.clear()

    def began(self, row: JobRow, key: str) -> None:
        """Remember the key under which a job is counted."""
        self._jobs[row.id, row.attempt] = key

    def ended(self, row: JobRow) -> str | None:
        """Return the key of a finished job and forget it; None if the job is not counted."""
        return self._jobs.pop((row.id, row.attempt), None)

    async def ready(self) -> bool:
        """Return whether jobs may be started; count the running ones first if that is due."""
        signs = self._work.signs
        if self.most and signs.life is None and not await self._call(LimitStore.installed):
            self.lacks_tables()
        if self.most and (not signs.trusted or signs.life is None):
            return False
        if self.begun and (not self.most or self.life == signs.life):
            return True
        try:
            await self._begin()
        except SchemaMissing:
            self.lacks_tables()
        return self.begun

    async def borrow(self, more: Mapping[str, int]) -> bool:
        """Borrow slots; return whether the current slots may be used."""
        try:
            await self.slots.borrow(more, self._lend)
        except SchemaMissing:
            self.lacks_tables()
        return self.begun and self.sure

    def life_is_over(self) -> None:
        """Forget the life that was declared dead and all its slots. The next life begins by
        counting the running jobs.
        """
        self.life = None
        self.begun = False

    def lacks_tables(self) -> None:
        """Ignore, for now, a global limit that was set in the queue's metadata."""
        if not self._warned:
            self._work.client.logger.warning(
                "queue %s: its global limit is not kept: it needs %s, run `%s`",
                self._work.name,
                MISSING,
                REMEDY,
            )
        self._warned = True
        self.begun = False
        self.life = None
        self.slots.forget()
        self._no_table_until = time.monotonic() + _NO_TABLE_SECONDS

    def look_for_strays(self) -> None:
        """Look soon for lent slots of unknown keys: a statement may have borrowed some although its
        answer was lost.
        """
        self._due["strays"] = 0.0

    async def run(self) -> None:
        """Return unused slots and do what is due, until cancelled."""
        while True:
            pass_on_cancellation()
            await asyncio.sleep(_IDLE_SECONDS)
            try:
                await self._keep_house()
            except RiveruiError as error:
                # Fetching meets the same error and logs it.
                self._work.client.logger.debug("queue %s: limits: %s", self._work.name, error)

    async def _keep_house(self) -> None:
        if self.limits.limits and not self.begun:
            await self._count_unasked()
        if self.most and self.life is not None and self._is_due("strays", _STRAYS_SECONDS):
            await self._find_strays(self.life)
        if self.slots.busy and self.life is not None:
            async with self.lock:
                if self.limits.limits and self.most:
                    await self.slots.give_back_idle(self._lend)
                elif self.life is not None:
                    await self.slots.reset({}, self._lend)
        if time.monotonic() < self._no_table_until:
            return
        if self.most and self._is_due("dead", _DEAD_SECONDS):
            await self._free_dead()
        if self.begun == self.limits.limits and self._is_due("report", _REPORT_SECONDS):
            await self._report()
        if self.most and self._is_due("idle keys", _IDLE_KEYS_SECONDS):
            before = self._work.client.clock() - _KEEP_IDLE
            await self._call(
                lambda executor: LimitStore(executor).limit_delete_idle(
                    before=before, limit=_MAX_IDLE_KEYS
                )
            )

    async def _count_unasked(self) -> None:
        """Count the running jobs under changed limits when no fetch does it: all workers may be
        busy for long, and other clients rely on the count.
        """
        async with self.lock:
            # Jobs chosen by a fetch in progress are not among the attempts yet.
            if not self.begun and not self._work.slots.expecting:
                await self.ready()

    def _is_due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + seconds
        return True

    async def _find_strays(self, life: ClientLife) -> None:
        """Return slots that the database has lent but this client does not know of."""
        async with self.lock:
            held = await self._call(
                lambda executor: LimitStore(executor).limit_held_list(life, self._work.name)
            )
            if life == self.life:
                self.slots.compare(held)

    async def _free_dead(self) -> None:
        """Free the slots of clients that were declared dead since the last check."""
        dead_at = await self._call(lambda executor: LimitStore(executor).limit_dead_at())
        if dead_at == self._dead_at and not self._is_due("unknown", _IDLE_KEYS_SECONDS):
            return
        async with self._work.client.driver.transaction() as transaction:
            await LimitStore(transaction).limit_free_dead()
        self._dead_at = dead_at

    async def _report(self) -> None:
        """Write how this client works the queue, if the table exists."""
        client, name = self._work.client, self._work.name
        running = dict(self.slots.used.most_common(_MAX_KEYS))

        async def write(executor: Executor) -> None:
            limits = LimitStore(executor)
            if not self.limits.limits:
                await limits.limited_producer_delete(client_id=client.id, queue=name)
                return
            await limits.limited_producer_upsert(
                client_id=client.id,
                queue=name,
                max_workers=self._work.config.max_workers,
                concurrency=self.limits.as_json(),
                running=json.dumps(running),
            )

        try:
            await self._call(write)
        except SchemaMissing:
            self._due["report"] = time.monotonic() + _NO_TABLE_SECONDS

    async def close(self) -> None:
        """Return all slots except those of running jobs, and stop reporting the queue."""
        async with self.lock:
            if self.slots.busy:
                await self._give_back_all()
        self.limits = ConcurrencyConfig()
        await self._report()

    async def _give_back_all(self) -> None:
        """Return all slots except those of running jobs, on another connection if the first one is
        lost.
        """
        used = self.slots.used if self.limits.limits else {}
        for connects_again in (True, False):
            if self.life is None:
                return
            try:
                await self.slots.reset(used, lambda wanted: self._lend(wanted, forced=True))
            except DatabaseUnavailable:
                if not connects_again:
                    raise
            else:
                return

    async def _begin(self) -> None:
        """Count the running jobs and take slots for them, however many other clients have."""
        limits, signs, by = self.limits, self._work.signs, self.limits.partition
        await self._work.slots.settled()
        attempts = self._work.slots.attempts
        rows = [attempt.row for attempt in attempts.values()]
        keys: Mapping[int, str] = dict.fromkeys([row.id for row in rows], "")
        if rows and by != WHOLE:
            ids = [row.id for row in rows]
            keys = await self._call(lambda executor: CandidateStore(executor).job_key_list(ids, by))
        still = {(attempt.row.id, attempt.row.attempt) for attempt in attempts.values()}
        self._jobs = {
            (row.id, row.attempt): keys[row.id]
            for row in rows
            if (row.id, row.attempt) in still and row.id in keys
        }
        self.slots.used = Counter(self._jobs.values())
        if self.life != signs.life:
            self.slots.forget()
            self.life = signs.life
            # The row may still hold what an earlier life has borrowed.
            self._dead_at = None
        if self.life is not None:
            used = self.slots.used if self.most else {}
            await self.slots.reset(used, lambda wanted: self._lend(wanted, forced=True))
        known = not self.most or self.life is not None
        self.begun = known and limits is self.limits

    async def _lend(self, wanted: Mapping[str, int], *, forced: bool = False) -> Mapping[str, int]:
        life = self.life
        assert life is not None
        params = LeaseParams(
            life=life, queue=self._work.name, most=self.most, wanted=wanted, forced=forced
        )
        got = await self._call(lambda executor: LimitStore(executor).limit_lease(params))
        if got is None:
            self.life_is_over()
            return {}
        return got

    async def _call(self, statement: Callable[[Executor], Awaitable[T]]) -> T:
        return await self._connection.call(statement)
