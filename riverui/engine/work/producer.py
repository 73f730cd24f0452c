"""Fetches the jobs of one queue, as many as may run at once, and has them worked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow, JsonText
from riverui.domain.queues import ALL_QUEUES, QueueRow
from riverui.domain.stored_json import write_json
from riverui.engine.client_context import ClientContext
from riverui.engine.config import QueueConfig
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.events import Event, EventKind
from riverui.engine.hooks import Metric
from riverui.engine.notifier import CONTROL, Notifier, Unsubscribe
from riverui.engine.pilot import ProducerStatus
from riverui.engine.service import WakeUp, keep_running
from riverui.engine.work.attempt import Attempt, Batch, Cause
from riverui.engine.work.candidate_fetch import CandidateFetch, SignsOfLife
from riverui.engine.work.failure_log import job_fields
from riverui.engine.work.job_counts import JobCounts
from riverui.engine.work.job_executor import JobExecutor
from riverui.engine.work.lost_fetches import LostFetches
from riverui.engine.work.queue_poller import QueuePoller
from riverui.engine.work.set_aside import SetAside, passing_over
from riverui.engine.work.stuck_jobs import StuckJobs
from riverui.errors import RiveruiError
from riverui.storage.interface.engine_params import JobFetchParams, JobsAlike

_REST = 60.0
"""Seconds until a second connection is tried again after it has failed: jobs come without it."""


_LAND_SECONDS = 0.02
"""Between two looks whether fetches have ended: nothing else waits for that."""
_SETTLE_SECONDS = 0.001
"""Between two looks whether an answer has come: it does as fast as the database answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerParts:
    """What the producers of one client share."""

    connection: DedicatedConnection
    """For fetching."""
    beside: DedicatedConnection
    """For fetching more meanwhile: opened where a queue has a backlog, and room for it."""
    executor: JobExecutor
    lost: LostFetches
    notifier: Notifier | None
    poller: QueuePoller
    signs: SignsOfLife
    stuck_jobs: StuckJobs


