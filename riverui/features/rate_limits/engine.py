"""Limits how fast jobs of a queue start, in all clients together.

One statement takes the tokens for all jobs of a fetch out of buckets in the database
(`riverui_rate`), once the jobs are known to wait. Tokens of jobs that another client took meanwhile
are returned.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from riverui.domain.jobs import JobRow
from riverui.domain.queues import QueueRow
from riverui.engine.config import ClientConfig
from riverui.engine.lead.elector import steady_clock
from riverui.engine.lead.maintenance.service import MaintenanceService, ServiceContext
from riverui.engine.pilot import Feature
from riverui.engine.work.candidate_fetch import Chooser
from riverui.errors import ConfigError, RiveruiError
from riverui.features.rate_limits.buckets import Purse, fetch_again_in
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.rate_limits.store import BucketParams, RateStore, Take, Taken
from riverui.storage import tables
from riverui.storage.stores.candidates import Candidate

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

_BATCH = 1_000
"""Buckets that the leader reads in one statement: a few milliseconds."""
_BATCHES = 100
"""Maximum statements in one round of the leader."""
_MAX_KEYS = 20_000
"""Keys whose buckets a client caches before it drops the full ones: 4 MB."""
_TRIES = 3
"""Maximum requests for tokens in one choice; again after another client was faster."""


class RateLimits(Feature):
    """Enabled for queues with a `rate_limit`."""

    def __init__(self, config: ClientConfig) -> None:
        self._used = any(queue.rate_limit for queue in config.queues.values())

    def chooser(self, work: Producer) -> Chooser | None:
        """Return the chooser for the queue, if it has a rate limit."""
        limit = work.config.rate_limit
        return None if limit is None else RateChooser(work, limit)

    def services(self, context: ServiceContext) -> Sequence[MaintenanceService]:
        """Return the service that deletes full buckets."""
        return [RateCleaner(context)] if self._used else []


class RateChooser(Chooser):
    """Chooses as many jobs of one queue as there are tokens."""

    active = True

    def __init__(self, work: Producer, limit: RateLimit) -> None:
        self.partition = limit.partition
        self.looks_at = limit.weighs_args
        self.blind = limit.partition.whole and isinstance(limit.weight, int | float)
        self._backlog = False
        """Whether the last fetch found all the jobs that it had tokens for."""
        self._configured = limit
        self._due: dict[str, tuple[float, bool]] = {}
        """Key → when to try again, and whether its tokens are known for then, for keys whose jobs
        have to wait.
        """
        self._full_at: dict[str, float] = {}
        """Key → when its bucket is full, or later, as other clients may have taken more."""
        self._limit = limit
        self._logger: logging.Logger = work.client.logger
        self._odd: set[str] = set()
        """Kinds for which a failed weighing was logged."""
        self._returning: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._weights: dict[int, tuple[str, float]] = {}
        """Key and tokens of the jobs chosen in the current fetch."""
        self._work = work
        self._set(limit)

    @property
    def full(self) -> Collection[str]:
        """Return the keys whose next job has to wait for tokens."""
        now = steady_clock()
        for key, (due, known) in tuple(self._due.items()):
            if due <= now:
                del self._due[key]
                if not known:
                    self._full_at.pop(key, None)
        return self._due.keys()

    async def start(self, row: QueueRow) -> None:
        """Raise ConfigError if the table of buckets is missing."""
        driver = self._work.client.driver
        async with driver.autocommit() as executor:
            if not await RateStore.installed(executor):
                raise ConfigError(tables.message(f"rate_limit of queue {self._work.name!r} needs"))
        self.learn(row)

    def learn(self, row: QueueRow) -> None:
        """Apply the override from the queue's row."""
        limit = self._configured.overridden(row.metadata.text)
        if limit != self._limit:
            self._set(limit)
            # The database adjusts the buckets.
            self._due.clear()
            self._full_at.clear()
            self._work.wake()

    async def stop(self) -> None:
        """Return the remaining tokens."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._returning, return_exceptions=True)

    def can_decide(self, room: int) -> bool:
        """Return whether jobs are known to wait: tokens are taken for expected jobs, and returned
        for those that were not found.
        """
        return self._backlog

    async def choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        """Take the tokens of the candidates, and return those that got them."""
        # The buckets in the cache would miss what is returned in between.
        await asyncio.gather(*self._returning, return_exceptions=True)
        chosen: list[Candidate] = []
        purses: dict[str, Purse] = {}
        weighed: dict[str, list[float]] = defaultdict(list)
        for candidate in candidates:
            if len(chosen) >= room:
                break
            key = candidate.keys[self.partition]
            if (purse := purses.get(key)) is None:
                purse = purses[key] = self._purse(key)
            weight = self._weigh(candidate)
            if purse.take(weight):
                chosen.append(candidate)
                weighed[key].append(weight)
        got = await self._take(weighed)
        places: Counter[str] = Counter()
        taken = []
        for candidate in chosen:
            key = candidate.keys[self.partition]
            if (place := places[key]) < len(got[key]):
                self._weights[candidate.id] = (key, got[key][place])
                places[key] += 1
                taken.append(candidate)
        self._backlog = len(taken) > 0
        for key, purse in purses.items():
            if purse.waits_for is not None:
                self._wait(key, purse.waits_for)
        self._wake_in_time()
        return taken

    def give_back(self, candidates: Sequence[Candidate]) -> None:
        """Return the tokens of jobs that do not start."""
        tokens: dict[str, float] = defaultdict(float)
        self._backlog, now = False, steady_clock()
        for candidate in candidates:
            # Stand-ins have the id 0 and all weigh the same.
            key, weight = self._weights[candidate.id]
            if candidate.id:
                del self._weights[candidate.id]
            # Tokens of a bucket that may have been full since are lost: other clients may have
            # taken those that replaced them.
            if weight and self._full_at.get(key, 0.0) > now:
                tokens[key] += weight
        if tokens:
            task = asyncio.create_task(self._return(tokens), name="riverui rate limit")
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    def begun(self, candidate: Candidate, row: JobRow) -> None:
        """Record that a job's tokens are spent."""
        if candidate.id:
            del self._weights[candidate.id]

    async def _take(self, weighed: Mapping[str, list[float]]) -> dict[str, list[float]]:
        """Take the tokens of jobs, key by key; return the weights that were covered, from the first
        of each key.
        """
        got = {key: weights if not any(weights) else [] for key, weights in weighed.items()}
        wanted = {key: weights for key, weights in weighed.items() if not got[key]}
        for _ in range(_TRIES):
            if not wanted:
                break
            takes = [
                Take(
                    key, sum(weights), weights[0] if min(weights) == max(weights) else sum(weights)
                )
                for key, weights in wanted.items()
            ]
            async with self._work.client.driver.autocommit(
                timeout=self._work.client.limits.statement_timeout
            ) as executor:
                found = await RateStore(executor).rate_take(self._params, takes)
            tried, wanted = wanted, {}
            for key, weights in tried.items():
                got[key] = self._covered(key, weights, found[key])
                if not got[key] and (fewer := self._affordable(key, weights)):
                    wanted[key] = fewer
        return got

    def _covered(self, key: str, weights: list[float], found: Taken) -> list[float]:
        """Return the weights that were covered; if not all were, the key has to wait."""
        self._full_at[key] = steady_clock() + found.full_in
        if found.tokens >= sum(weights):
            return weights
        covered, left = [], found.tokens
        for weight in weights:
            if weight > left + 1e-6:
                rate = self._limit.rate
                self._wait(key, rate.due_in(rate.tokens(found.full_in), weight))
                break
            covered.append(weight)
            left -= weight
        return covered

    def _affordable(self, key: str, weights: list[float]) -> list[float]:
        purse = self._purse(key)
        fewer = []
        for weight in weights:
            if not purse.take(weight):
                break
            fewer.append(weight)
        return fewer

    def _purse(self, key: str) -> Purse:
        """Return the cached bucket of a key; other clients may have taken tokens since."""
        rate = self._limit.rate
        full_at = self._full_at.get(key)
        full_in = -rate.spare_seconds if full_at is None else full_at - steady_clock()
        return Purse(rate, rate.tokens(full_in))

    def _weigh(self, candidate: Candidate) -> float:
        try:
            return self._limit.weight_of(candidate.kind, candidate.keys)
        except Exception:
            if candidate.kind not in self._odd and len(self._odd) < _MAX_KEYS:
                self._odd.add(candidate.kind)
                self._logger.exception(
                    "queue %s: job %s (%s) could not be weighed, and counts as 1",
                    self._work.name,
                    candidate.id,
                    candidate.kind,
                )
            return 1.0

    def _wait(self, key: str, seconds: float) -> None:
        """Have a key wait so long, or until other clients may have returned tokens of it."""
        most = self._work.client.limits.look_seconds
        self._due[key] = steady_clock() + min(seconds, most), seconds <= most

    def _wake_in_time(self) -> None:
        """Fetch the queue when the next waiting job may start."""
        if len(self._full_at) > _MAX_KEYS:
            now = steady_clock()
            self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due:
            due_in = max(0.0, min(self._due.values())[0] - steady_clock())
            seconds = fetch_again_in(self._limit.rate, due_in, self._work.cooldown)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._work.fetch_now)

    async def _return(self, tokens: Mapping[str, float]) -> None:
        rate = self._limit.rate
        try:
            async with self._work.client.driver.autocommit() as executor:
                await RateStore(executor).rate_give_back(self._params, tokens)
        except RiveruiError as error:
            self._logger.debug("tokens of queue %s may be lost: %s", self._work.name, error)
            # Perhaps only the answer was lost: the next fetch asks the database.
            for key in tokens:
                self._full_at.pop(key, None)
                self._due.pop(key, None)
        else:
            for key, number in tokens.items():
                if key in self._full_at:
                    self._full_at[key] -= number / rate.per_second
                self._due.pop(key, None)
        self._work.wake()

    def _set(self, limit: RateLimit) -> None:
        self._limit = limit
        self._params = BucketParams(
            queue=self._work.name, limit=limit.limit, per=limit.per, burst=limit.rate.burst
        )


class RateCleaner:
    """Deletes buckets that have been full for a while."""

    name = "rate limits"
    interval = timedelta(seconds=30)

    def __init__(self, context: ServiceContext) -> None:
        self._after: tuple[str, str] | None = None
        self._context = context

    async def run_once(self) -> int:
        """Read the next buckets, and delete the full ones; return how many."""
        forgotten = 0
        for _ in range(_BATCHES):
            async with self._context.executor() as executor:
                gone, self._after = await RateStore(executor).rate_delete_full(
                    after=self._after, limit=_BATCH
                )
            forgotten += gone
            if self._after is None:
                break
        return forgotten
