"""Keeps one queue of a client to its limits.

A local limit is counted in memory. For a global one the client borrows slots from the database,
where they are counted for all clients, and its jobs use them in turn: a job that ends frees its
slot at once, for the next job of the same key, without any statement. Slots that are not used for
a moment go back.

What a client has borrowed is its own until it is declared dead for its silence (`heartbeats`). It
starts no job once that may have happened. Its signs of life come from a thread beside its event
loop, so that a job that blocks the loop costs no slots. After it was taken for dead, it counts the
jobs that still run before it starts others.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import WHOLE
from riverui.domain.queues import QueueRow
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.service import keep_running
from riverui.engine.waiting import pass_on_cancellation, within
from riverui.engine.work.candidate_fetch import WINDOW, Chooser, FetchedAtOnce
from riverui.errors import ConfigError, DatabaseUnavailable, RiveruiError, SchemaMissing
from riverui.features.concurrency.domain import ConcurrencyConfig, override_of
from riverui.features.concurrency.engine.slots import Slots
from riverui.features.concurrency.store import LeaseParams, LimitedFetchParams, LimitStore
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface import SQL, Executor
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.stores.candidates import Candidate
from riverui.storage.tables import MISSING, REMEDY, installed

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

T = TypeVar("T")

_APART = 8
"""Candidates for each one chosen, of which any may be where clients choose at the same time: some
eight of them seldom meet.
"""
_DEAD_SECONDS = 2.0
"""Between two looks whether a client was declared dead: what it had waits so long at most."""
_IDLE_KEYS_SECONDS = 60.0
"""Between two times that keys are forgotten which nobody uses."""
_IDLE_SECONDS = 0.25
"""For which a slot may be unused before it goes back: longer than the next fetch takes."""
_KEEP_IDLE = timedelta(minutes=10)
"""How long keys that nobody uses are kept: they would soon be made again."""
_LAST_SECONDS = 5.0
"""For which slots may take to go back at the end: without it they do when the client is forgotten.
"""
_LATE_FETCHES = 20
"""Fetches for which clients keep apart after two have asked for the same slot."""
_MOST_IDLE_KEYS = 5_000
"""Keys that one statement forgets."""
_MOST_KEYS_TOLD = 200
"""Keys of which a client tells how many jobs it runs: as many as a page shows."""
_NO_TABLE_SECONDS = 60.0
"""Until a table that was missing is asked for again."""
_SPARE = 10
"""Candidates beyond twice the room that are looked at where borrowing and claiming are one
statement: each costs it 15 µs, and where they do not do, more are looked at next.
"""
_STRAYS_SECONDS = 60.0
"""Between two looks whether the database has lent slots without our knowing: it does so where its
answer was lost, after which it is looked at once.
"""
_TELL_SECONDS = 10.0
"""Between two times that a client tells what it runs."""


class QueueLimit(Chooser):
    """Chooses as many jobs of each key as there are slots for."""

    def __init__(
        self, work: Producer, connection: DedicatedConnection, left: Callable[[], Awaitable[None]]
    ) -> None:
        self._begun = False
        """Whether the jobs at work are counted, by the limits as they are now."""
        self._configured = work.config.concurrency or ConcurrencyConfig()
        self._connection = connection
        self._dead_at: datetime | None = None
        """When the last client died whose slots were freed."""
        self._chose = False
        """Whether it has set slots aside in the fetch under way."""
        self._due: dict[str, float] = {}
        """When each thing that is done now and then is to be done again (monotonic)."""
        self._jobs: dict[tuple[int, int], str] = {}
        """The key of each attempt, by id and attempt."""
        self._late = 0
        """Fetches in which jobs are chosen out of their order, as others choose the same."""
        self._left = left
        self._fetched_by: ConcurrencyConfig | None = None
        """The limits as they were when the fetch under way began."""
        self._life: ClientLife | None = None
        """For which slots were borrowed."""
        self._limits = ConcurrencyConfig()
        self._lock = asyncio.Lock()
        self._logger = work.client.logger
        self._no_table_until = 0.0
        self._refused_override = ""
        self._short = False
        """Whether jobs may wait for a slot that one of ours has."""
        self._slots = Slots()
        self._task: asyncio.Task[None] | None = None
        self._told = False
        self._work = work

    # What the fetch asks

    @property
    def full(self) -> Collection[str]:
        """Keys of which no more jobs can run here now."""
        if not self._begun:
            return ()
        most = self._most_here
        full = [key for key, used in self._slots.used.items() if used >= most]
        return [*full, *self._slots.refused()] if self._global else full

    def enough(self, room: int) -> bool:
        """Return whether it need not borrow slots: how many depends on how many jobs wait."""
        return self._begun and (not self._global or self._slots.free("") >= room)

    @property
    def sure(self) -> bool:
        """Whether the slots of jobs that begin are still its own."""
        return not self._global or self._work.signs.trusted

    async def start(self, row: QueueRow) -> None:
        """Read the limits. SchemaMissing where there are global ones and no table for them."""
        if self._configured.global_limit:
            async with self._work.client.driver.autocommit() as executor:
                if not await installed(executor):
                    raise SchemaMissing(
                        f"Queue {self._work.name} has a global limit, which needs"
                        f" {MISSING}: run {REMEDY}"
                    )
        self.learn(row)

    def learn(self, row: QueueRow) -> None:
        """Keep to the limits that the queue's metadata sets, or else to the client's own."""
        try:
            limits = override_of(row.metadata)
            self._refused_override = ""
        except ConfigError as error:
            limits = None
            if str(error) != self._refused_override:
                self._refused_override = str(error)
                self._logger.warning(
                    "queue %s: its limits in the database cannot be read, the client's own count:"
                    " %s",
                    self._work.name,
                    error,
                )
        self._set(limits or self._configured)

    def news(self) -> None:
        """Ask again for slots that others had."""
        self._slots.ask_again()

    async def stop(self) -> None:
        """Give back all slots, but for those of jobs that were abandoned."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            try:
                await within(_LAST_SECONDS, self._say_farewell())
            except (RiveruiError, TimeoutError) as error:
                self._logger.info("queue %s: slots go back later: %s", self._work.name, error)
                self._work.signs.leave_behind()
        await self._left()

    def fetch_begins(self) -> None:
        """Remember by which limits jobs are read."""
        self._chose = False
        self._fetched_by = self._limits

    async def choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        """Return those for which there are slots, and use these."""
        async with self._lock:
            if self._limits is not self._fetched_by or (self._chose and not self._begun):
                # The next fetch begins by counting what this one has set aside slots for.
                return ()
            if not await self._is_ready():
                return ()
            if self._late:
                # Clients that fetch at once would ask for the same slots again.
                front = list(candidates[: _APART * room])
                random.shuffle(front)
                candidates = [*front, *candidates[len(front) :]]
            picked, more = self._pick(candidates, room)
            if more and not await self._borrow(more):
                return ()
            self._late = max(self._late - 1, 0)
            if any(self._slots.is_refused(key) for key in more):
                self._late = _LATE_FETCHES
            chosen = []
            for candidate in picked:
                key = candidate.keys[self.partition]
                if not self._global or self._slots.free(key) > 0:
                    self._slots.use(key)
                    chosen.append(candidate)
            self._chose |= bool(chosen)
            self._short |= len(chosen) < min(len(candidates), room)
            return chosen

    async def fetch(self, executor: Executor, params: JobFetchParams) -> FetchedAtOnce | None:
        """Choose, borrow and claim by one statement; see Chooser."""
        async with self._lock:
            if not await self._is_ready() or not self.at_once or self._life is None:
                return None
            slots = self._slots
            limited = LimitedFetchParams(
                life=self._life,
                partition=self.partition,
                most=self._global,
                most_here=self._most_here,
                used=dict(slots.used),
                full=[*self.full, *slots.unsure],
                window=WINDOW,
                looked_at=2 * params.limit + _SPARE,
            )
            try:
                found = await LimitStore(executor).job_fetch_limited(params, limited)
            except SchemaMissing:
                self._lacks_tables()
                return None
            except BaseException:
                # It may have borrowed slots of keys that are not known here.
                self._due["strays"] = 0.0
                raise
            if found is None:
                self._life_is_over()
                return None
            slots.lent(found.slots)
            for key in found.keys:
                slots.use(key)
            by = limited.partition
            candidates = [
                Candidate(row.id, row.kind, {by: key})
                for row, key in zip(found.rows, found.keys, strict=True)
            ]
            return FetchedAtOnce(candidates, found.rows, found.seen)

    def give_back(self, candidates: Sequence[Candidate]) -> None:
        """Free the slots of jobs that do not begin."""
        if self._begun:
            for candidate in candidates:
                self._slots.release(candidate.keys[self.partition])

    def begun(self, candidate: Candidate, row: JobRow) -> None:
        """Remember by which key a job is counted."""
        if self._begun:
            self._jobs[row.id, row.attempt] = candidate.keys[self.partition]

    def ended(self, row: JobRow) -> None:
        """Free the slot of a job that is over."""
        if not self._jobs:
            return
        key = self._jobs.pop((row.id, row.attempt), None)
        if key is None:
            return
        slots = self._slots
        full = slots.used[key] >= self._most_here or slots.was_refused(key)
        slots.release(key)
        if self._short or full:
            self._short = False
            self._work.wake()

    # Choosing

    @property
    def _global(self) -> int:
        """The global limit, 0 where there is none, or no tables for it."""
        return self._limits.global_limit if time.monotonic() >= self._no_table_until else 0

    @property
    def _most_here(self) -> int:
        """Jobs of one key that this client may run, whatever others do."""
        limits = [most for most in (self._global, self._limits.local_limit) if most]
        return min(limits, default=2**31)

    def _pick(
        self, candidates: Sequence[Candidate], room: int
    ) -> tuple[list[Candidate], dict[str, int]]:
        """Return candidates that may run as far as is known here, and of which keys how many slots
        have to be had for them besides those in use.
        """
        by, most, slots = self.partition, self._most_here, self._slots
        picked: list[Candidate] = []
        counts: Counter[str] = Counter()
        borrow: set[str] = set()
        shared = self._global
        for candidate in candidates:
            if len(picked) >= room:
                break
            key = candidate.keys[by]
            count = counts[key]
            if slots.used[key] + count >= most:
                continue
            if shared and count >= slots.free(key):
                if slots.is_refused(key):
                    continue
                borrow.add(key)
            counts[key] = count + 1
            picked.append(candidate)
        return picked, {key: counts[key] for key in borrow}

    async def _is_ready(self) -> bool:
        """Return whether jobs may be started; count those at work first, where that is due."""
        signs = self._work.signs
        if self._global and signs.life is None and not await self._call(installed):
            self._lacks_tables()
        if self._global and (not signs.trusted or signs.life is None):
            return False
        if self._begun and (not self._global or self._life == signs.life):
            return True
        try:
            await self._begin()
        except SchemaMissing:
            self._lacks_tables()
        return self._begun

    async def _borrow(self, more: Mapping[str, int]) -> bool:
        """Borrow slots, and return whether those that there are now may be used."""
        try:
            await self._slots.borrow(more, self._lend)
        except SchemaMissing:
            self._lacks_tables()
        return self._begun and self.sure

    def _lacks_tables(self) -> None:
        """Do without the global limit for now, which somebody has set in the queue's metadata."""
        if not self._told:
            self._logger.warning(
                "queue %s: its global limit is not kept: it needs %s, run `%s`",
                self._work.name,
                MISSING,
                REMEDY,
            )
        self._told = True
        self._begun = False
        self._life = None
        self._slots.forget()
        self._no_table_until = time.monotonic() + _NO_TABLE_SECONDS

    async def _begin(self) -> None:
        """Count the jobs at work, and have slots for them whatever others have."""
        limits, signs, by = self._limits, self._work.signs, self.partition
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
        self._slots.used = Counter(self._jobs.values())
        if self._life != signs.life:
            self._slots.forget()
            self._life = signs.life
            # What an earlier life has borrowed may still stand there.
            self._dead_at = None
        if self._life is not None:
            used = self._slots.used if self._global else {}
            await self._slots.reset(used, lambda wanted: self._lend(wanted, forced=True))
        known = not self._global or self._life is not None
        self._begun = known and limits is self._limits

    async def _lend(self, wanted: Mapping[str, int], *, forced: bool = False) -> Mapping[str, int]:
        life = self._life
        assert life is not None
        params = LeaseParams(
            life=life, queue=self._work.name, most=self._global, wanted=wanted, forced=forced
        )
        got = await self._call(lambda executor: LimitStore(executor).limit_lease(params))
        if got is None:
            self._life_is_over()
            return {}
        return got

    def _life_is_over(self) -> None:
        """Take note of having been declared dead: nothing is its own any more. The next life begins
        by counting.
        """
        self._life = None
        self._begun = False

    async def _call(self, statement: Callable[[Executor], Awaitable[T]]) -> T:
        return await self._connection.call(statement)

    # Keeping house

    def _set(self, limits: ConcurrencyConfig) -> None:
        if limits == self._limits:
            return
        if limits.global_limit and SQL not in self._work.client.driver.capabilities:
            limits = replace(limits, global_limit=0)
        self._logger.info("queue %s: %s", self._work.name, _words(limits))
        self._limits = limits
        self._begun = False
        self.partition = limits.partition
        self.blind = limits.partition.whole
        self.active = limits.limits
        self.at_once = bool(limits.global_limit) and not limits.partition.whole
        if self.active and self._task is None:
            self._task = asyncio.create_task(
                keep_running(f"limits of queue {self._work.name}", self._run, self._logger),
                name=f"riverui limits of queue {self._work.name}",
            )
        if not self.active:
            self._jobs.clear()
            self._slots.used.clear()
        self._due.clear()
        self._work.wake()

    async def _run(self) -> None:
        """Give back slots that are not used, and do what is due, until cancelled."""
        while True:
            pass_on_cancellation()
            await asyncio.sleep(_IDLE_SECONDS)
            try:
                await self._keep_house()
            except RiveruiError as error:
                # Fetching meets the same, and tells.
                self._logger.debug("queue %s: limits: %s", self._work.name, error)

    async def _keep_house(self) -> None:
        if self.active and not self._begun:
            await self._count_unasked()
        if self._global and self._life is not None and self._is_due("strays", _STRAYS_SECONDS):
            await self._find_strays(self._life)
        if self._slots.busy and self._life is not None:
            async with self._lock:
                if self.active and self._global:
                    await self._slots.give_back_idle(self._lend)
                elif self._life is not None:
                    await self._slots.reset({}, self._lend)
        if time.monotonic() < self._no_table_until:
            return
        if self._global and self._is_due("dead", _DEAD_SECONDS):
            await self._free_dead()
        # What is told has been counted by.
        if self._begun == self.active and self._is_due("told", _TELL_SECONDS):
            await self._tell()
        if self._global and self._is_due("idle keys", _IDLE_KEYS_SECONDS):
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
        async with self._lock:
            # What a fetch under way has chosen is not among the attempts yet.
            if not self._begun and not self._work.slots.expecting:
                await self._is_ready()

    def _is_due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + seconds
        return True

    async def _find_strays(self, life: ClientLife) -> None:
        """Have slots given back that the database has lent without our knowing."""
        async with self._lock:
            held = await self._call(
                lambda executor: LimitStore(executor).limit_held_list(life, self._work.name)
            )
            if life == self._life:
                self._slots.compare(held)

    async def _free_dead(self) -> None:
        """Free the slots of clients that were declared dead since the last look."""
        dead_at = await self._call(lambda executor: LimitStore(executor).limit_dead_at())
        if dead_at == self._dead_at and not self._is_due("unknown", _IDLE_KEYS_SECONDS):
            return
        async with self._work.client.driver.transaction() as transaction:
            await LimitStore(transaction).limit_free_dead()
        self._dead_at = dead_at

    async def _tell(self) -> None:
        """Tell how the queue is worked here, where there is a table for it."""
        client, name = self._work.client, self._work.name
        if SQL not in client.driver.capabilities:
            return
        running = dict(self._slots.used.most_common(_MOST_KEYS_TOLD))

        async def tell(executor: Executor) -> None:
            limits = LimitStore(executor)
            if not self.active:
                await limits.limited_producer_delete(client_id=client.id, queue=name)
                return
            await limits.limited_producer_upsert(
                client_id=client.id,
                queue=name,
                max_workers=self._work.config.max_workers,
                concurrency=self._limits.as_json(),
                running=json.dumps(running),
            )

        try:
            await self._call(tell)
        except SchemaMissing:
            self._due["told"] = time.monotonic() + _NO_TABLE_SECONDS

    async def _say_farewell(self) -> None:
        async with self._lock:
            if self._slots.busy:
                await self._give_back_all()
        self.active = False
        await self._tell()

    async def _give_back_all(self) -> None:
        """Give back all slots but those of jobs at work, on another connection where the first one
        is lost.
        """
        used = self._slots.used if self.active else {}
        for connects_again in (True, False):
            if self._life is None:
                return
            try:
                await self._slots.reset(used, lambda wanted: self._lend(wanted, forced=True))
            except DatabaseUnavailable:
                if not connects_again:
                    raise
            else:
                return


def _words(limits: ConcurrencyConfig) -> str:
    """Return the limits in words for the log."""
    parts = []
    if limits.global_limit:
        parts.append(f"{limits.global_limit} in all clients")
    if limits.local_limit:
        parts.append(f"{limits.local_limit} in this client")
    if not parts:
        return "as many jobs at once as there are workers"
    by = "" if limits.partition.whole else f", for each {limits.partition.words}"
    return f"at most {' and '.join(parts)} at once{by}"