class Producer:
    """Serves one queue in this process."""

    def __init__(
        self, name: str, queue: QueueConfig, client: ClientContext, parts: ProducerParts
    ) -> None:
        config, limits = client.config, client.limits
        self.client = client
        self.config = queue
        self.signs = parts.signs
        self.name = name
        self.paused = False
        self.last_fetched_at: datetime | None = None
        """When the database last answered."""
        self._active: dict[int, Attempt] = {}
        self._aside = SetAside(f"queue {name}", client.logger, seconds=limits.set_aside_seconds)
        self._attempts = 0
        """Those in `_active`, and those whose job was rescued and came back while they went on."""
        self._beginning = 0
        """Answers whose jobs are not at work yet."""
        self._client = client
        self._backlog = WakeUp()
        self._beside = parts.beside
        self._connection = parts.connection
        self.cooldown = (queue.fetch_cooldown or config.fetch_cooldown).total_seconds()
        """Seconds between two fetches, unless a poll found jobs."""
        self._drained = asyncio.Event()
        self._fetch_now = False
        """Whether to skip the cooldown before the next fetch."""
        self._executor = parts.executor
        self._choice = CandidateFetch(name, client.pilot.choosers(self), logger=client.logger)
        """How jobs are fetched where features choose among them."""
        self._failing = False
        self._few_enough = limits.fetch_first_rows
        """Jobs that one statement should bring at most, as large as they were last time."""
        self._held_back: Cause | None = None
        """Why it must not fetch, and jobs that come all the same end at once."""
        self._hungry = False
        """Whether there may be more jobs than could be taken."""
        self._fetches: list[set[int]] = []
        """For each answer on its way, or whose jobs have not begun: the jobs cancelled early."""
        self._idle = False
        """Whether it waits for jobs, and has room for them."""
        self._logger: logging.Logger = client.logger
        self._lost = parts.lost
        self.look_again = False
        """Whether the queue was paused or resumed before its row was read, or after."""
        self._ephemeral = queue.ephemeral
        self._max_workers = queue.max_workers
        self._most_characters = limits.fetch_characters
        self._most_rows = limits.fetch_rows
        self._notifier = parts.notifier
        self._params = client.pilot.fetch_params(
            JobFetchParams(client_id=client.id, queue=name, limit=0)
        )
        self._pilot = client.pilot
        self._fetch_by_features = client.pilot.fetching(self._choice.fetch)
        self._poller = parts.poller
        self.poll_interval = (
            queue.fetch_poll_interval or config.fetch_poll_interval
        ).total_seconds()
        """Seconds between two looks for jobs of which no notification told."""
        self._polled = False
        """Whether it was woken by a poll."""
        self._slotless = 0
        """Attempts in batches that another's slot is for."""
        self._stop_cause: Cause | None = None
        """What happens to jobs that come now."""
        self._stopping = False
        self._stuck_jobs = parts.stuck_jobs
        self._taken = 0
        """Slots in use, and those kept for answers on their way."""
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: list[Unsubscribe] = []
        self._wake_up = WakeUp()
        self._wide = False
        """Whether there may be room for two full answers at once."""
        self._worked = 0

    @property
    def running(self) -> int:
        """Jobs at work."""
        return self._attempts

    @property
    def counts(self) -> JobCounts:
        """Return what it has done so far, and does."""
        stuck = sum(attempt.stuck for attempt in self._active.values())
        return JobCounts(worked=self._worked, running=self._attempts, stuck=stuck)

    @property
    def status(self) -> ProducerStatus:
        """What features are told of it."""
        return ProducerStatus(
            client_id=self._client.id,
            queue=self.name,
            max_workers=self._max_workers,
            running=tuple(self._active),
        )

    @property
    def attempts(self) -> Collection[Attempt]:
        """What is at work."""
        return self._active.values()

    async def start(self) -> None:
        """Report the queue and begin to fetch. Raise what the database has to say."""
        notifier = self._notifier
        if notifier is not None:
            self._unsubscribe = [
                notifier.subscribe(CONTROL, self._on_control),
                notifier.on_reconnect(self._catch_up),
            ]
        try:
            row = await self._report()
            for chooser in self._choice.choosers:
                await chooser.start(row)
        except BaseException:
            await self.close()
            raise
        self.paused = row.paused_at is not None
        self._keep_running(f"fetching queue {self.name}", self._fetch)
        self._widen()
        self._poller.add(self)

    def scale(self, max_workers: int) -> None:
        """Have up to so many jobs at once from now on; those at work beyond them may end."""
        self.config = replace(self.config, max_workers=max_workers)
        self._max_workers = max_workers
        self._widen()
        self.wake()

    def _widen(self) -> None:
        """Begin to fetch on a second connection as well, once there may be room for two answers."""
        if not self._wide and self._max_workers >= 2 * self._most_rows:
            self._wide = True
            self._keep_running(f"fetching more of queue {self.name}", self._fetch_beside)

    def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(
            asyncio.create_task(keep_running(name, run, self._logger), name=f"riverui {name}")
        )

    @property
    def waits(self) -> bool:
        """Whether a poll could find something for it to do."""
        return (
            self._idle
            and not self.paused
            and not self._held_back
            and self._taken < self._max_workers
        )

    def wake(self) -> None:
        """Fetch as soon as the cooldown allows."""
        self._idle = self._polled = False
        self._wake_up.set()

    def fetch_now(self) -> None:
        """Fetch at once, without the cooldown; callers must rate-limit."""
        self._fetch_now = True
        self.wake()

    def notified(self) -> None:
        """Fetch as `wake` does, because a notification tells of jobs."""
        for chooser in self._choice.choosers:
            chooser.news()
        self.wake()

    async def settled(self) -> None:
        """Wait until all that was fetched before the fetch under way is among the attempts."""
        while True:
            if len(self._fetches) <= 1:
                return
            await asyncio.sleep(_SETTLE_SECONDS)

    async def landed(self) -> None:
        """Wait until what is being fetched now has begun, or could not be fetched."""
        fetches = tuple(self._fetches)
        while True:
            # By identity: two empty sets are equal.
            if not any(each is fetch for each in self._fetches for fetch in fetches):
                return
            await asyncio.sleep(_LAND_SECONDS)

    def poll(self) -> None:
        """Fetch because it is time to, and not because something has happened."""
        self._idle, self._polled = False, True
        self._wake_up.set()

    def learn(self, row: QueueRow) -> None:
        """Take in whether the queue is paused, and what its metadata tells."""
        for chooser in self._choice.choosers:
            chooser.learn(row)
        self._set_paused(row.paused_at is not None, row)

    def stop(self) -> None:
        """Fetch no more. What is on its way is worked all the same."""
        self._stopping = True
        self._executor.batches.flush_soon(self)
        self.wake()
        self._backlog.set()
        self._check_drained()

    def end_jobs(self) -> None:
        """Cancel the jobs at work, and those that may still come."""
        self._stop_cause = Cause.STOP
        for attempt in tuple(self._active.values()):
            attempt.end(Cause.STOP)

    def hold_back(self, cause: Cause) -> None:
        """Fetch no more until `go_on`; cancel the jobs at work, and those that may still come."""
        self._held_back = cause
        for attempt in tuple(self._active.values()):
            attempt.end(cause)

    def go_on(self) -> None:
        """Fetch again after `hold_back`."""
        self._held_back = None
        self.wake()

    @property
    def expecting(self) -> bool:
        """Whether jobs may be on their way."""
        return bool(self._fetches) or self._beginning > 0

    @property
    def slots_taken(self) -> int:
        """Slots that jobs take, and those kept for an answer on its way. Once it has been told to
        stop, they only become fewer.
        """
        return max(self._taken, 0)

    @property
    def slots(self) -> tuple[int, int]:
        """The most jobs at once, and how many of these slots jobs take; none are counted that are
        kept for an answer on its way. A batch takes one.
        """
        return self._max_workers, min(self._attempts - self._slotless, self._max_workers)

    async def drained(self) -> None:
        """Wait until nothing is fetched and nothing runs any more."""
        await self._drained.wait()

    async def close(self) -> None:
        """Leave the queue, whatever still runs."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        await self._poller.remove(self)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for chooser in self._choice.choosers:
            await chooser.stop()

    def release(self, attempt: Attempt) -> None:
        """Free the slot of an attempt that is over."""
        job_id = attempt.row.id
        if self._active.get(job_id) is attempt:
            del self._active[job_id]
        self._attempts -= 1
        self._worked += 1
        if not attempt.slot_given_up:
            self._taken -= 1
        elif attempt.batch is not None:
            self._slotless -= 1
            attempt.batch.lose(attempt)
        if attempt.stuck:
            self._stuck_jobs.remove(attempt.row)
        if self._choice.choosers:
            self._choice.ended(attempt.row)
        self._feed()
        if self._stopping:
            self._check_drained()

    def share_slot(self, attempt: Attempt) -> None:
        """Take back the slot of an attempt that has joined a batch, which has one."""
        if not attempt.slot_given_up:
            attempt.slot_given_up = True
            self._slotless += 1
            self._taken -= 1
            self._feed()

    def keep_slot(self, attempt: Attempt) -> None:
        """Give a slot to an attempt that holds a batch's, even where there is none left."""
        if attempt.slot_given_up:
            attempt.slot_given_up = False
            self._slotless -= 1
            self._taken += 1

    def stuck(self, attempt: Attempt) -> None:
        """Take note of an attempt that goes on long past its time limit."""
        attempt.stuck = True
        if self._stuck_jobs.add(attempt.row) and not attempt.slot_given_up:
            attempt.slot_given_up = True
            self._slotless += attempt.batch is not None
            self._taken -= 1
            self.wake()

    async def _report(self) -> QueueRow:
        """Report that the queue is worked, to the features too, and return its row."""
        driver = self._client.driver
        if not self._pilot.starts:
            async with driver.autocommit() as executor:
                return await executor.queue_upsert(self.name)
        async with driver.transaction() as transaction:
            row = await transaction.queue_upsert(self.name)
            await self._pilot.producer_start(transaction, self.status)
            return row

    async def _fetch(self) -> None:
        """Fetch at once, and when it is woken; not within the cooldown, unless a poll woke it."""
        loop = asyncio.get_running_loop()
        woken = True
        while not self._stopping:
            cool_at = loop.time() + self.cooldown
            taken = await self._fetch_all()
            # A poll in vain needs no cooldown: it would hold up the next job.
            cooling = woken or taken
            self._idle = True
            await self._wake_up.wait()
            self._idle = False
            woken, self._polled = not self._polled, False
            while cooling and (left := cool_at - loop.time()) > 0:
                if self._fetch_now or self._stopping:
                    break
                woken |= await self._wake_up.wait(left)
            self._fetch_now = False
        self._check_drained()

    async def _fetch_all(self) -> bool:
        """Take as many jobs as there is room for, in as many statements as it needs; return whether
        any came.
        """
        some = False
        while self._may_fetch:
            if self._wide and self._room < self._most_rows:
                # Many of those that are about to begin may end at once.
                await self._begun()
                if not self._may_fetch:
                    break
            limit = min(self._room, self._few_enough)
            if limit <= 0:
                self._hungry = True
                break
            if some and self._wide:
                self._backlog.set()
            taken = await self._fetch_some(limit)
            some = some or taken > 0
            if not self._choice.goes_on() and taken < limit:
                break
        return some

    @property
    def _may_fetch(self) -> bool:
        return not (self.paused or self._stopping or self._held_back)

    @property
    def _room(self) -> int:
        """Jobs that one statement may bring, were they small."""
        return min(self._max_workers - self._taken, self._most_rows)

    async def _begun(self) -> None:
        """Wait until the jobs that have come so far have begun."""
        if self._beginning:
            # `_begin` is the next thing that the event loop does.
            await asyncio.sleep(0)
        await self._executor.begun()

    async def _fetch_beside(self) -> None:
        """Fetch full answers while `_fetch` does, which works off a backlog: one statement runs
        while the other waits for the disk.
        """
        rest_until = 0.0
        while not self._stopping:
            await self._backlog.wait()
            while self._fetches and time.monotonic() >= rest_until:
                await self._begun()
                limit = self._most_rows
                if not self._may_fetch or min(self._room, self._few_enough) < limit:
                    break
                if self._choice.active or self._pilot.wants_fetch(self.name):
                    # Features see one fetch of a queue at a time.
                    break
                try:
                    if await self._take(limit, self._beside) < limit:
                        break
                except Exception as error:
                    # `_fetch` goes on alone, and tells if it cannot.
                    self._logger.debug(
                        "queue %s is fetched on one connection for now: %s", self.name, error
                    )
                    rest_until = time.monotonic() + _REST

    async def _fetch_some(self, limit: int) -> int:
        try:
            return await passing_over(limit, self._take, self._first, self._aside)
        except RiveruiError as error:
            self._fetch_failed(error)
            return 0

    async def _first(self) -> int | None:
        """Return the job that would be taken next."""
        if len(self._choice.tried) == 1:
            return self._choice.tried[0]
        params = self._params._replace(except_ids=self._aside.ids)
        return await self._connection.call(lambda executor: executor.job_first_available(params))

    async def _take(self, limit: int, connection: DedicatedConnection | None = None) -> int:
        """Fetch up to so many jobs, have them worked, and return how many there were."""
        params = self._params._replace(limit=limit, except_ids=self._aside.ids)
        began = time.perf_counter()
        cancelled_early: set[int] = set()
        self._fetches.append(cancelled_early)
        self._taken += limit
        rows: Sequence[JobRow] = ()
        try:
            with self._lost.fetching():
                rows = await self._get_available(params, connection or self._connection)
        finally:
            if connection is None:
                self._choice.settle(rows)
            self._taken -= limit - len(rows)
            if not rows:
                self._over(cancelled_early)
        self.last_fetched_at = self._client.clock()
        self._failing = False
        if rows:
            size = sum(len(row.args) + len(row.metadata) for row in rows)
            self._few_enough = max(1, len(rows) * self._most_characters // max(size, 1))
            self._attempts += len(rows)
            # Not at once: while these jobs begin, the next ones can be on their way.
            self._beginning += 1
            loop = asyncio.get_running_loop()
            loop.call_soon(self._begin, rows, cancelled_early)
        if self._client.extensions.metric_emit:
            self._measure("job_get_available_duration", time.perf_counter() - began)
            self._measure("job_get_available_count", len(rows))
        return len(rows)

    def _get_available(
        self, params: JobFetchParams, connection: DedicatedConnection
    ) -> Awaitable[Sequence[JobRow]]:
        if self._pilot.wants_fetch(self.name):
            return connection.call_in_transaction(
                lambda executor: self._fetch_by_features(executor, params)
            )
        if self._choice.active:
            return connection.call(
                lambda executor: self._choice.fetch(executor, params, at_once=True)
            )
        return connection.call(lambda executor: executor.job_get_available(params))

    async def take_alike(self, alike: JobsAlike, most: int, batch: Batch) -> Sequence[Attempt]:
        """Fetch up to so many jobs for a batch, have them worked without slots, and return their
        attempts.

        Features take no part: a batch counts as the one job that leads it. Errors are logged.
        """
        attempts: list[Attempt] = []
        while most > 0 and self._may_fetch:
            limit = min(most, self._few_enough)
            params = self._params._replace(
                limit=limit, kinds=None, except_ids=self._aside.ids, alike=alike
            )
            cancelled_early: set[int] = set()
            self._fetches.append(cancelled_early)
            rows: Sequence[JobRow] = ()
            try:
                with self._lost.fetching():
                    rows = await self._connection.call(
                        lambda executor, params=params: executor.job_get_available(params)  # type: ignore[misc]
                    )
            except RiveruiError as error:
                # What can be fetched at all is found by the next plain fetch.
                self._logger.warning("queue %s: a batch could not be filled: %s", self.name, error)
                break
            finally:
                if not rows:
                    self._over(cancelled_early)
            self._attempts += len(rows)
            self._slotless += len(rows)
            if rows:
                self._beginning += 1
                attempts += self._begin(rows, cancelled_early, batch)
            most -= len(rows)
            if len(rows) < limit:
                break
        return attempts

    def _begin(
        self, rows: Sequence[JobRow], cancelled_early: set[int], batch: Batch | None = None
    ) -> Sequence[Attempt]:
        """Have fetched jobs worked, for a batch without slots, and return their attempts; those
        that come too late, or were cancelled on their way, end at once.
        """
        self._beginning -= 1
        self._lost.begun(rows)
        executor = self._executor
        cause = self._stop_cause or self._held_back
        if cause is None and not self._choice.sure:
            cause = Cause.SILENT
        attempts = [executor.attempt(row, self, ephemeral=self._ephemeral) for row in rows]
        if batch is not None:
            for attempt in attempts:
                attempt.batch, attempt.slot_given_up = batch, True
        for attempt in attempts:
            self._active[attempt.row.id] = attempt
            if cause:
                attempt.end(cause)
        for job_id in cancelled_early:
            if (cancelled := self._active.get(job_id)) is not None:
                cancelled.end(Cause.REMOTE)
        self._over(cancelled_early)
        executor.start(attempts)
        return attempts

    def _feed(self) -> None:
        """Fetch what there was no room for."""
        if self._hungry:
            self._hungry = False
            self.wake()

    def _over(self, cancelled_early: set[int]) -> None:
        """Forget an answer, which brought nothing or whose jobs begin."""
        # By identity: two empty sets are equal.
        self._fetches = [fetch for fetch in self._fetches if fetch is not cancelled_early]
        if self._taken < self._max_workers:
            self._feed()
        if self._stopping:
            self._check_drained()

    def _fetch_failed(self, error: RiveruiError) -> None:
        logger = self._logger
        if self._failing:
            logger.debug("still no jobs can be fetched for queue %s: %s", self.name, error)
            return
        logger.warning("no jobs can be fetched for queue %s: %s", self.name, error)
        self._failing = True
        # Perhaps it was only this connection.
        self.wake()

    def _measure(self, name: str, value: float) -> None:
        metric = Metric(name=name, value=value, queue=self.name)
        for hook in self._client.extensions.metric_emit:
            try:
                hook.metric_emit(metric)
            except Exception:
                self._logger.exception("a metric_emit hook failed")

    def _catch_up(self) -> None:
        self.wake()

    def _on_control(self, message: dict[str, Any]) -> None:
        queue, action, job_id = message.get("queue"), message.get("action"), message.get("job_id")
        if action == "cancel" and queue == self.name and isinstance(job_id, int):
            self._cancel(job_id)
        elif action == "metadata_changed" and queue == self.name:
            self._metadata_changed(message.get("metadata"))
        elif action in ("pause", "resume") and queue in (self.name, ALL_QUEUES):
            if self._tasks:
                self._set_paused(action == "pause")
            else:
                # The row is on its way, and may be older or newer than this: look again.
                self.look_again = True

    def _cancel(self, job_id: int) -> None:
        attempt = self._active.get(job_id)
        if attempt is not None:
            row = attempt.row
            self._logger.info(
                "job %s (%s) is cancelled remotely", row.id, row.kind, extra=job_fields(row)
            )
            attempt.end(Cause.REMOTE)
        else:
            for cancelled_early in self._fetches:
                cancelled_early.add(job_id)

    def _set_paused(self, paused: bool, row: QueueRow | None = None) -> None:
        if paused == self.paused:
            return
        self.paused = paused
        if not paused:
            self.wake()
        kind = EventKind.QUEUE_PAUSED if paused else EventKind.QUEUE_RESUMED
        now = self._client.clock() if paused else None
        row = row or self._row("{}", now)
        self._client.events.publish(Event(kind=kind, queue=row))

    def _metadata_changed(self, metadata: object) -> None:
        if not isinstance(metadata, dict):
            return
        row = self._row(write_json(metadata), None)
        for chooser in self._choice.choosers:
            chooser.learn(row)

    def _row(self, metadata: str, paused_at: datetime | None) -> QueueRow:
        return QueueRow(
            name=self.name,
            created_at=None,
            metadata=JsonText(text=metadata, size=len(metadata)),
            paused_at=paused_at,
            updated_at=None,
        )

    def _check_drained(self) -> None:
        if self._stopping and not self._fetches and not self._attempts:
            self._drained.set()
