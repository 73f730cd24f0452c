"""Enforces the limits of one queue in a client.

A local limit is counted in memory. For a global one the client borrows slots from the database,
which counts them for all clients, and its jobs share them: a finished job frees its slot at once
for the next job of the same key, without a statement. Slots that stay unused for a moment are
returned.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from riverui.domain.jobs import JobRow
from riverui.domain.queues import QueueRow
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.service import keep_running
from riverui.engine.waiting import within
from riverui.engine.work.candidate_fetch import WINDOW, Chooser, FetchedAtOnce
from riverui.errors import ConfigError, RiveruiError, SchemaMissing
from riverui.features.concurrency.domain import ConcurrencyConfig, override_of
from riverui.features.concurrency.engine.lease_keeper import LeaseKeeper
from riverui.features.concurrency.store import LimitedFetchParams, LimitStore
from riverui.storage.interface import SQL, Executor
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.stores.candidates import Candidate
from riverui.storage.tables import MISSING, REMEDY

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

T = TypeVar("T")

_APART = 8
"""Candidates for each job to choose, picked at random while clients choose at the same time: with
eight they seldom collide.
"""
_LAST_SECONDS = 5.0
"""Seconds that returning slots may take on stop; otherwise they are freed when the client is
forgotten.
"""
_LATE_FETCHES = 20
"""Fetches for which clients spread their choices after two have asked for the same slot."""
_SPARE = 10
"""Candidates read beyond twice the free slots when borrowing and claiming are one statement. Each
costs it 15 µs; if they do not suffice, more are read next.
"""


class QueueLimit(Chooser):
    """Chooses as many jobs of each key as there are slots."""

    def __init__(
        self, work: Producer, connection: DedicatedConnection, left: Callable[[], Awaitable[None]]
    ) -> None:
        self._configured = work.config.concurrency or ConcurrencyConfig()
        self._keeper = LeaseKeeper(work, connection)
        self._chose = False
        """Whether the fetch in progress has set slots aside."""
        self._late = 0
        """Fetches left in which jobs are chosen out of order, as others choose the same ones."""
        self._left = left
        self._fetched_by: ConcurrencyConfig | None = None
        """The limits when the fetch in progress began."""
        self._logger = work.client.logger
        self._refused_override = ""
        self._short = False
        """Whether jobs may be waiting for a slot that this client holds."""
        self._task: asyncio.Task[None] | None = None
        self._work = work

    @property
    def full(self) -> Collection[str]:
        """Keys of which this client can run no more jobs now."""
        if not self._keeper.begun:
            return ()
        most = self._most_here
        full = [key for key, used in self._keeper.slots.used.items() if used >= most]
        return [*full, *self._keeper.slots.refused()] if self._keeper.most else full

    def can_decide(self, room: int) -> bool:
        """Return whether it need not borrow slots: how many depends on how many jobs wait."""
        return self._keeper.begun and (not self._keeper.most or self._keeper.slots.free("") >= room)

    @property
    def sure(self) -> bool:
        """Whether the slots of starting jobs still belong to this client."""
        return self._keeper.sure

    async def start(self, row: QueueRow) -> None:
        """Read the limits. Raise SchemaMissing for global limits without their table."""
        if self._configured.global_limit:
            async with self._work.client.driver.autocommit() as executor:
                if not await LimitStore.installed(executor):
                    raise SchemaMissing(
                        f"Queue {self._work.name} has a global limit, which needs"
                        f" {MISSING}: run {REMEDY}"
                    )
        self.learn(row)

    def learn(self, row: QueueRow) -> None:
        """Apply the limits from the queue's metadata, or else the client's own."""
        try:
            limits = override_of(row.metadata)
            self._refused_override = ""
        except ConfigError as error:
            limits = None
            if str(error) != self._refused_override:
                self._refused_override = str(error)
                self._logger.warning(
                    "queue %s: its limits in the database cannot be read, using the client's own:"
                    " %s",
                    self._work.name,
                    error,
                )
        self._set(limits or self._configured)

    def news(self) -> None:
        """Ask again for slots that others held."""
        self._keeper.slots.ask_again()

    async def stop(self) -> None:
        """Return all slots except those of abandoned jobs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self.active = False
            try:
                await within(_LAST_SECONDS, self._keeper.close())
            except (RiveruiError, TimeoutError) as error:
                self._logger.info("queue %s: slots are returned later: %s", self._work.name, error)
                self._work.signs.leave_behind()
        await self._left()

    def fetch_begins(self) -> None:
        """Remember the limits under which jobs are read."""
        self._chose = False
        self._fetched_by = self._keeper.limits

    async def choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        """Return the jobs that get a slot, and mark these slots as used."""
        async with self._keeper.lock:
            if self._keeper.limits is not self._fetched_by or (
                self._chose and not self._keeper.begun
            ):
                # The next fetch begins by counting the jobs for which this one has set slots aside.
                return ()
            if not await self._keeper.ready():
                return ()
            if self._late:
                # Clients that fetch at the same time would ask for the same slots again.
                front = list(candidates[: _APART * room])
                random.shuffle(front)
                candidates = [*front, *candidates[len(front) :]]
            picked, more = self._pick(candidates, room)
            if more and not await self._keeper.borrow(more):
                return ()
            self._late = max(self._late - 1, 0)
            if any(self._keeper.slots.is_refused(key) for key in more):
                self._late = _LATE_FETCHES
            chosen = []
            for candidate in picked:
                key = candidate.keys[self.partition]
                if not self._keeper.most or self._keeper.slots.free(key) > 0:
                    self._keeper.slots.use(key)
                    chosen.append(candidate)
            self._chose |= bool(chosen)
            self._short |= len(chosen) < min(len(candidates), room)
            return chosen

    async def fetch(self, executor: Executor, params: JobFetchParams) -> FetchedAtOnce | None:
        """Choose, borrow and claim in one statement; see Chooser."""
        async with self._keeper.lock:
            if not await self._keeper.ready() or not self.at_once or self._keeper.life is None:
                return None
            slots = self._keeper.slots
            limited = LimitedFetchParams(
                life=self._keeper.life,
                partition=self.partition,
                most=self._keeper.most,
                most_here=self._most_here,
                used=dict(slots.used),
                full=[*self.full, *slots.unsure],
                window=WINDOW,
                looked_at=2 * params.limit + _SPARE,
            )
            try:
                found = await LimitStore(executor).job_fetch_limited(params, limited)
            except SchemaMissing:
                self._keeper.lacks_tables()
                return None
            except BaseException:
                # The statement may have borrowed slots of keys unknown to this client.
                self._keeper.look_for_strays()
                raise
            if found is None:
                self._keeper.life_is_over()
                return None
            self._short |= found.seen > len(found.rows)
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
        """Free the slots of jobs that do not start."""
        if self._keeper.begun:
            for candidate in candidates:
                self._keeper.slots.release(candidate.keys[self.partition])

    def begun(self, candidate: Candidate, row: JobRow) -> None:
        """Remember the key under which a job is counted."""
        if self._keeper.begun:
            self._keeper.began(row, candidate.keys[self.partition])

    def ended(self, row: JobRow) -> None:
        """Free the slot of a finished job."""
        key = self._keeper.ended(row)
        if key is None:
            return
        slots = self._keeper.slots
        full = slots.used[key] >= self._most_here or slots.was_refused(key)
        slots.release(key)
        if self._short:
            self._short = False
            self._work.refill()
        elif full:
            self._work.wake()

    @property
    def _most_here(self) -> int:
        """Jobs of one key that this client may run, whatever other clients do."""
        limits = [most for most in (self._keeper.most, self._keeper.limits.local_limit) if most]
        return min(limits, default=2**31)

    def _pick(
        self, candidates: Sequence[Candidate], room: int
    ) -> tuple[list[Candidate], dict[str, int]]:
        """Return the candidates that may run as far as this client knows, and by key how many slots
        are needed for them besides those in use.
        """
        by, most, slots = self.partition, self._most_here, self._keeper.slots
        picked: list[Candidate] = []
        counts: Counter[str] = Counter()
        borrow: set[str] = set()
        shared = self._keeper.most
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

    def _set(self, limits: ConcurrencyConfig) -> None:
        if limits == self._keeper.limits:
            return
        self._logger.info("queue %s: %s", self._work.name, _words(limits))
        self._keeper.keep_to(limits)
        self.partition = limits.partition
        self.blind = limits.partition.whole
        self.active = limits.limits
        # SQLite's statements are short, and wait for no network.
        one_statement = SQL in self._work.client.driver.capabilities
        self.at_once = bool(limits.global_limit) and not limits.partition.whole and one_statement
        if self.active and self._task is None:
            self._task = asyncio.create_task(
                keep_running(f"limits of queue {self._work.name}", self._keeper.run, self._logger),
                name=f"riverui limits of queue {self._work.name}",
            )
        self._work.wake()


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
