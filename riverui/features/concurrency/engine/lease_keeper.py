"""Borrows the slots of a global limit from the database, and sees to it that they go back.

What a client has borrowed is its own until it is declared dead for its silence (`heartbeats`). It
starts no job once that may have happened. Its signs of life come from a thread beside its event
loop, so that a job that blocks the loop costs no slots. After it was taken for dead, it counts the
jobs that still run before it starts others.
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
from riverui.storage.interface import SQL, Executor
from riverui.storage.tables import MISSING, REMEDY, installed

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

T = TypeVar("T")

_DEAD_SECONDS = 2.0
"""Between two checks whether a client was declared dead: its slots wait so long at most."""
_IDLE_KEYS_SECONDS = 60.0
"""Between two times that keys are forgotten which nobody uses."""
_IDLE_SECONDS = 0.25
"""For which a slot may be unused before it goes back: longer than the next fetch takes."""
_KEEP_IDLE = timedelta(minutes=10)
"""How long keys that nobody uses are kept: they would soon be made again."""
_MOST_IDLE_KEYS = 5_000
"""Keys that one statement forgets."""
_MOST_KEYS = 200
"""Keys of which a client reports how many jobs it runs: as many as a page shows."""
_NO_TABLE_SECONDS = 60.0
"""Until a table that was missing is asked for again."""
_STRAYS_SECONDS = 60.0
"""Between two checks whether the database has lent slots that are not known here, as it has if its
answer was lost: then the check is made at once.
"""
_REPORT_SECONDS = 10.0
"""Between two reports of what a client runs."""


class LeaseKeeper:
    """The slots of one queue: those that this client has borrowed, and the jobs that use them.

    `lock` is held by whoever borrows or gives back.
    """

    def __init__(self, work: Producer, connection: DedicatedConnection) -> None:
        self.begun = False
        """Whether the jobs at work are counted, by the limits as they are now."""
        self.life: ClientLife | None = None
        """For which slots were borrowed."""
        self.limits = ConcurrencyConfig()
        self.lock = asyncio.Lock()
        self.slots = Slots()
        self._connection = connection
        self._dead_at: datetime | None = None
        """When the last client died whose slots were freed."""
        self._due: dict[str, float] = {}
        """When each thing that is done now and then is to be done again (monotonic)."""
        self._jobs: dict[tuple[int, int], str] = {}
        """The key of each attempt, by id and attempt."""
        self._no_table_until = 0.0
        self._warned = False
        """Whether a missing table was logged."""
        self._work = work

    @property
    def most(self) -> int:
        """The global limit, 0 if there is none, or no table for it."""
        return self.limits.global_limit if time.monotonic() >= self._no_table_until else 0

    @property
    def sure(self) -> bool:
        """Whether the borrowed slots are certainly still this client's."""
        return not self.most or self._work.signs.trusted

    def keep_to(self, limits: ConcurrencyConfig) -> None:
        """Keep to other limits from now on: the jobs at work are counted anew."""
        self.limits = limits
        self.begun = False
        if not limits.limits:
            self._jobs.clear()
            self.slots.used.clear()
        self._due.clear()

    def began(self, row: JobRow, key: str) -> None:
        """Remember by which key a job is counted."""
        self._jobs[row.id, row.attempt] = key

    def ended(self, row: JobRow) -> str | None:
        """Return the key of a job that is over, and forget it; None for one that is not counted."""
        return self._jobs.pop((row.id, row.attempt), None)

    async def ready(self) -> bool:
        """Return whether jobs may be started; count those at work first, if that is due."""
        signs = self._work.signs
        if self.most and signs.life is None and not await self._call(installed):
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
        """Borrow slots, and return whether those that there are now may be used."""
        try:
            await self.slots.borrow(more, self._lend)
        except SchemaMissing:
            self.lacks_tables()
        return self.begun and self.sure

    def life_is_over(self) -> None:
        """Forget the life that was declared dead, with all slots. The next one begins by counting
        the jobs at work.
        """
        self.life = None
        self.begun = False

    def lacks_tables(self) -> None:
        """Do without a global limit, which somebody has set in the queue's metadata, for now."""
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
        """Look soon for slots of keys that are not known here: a statement may have borrowed some
        though its answer was lost.
        """
        self._due["strays"] = 0.0

    async def run(self) -> None:
        """Give back slots that are not used, and do what is due, until cancelled."""
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
                    before=before, limit=_MOST_IDLE_KEYS
                )
            )

    async def _count_unasked(self) -> None:
        """Count by changed limits what is at work where no fetch does it: all workers may be busy
        for long, and other clients go by what is counted.
        """
        async with self.lock:
            # What a fetch under way has chosen is not among the attempts yet.
            if not self.begun and not self._work.slots.expecting:
                await self.ready()

    def _is_due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + seconds
        return True

    async def _find_strays(self, life: ClientLife) -> None:
        """Have slots given back that the database has lent and that are not known here."""
        async with self.lock:
            held = await self._call(
                lambda executor: LimitStore(executor).limit_held_list(life, self._work.name)
            )
            if life == self.life:
                self.slots.compare(held)

    async def _free_dead(self) -> None:
        """Free the slots of clients that were declared dead since the last look."""
        dead_at = await self._call(lambda executor: LimitStore(executor).limit_dead_at())
        if dead_at == self._dead_at and not self._is_due("unknown", _IDLE_KEYS_SECONDS):
            return
        async with self._work.client.driver.transaction() as transaction:
            await LimitStore(transaction).limit_free_dead()
        self._dead_at = dead_at

    async def _report(self) -> None:
        """Write how the queue is worked here, if there is a table for it."""
        client, name = self._work.client, self._work.name
        if SQL not in client.driver.capabilities:
            return
        running = dict(self.slots.used.most_common(_MOST_KEYS))

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
        """Give back all slots but those of jobs at work, and report the queue no longer."""
        async with self.lock:
            if self.slots.busy:
                await self._give_back_all()
        self.limits = ConcurrencyConfig()
        await self._report()

    async def _give_back_all(self) -> None:
        """Give back all slots but those of jobs at work, on another connection where the first one
        is lost.
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
        """Count the jobs at work, and have slots for them whatever others have."""
        limits, signs, by = self.limits, self._work.signs, self.limits.partition
        await self._work.slots.settled()
        attempts = self._work.slots.attempts
        rows = [attempt.row for attempt in attempts.values()]
        keys: Mapping[int, str] = dict.fromkeys([row.id for row in rows], "")
        if rows and by != WHOLE:
            ids = [row.id for row in rows]
            keys = await self._call(lambda executor: LimitStore(executor).job_key_list(ids, by))
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
            # What an earlier life has borrowed may still stand there.
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
