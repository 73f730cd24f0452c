"""Fetches the jobs of one queue into its free slots, and passes them to the executor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from riverui.domain.jobs import JobRow
from riverui.engine.client_context import ClientContext
from riverui.engine.config import FETCH_COOLDOWN, QueueConfig
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.hooks import Metric
from riverui.engine.service import WakeUp
from riverui.engine.work.attempt import Attempt, Cause
from riverui.engine.work.candidate_fetch import CandidateFetch, Chooser
from riverui.engine.work.fetch_start import FetchStart
from riverui.engine.work.set_aside import SetAside, passing_over
from riverui.engine.work.slot_ledger import Reservation, SlotLedger
from riverui.errors import RiveruiError
from riverui.storage.interface import SQL, Executor
from riverui.storage.interface.engine_params import JobFetchParams, JobsAlike
from riverui.storage.stores.first_places import FirstPlaceStore

if TYPE_CHECKING:
    from riverui.engine.work.batches import Batch
    from riverui.engine.work.producer import ProducerParts

_GATHER_SECONDS = 0.02
"""Seconds between two fetches of a queue in which there is something, but less than there is room
for, unless `fetch_cooldown` is set: a delay that nobody notices, for some jobs at a time.
"""
_EMPTY_AT_ONCE = 2
"""Fetches that find nothing before the cooldown separates them: a notification and a poll may
announce the same job.
"""
_RETRY_SECONDS = 60.0
"""Seconds before a failed second connection is retried: jobs are fetched without it."""


class Fetcher:
    """Fetches for one queue: `run` at every wake-up, `run_second` beside it in a backlog.
    `run_looks` finds out where fetches may begin.
    """

    def __init__(
        self,
        name: str,
        queue: QueueConfig,
        choosers: Sequence[Chooser],
        client: ClientContext,
        parts: ProducerParts,
    ) -> None:
        config, limits, pilot = client.config, client.limits, client.pilot
        self.held_back: Cause | None = None
        """Why it must not fetch; jobs that arrive nevertheless end at once."""
        self.last_fetched_at: datetime | None = None
        """When the database last answered."""
        self.name = name
        self.paused = False
        self.poll_interval = (
            queue.fetch_poll_interval or config.fetch_poll_interval
        ).total_seconds()
        self.slots = SlotLedger(
            queue.max_workers,
            choosers=choosers,
            fetch_alike=self._fetch_alike,
            start=parts.executor.start,
            stuck_jobs=parts.stuck_jobs,
            wake=self.refill,
        )
        self.start = FetchStart()
        """Where fetches begin."""
        self.stop_cause: Cause | None = None
        """Why jobs that arrive now end at once."""
        self.wide = False
        """Whether there may be room for two full results at once: then `run_second` runs too."""
        self._aside = SetAside(f"queue {name}", client.logger, seconds=limits.set_aside_seconds)
        self._backlog = WakeUp()
        self._choice = CandidateFetch(name, choosers, logger=client.logger)
        """Fetches if features choose among the jobs."""
        self._client = client
        given = queue.fetch_cooldown or config.fetch_cooldown
        self.cooldown = (given or FETCH_COOLDOWN).total_seconds()
        """Seconds between two fetches that find nothing."""
        self._cool_at = 0.0
        """When the cooldown of the last fetches that found nothing ends."""
        self._ephemeral = queue.ephemeral
        self._excepted: tuple[int, ...] = ()
        """The jobs that the last fetch left out."""
        self._failing = False
        self._gather = self.cooldown if given else _GATHER_SECONDS
        """Seconds between two fetches that find something, if slots are left."""
        self._refills = given is None
        """Whether a freed slot is filled at once while jobs are known to wait."""
        self._fetch_by_features = pilot.fetching(self._choice.fetch)
        self._fetch_now = False
        """Whether to skip the cooldown before the next fetch."""
        self._idle = False
        """Whether `run` waits for a wake-up."""
        self._look = WakeUp()
        self._most_rows = limits.fetch_rows
        self._params = pilot.fetch_params(JobFetchParams(client_id=client.id, queue=name, limit=0))
        self._parts = parts
        self._polled = False
        """Whether a poll has woken it."""
        self._rows_that_fit = limits.fetch_first_rows
        """Most jobs that one statement should return, at the size of the last ones."""
        self._stopping = False
        self._wake_up = WakeUp()

    # When to fetch

    @property
    def waits(self) -> bool:
        """Whether it waits for jobs and has room, so that a poll is useful."""
        return self._idle and not self.paused and self.held_back is None and self.slots.free > 0

    def wake(self) -> None:
        """Fetch as soon as the cooldown allows."""
        self._idle = self._polled = False
        self._wake_up.set()

    def refill(self) -> None:
        """Fetch because a slot was freed while jobs are known to wait: at once, unless
        `fetch_cooldown` is set.
        """
        self._fetch_now |= self._refills
        self.wake()

    def fetch_now(self) -> None:
        """Fetch at once, without the cooldown; callers must rate-limit."""
        self._fetch_now = True
        self.wake()

    def poll(self) -> None:
        """Fetch because of a poll, without a notification."""
        self._idle, self._polled = False, True
        self._wake_up.set()

    def stop(self) -> None:
        """Stop fetching. Jobs of current fetches are still worked."""
        self._stopping = True
        self._parts.executor.batches.flush_soon(self.slots)
        self.wake()
        self._backlog.set()
        self._look.set()
        self.slots.stop()

    async def run(self) -> None:
        """Fetch at once and at each wake-up, until stopped."""
        loop = asyncio.get_running_loop()
        woken = True
        while not self._stopping:
            began = loop.time()
            found = await self._fetch_all()
            rests_until = self._rest(began, found, woken=woken)
            # Of jobs that come in quick succession not each is announced.
            again = found > 1 and self._refills and not self.slots.short
            self._idle = True
            woken = await self._wake_up.wait(self._gather if again else None) and not self._polled
            self._idle = self._polled = False
            while (
                not (self._fetch_now or self._stopping) and (left := rests_until - loop.time()) > 0
            ):
                woken |= await self._wake_up.wait(left)
            self._fetch_now = False

    def _rest(self, began: float, found: int, *, woken: bool) -> float:
        """Return when the next fetch may begin, after one that has `found` so many jobs."""
        if not (found or woken):
            # After a poll that found nothing, a cooldown would delay the next job.
            return began
        rests_until = began + self._gather
        if not found and not self.slots.short:
            spare = (_EMPTY_AT_ONCE - 1) * self.cooldown if self._refills else 0
            self._cool_at = min(max(self._cool_at, began), began + spare) + self.cooldown
            rests_until = max(rests_until, self._cool_at - spare)
        return rests_until

    async def run_second(self) -> None:
        """Fetch full results while `run` does, in a backlog: one statement runs while the other
        waits for the disk.
        """
        retry_at = 0.0
        while not self._stopping:
            await self._backlog.wait()
            while self.slots.expecting and time.monotonic() >= retry_at:
                await self._begun()
                await self._parts.pace.turn()
                limit = self._most_rows
                if not self._may_fetch or min(self._room, self._rows_that_fit) < limit:
                    break
                if self._choice.active or self._client.pilot.wants_fetch(self.name):
                    # Features see one fetch of a queue at a time.
                    break
                try:
                    if await self._fetch(limit, self._parts.second_connection) < limit:
                        break
                except Exception as error:
                    # `run` continues alone, and reports the error if it has it too.
                    self._client.logger.debug(
                        "queue %s is fetched on one connection for now: %s", self.name, error
                    )
                    retry_at = time.monotonic() + _RETRY_SECONDS

    async def run_looks(self) -> None:
        """Look for the first available jobs whenever that is due, beside the fetches."""
        while not self._stopping:
            await self._look.wait()
            if self.start.look_due and not self._stopping:
                parts = self._parts
                beside = parts.second_connection if self.start.later else parts.connection
                with suppress(RiveruiError):
                    await beside.call(self._look_at)

    @property
    def _may_fetch(self) -> bool:
        return not (self.paused or self._stopping or self.held_back)

    @property
    def _may_fetch_ahead(self) -> bool:
        """Whether jobs may be fetched before there are slots: not if features choose them, or if
        `run_second` fetches more than a statement may return.
        """
        chosen = self._choice.active or self._client.pilot.wants_fetch(self.name)
        return self._refills and not self.wide and not chosen

    @property
    def _room(self) -> int:
        """How many jobs one statement may return if they are small."""
        return min(self.slots.room(), self._most_rows)

    async def _begun(self) -> None:
        """Wait until the jobs fetched so far have begun."""
        if self.slots.beginning:
            # `_begin` is the next thing that the event loop does.
            await asyncio.sleep(0)
        await self._parts.executor.begun()

    # One fetch

    async def _fetch_all(self) -> int:
        """Fill the free slots, in as many statements as needed; return how many jobs came."""
        found = 0
        while self._may_fetch:
            if self.wide and self._room < self._most_rows:
                # Many of those that are about to begin may end at once.
                await self._begun()
            if self._room > 0:
                await self._parts.pace.turn()
            if not self._may_fetch:
                break
            limit = min(self._room, self._rows_that_fit)
            if limit <= 0:
                self.slots.short = True
                break
            if found and self.wide:
                self._backlog.set()
            taken = await self._fetch_passing_over(limit)
            found += taken
            self.slots.backlog = taken == limit and self._may_fetch_ahead
            if not self._choice.goes_on() and taken < limit:
                break
        return found

    async def _fetch_passing_over(self, limit: int) -> int:
        """Fetch, without jobs that make the statement fail; return how many came."""
        try:
            return await passing_over(limit, self._fetch, self._first, self._aside)
        except RiveruiError as error:
            logger = self._client.logger
            if self._failing:
                logger.debug("still no jobs can be fetched for queue %s: %s", self.name, error)
                return 0
            logger.warning("no jobs can be fetched for queue %s: %s", self.name, error)
            self._failing = True
            # Perhaps only this connection is broken.
            self.wake()
            return 0

    async def _first(self) -> int | None:
        """Return the job that would be fetched next."""
        if len(self._choice.tried) == 1:
            return self._choice.tried[0]
        params = self._params._replace(except_ids=self._aside.ids)
        return await self._parts.connection.call(
            lambda executor: executor.work.first_available(params)
        )

    async def _fetch(self, limit: int, connection: DedicatedConnection | None = None) -> int:
        """Fetch up to so many jobs, start them, and return how many."""
        params = self._params._replace(limit=limit, except_ids=self._aside.ids)
        if params.except_ids != self._excepted:
            self._excepted = params.except_ids
            self.start.go_back()
        began = time.perf_counter()
        reservation = self.slots.reserve(limit)
        rows: Sequence[JobRow] = ()
        try:
            with self._parts.lost.fetching():
                rows = await self._get_available(params, connection or self._parts.connection)
        finally:
            if connection is None:
                self._choice.settle(rows)
            self.slots.arrive(reservation, len(rows))
        self.last_fetched_at = self._client.clock()
        self._failing = False
        if rows:
            size = sum(len(row.args) + len(row.metadata) for row in rows)
            most = self._client.limits.fetch_characters
            self._rows_that_fit = max(1, len(rows) * most // max(size, 1))
            # Not at once: while these jobs begin, the next ones can be fetched.
            asyncio.get_running_loop().call_soon(self._begin, rows, reservation)
        if self._client.extensions.metric_emit:
            self._measure("job_get_available_duration", time.perf_counter() - began)
            self._measure("job_get_available_count", len(rows))
        return len(rows)

    def _get_available(
        self, params: JobFetchParams, connection: DedicatedConnection
    ) -> Awaitable[Sequence[JobRow]]:
        if self._choice.active or self._client.pilot.wants_fetch(self.name):
            return self._get_chosen(params, connection)
        return connection.call(lambda executor: self._get_plain(executor, params))

    async def _get_chosen(
        self, params: JobFetchParams, connection: DedicatedConnection
    ) -> Sequence[JobRow]:
        """Fetch jobs that features choose, from where it may begin."""
        if not self.start.known and SQL in self._client.driver.capabilities:
            await connection.call(self._look_at)
        if (begun := self.start.begin()) is not None and self.start.step_due(begun):
            asked = params._replace(after=begun.start)
            try:
                found = await connection.call(
                    lambda executor: FirstPlaceStore(executor).job_first_place_list(asked)
                )
            except BaseException:
                self.start.failed(begun)
                raise
            self.start.step(begun, found)
        if not self._may_fetch:
            return ()
        params = params._replace(after=self.start.passed)
        if self._client.pilot.wants_fetch(self.name):
            rows = await connection.call_in_transaction(
                lambda executor: self._fetch_by_features(executor, params)
            )
        else:
            rows = await connection.call(
                lambda executor: self._choice.fetch(executor, params, at_once=True)
            )
        self.start.count(rows)
        if self.start.look_due:
            self._look.set()
        return rows

    async def _get_plain(self, executor: Executor, params: JobFetchParams) -> Sequence[JobRow]:
        """Fetch from where it may begin; nothing if the queue was paused meanwhile."""
        if not self.start.known and SQL in executor.capabilities:
            await self._look_at(executor)
        if not self._may_fetch:
            # The connection was being opened, or busy with another queue.
            return ()
        begun = self.start.begin()
        try:
            rows = await executor.work.get_available(params._replace(after=begun and begun.start))
        except BaseException:
            self.start.failed(begun)
            raise
        self.start.end(begun, rows, params.limit)
        if self.start.look_due:
            self._look.set()
        return rows

    async def _look_at(self, executor: Executor) -> None:
        """Look where the first available jobs are."""
        began = time.monotonic()
        try:
            found = await FirstPlaceStore(executor).job_first_place_list(self._params)
        except BaseException:
            self.start.look_failed()
            raise
        if self.start.looked(found, began):
            self.wake()

    async def _fetch_alike(self, alike: JobsAlike, most: int, batch: Batch) -> Sequence[Attempt]:
        """Fetch up to so many jobs for a batch, which take no slots; return their attempts.

        Features take no part: a batch counts as its first job. Errors are logged.
        """
        attempts: list[Attempt] = []
        while most > 0 and self._may_fetch:
            await self._parts.pace.turn()
            limit = min(most, self._rows_that_fit)
            params = self._params._replace(
                limit=limit,
                kinds=None,
                except_ids=self._aside.ids,
                alike=alike,
                after=self.start.passed,
            )
            reservation = self.slots.reserve(0)
            rows: Sequence[JobRow] = ()
            try:
                with self._parts.lost.fetching():
                    rows = await self._parts.connection.call(
                        lambda executor, params=params: executor.work.get_available(params)  # type: ignore[misc]
                    )
            except RiveruiError as error:
                # The next plain fetch finds whatever can be fetched.
                self._client.logger.warning(
                    "queue %s: a batch could not be filled: %s", self.name, error
                )
                break
            finally:
                self.slots.arrive(reservation, len(rows))
            if rows:
                attempts += self._begin(rows, reservation, batch)
            most -= len(rows)
            if len(rows) < limit:
                break
        return attempts

    def _begin(
        self, rows: Sequence[JobRow], reservation: Reservation, batch: Batch | None = None
    ) -> Sequence[Attempt]:
        """Start fetched jobs and return their attempts. Those that came too late, or were cancelled
        in between, end at once.
        """
        executor, slots = self._parts.executor, self.slots
        self._parts.lost.begun(rows)
        cause = self.stop_cause or self.held_back
        if cause is None and not self._choice.sure:
            cause = Cause.SILENT
        attempts = [executor.attempt(row, slots, ephemeral=self._ephemeral) for row in rows]
        slots.begin(reservation, attempts, batch)
        if cause is not None:
            for attempt in attempts:
                attempt.end(cause)
        for job_id in reservation.cancelled:
            if (cancelled := slots.attempts.get(job_id)) is not None:
                cancelled.end(Cause.REMOTE)
        return attempts

    def _measure(self, name: str, value: float) -> None:
        metric = Metric(name=name, value=value, queue=self.name)
        for hook in self._client.extensions.metric_emit:
            try:
                hook.metric_emit(metric)
            except Exception:
                self._client.logger.exception("a metric_emit hook failed")
