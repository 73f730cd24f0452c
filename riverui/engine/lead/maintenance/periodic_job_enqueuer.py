"""Inserts periodic jobs when they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from riverui.domain.periodic import NextRun
from riverui.domain.schedules import NEVER, PeriodicInterval, next_time
from riverui.engine.hooks import Hook, settle
from riverui.engine.insert.insert_opts import InsertOpts, InsertRequest
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.service import TIMEOUT, ServiceContext, run_round
from riverui.engine.lead.next_runs import NextRuns, Overtaken
from riverui.engine.lead.periodic import PeriodicJob, PeriodicJobs
from riverui.engine.waiting import backoff, wait
from riverui.errors import (
    DatabaseUnavailable,
    LockTimeout,
    PermissionDenied,
    QueryTimeout,
    SchemaMissing,
)
from riverui.storage.interface import Executor
from riverui.storage.stores.server import ServerStore

Prepare = Callable[[object, InsertOpts | None], InsertRequest]
"""Validates one job and returns its request."""


class InsertRequests(Protocol):
    """The client's usual insert, in a transaction of its own."""

    def __call__(
        self,
        requests: Sequence[InsertRequest],
        *,
        numbered: Callable[[int], None],
        beside: Callable[[Executor], Awaitable[None]] | None,
    ) -> Awaitable[object]:
        """Insert jobs; `numbered` is called with the transaction's number before the commit, and
        `beside` runs in that transaction.
        """
        ...


class _Waiting(NamedTuple):
    """A job that was created and not inserted yet."""

    request: InsertRequest
    save: NextRun | None = None
    """What to store with it, for a durable job."""


_MARGIN = timedelta(milliseconds=100)
"""Jobs due within this time are included: River's figure."""
_RECHECK = 60.0
"""Seconds between reads of the wall clock, whatever is planned."""
_ATTEMPTS = 3
"""Tries of one round, as a broken connection is noticed only on use."""
_AGAIN = 5.0
"""Seconds until the next round while the database is unavailable: the elector's interval."""
_STEP = timedelta(seconds=1)
"""Difference between the wall clock and the steady one that means that it was set: far more than
slewing.
"""
_MAX_MISSED = 300
"""Missed runs of one job that are made up at once, ten minutes of a run every two seconds: more
would be a flood.
"""
_MAX_WAITING = 10_000
"""Jobs kept while the database is unavailable: an hour of three per second."""
_JOBS_PER_TRANSACTION = 1_000
"""Jobs per transaction, so that none is long."""
_DATABASE_ERRORS = (
    DatabaseUnavailable,
    LockTimeout,
    PermissionDenied,
    QueryTimeout,
    SchemaMissing,
    TimeoutError,
)
"""Errors of the database, not of a job: it may be a standby for a moment, or be migrated."""


class PeriodicJobEnqueuer:
    """Plans each job at the start of a term; nothing of the plan outlives it, except for unique and
    durable jobs.

    What was due while the database was unavailable is inserted late, and only once: if a
    transaction's result was lost, its status is read first. Intervals use elapsed time, other
    schedules the wall clock.
    """

    name = "periodic jobs"

    def __init__(
        self,
        context: ServiceContext,
        jobs: PeriodicJobs,
        *,
        prepare: Prepare,
        insert_requests: InsertRequests,
        hooks: Sequence[Hook] = (),
        next_runs: NextRuns | None = None,
    ) -> None:
        self._context = context
        self._next_runs = next_runs or NextRuns()
        self._durable_only = False
        """Whether only durable jobs are inserted in this term."""
        self._jobs = jobs
        self._prepare = prepare
        self._insert_requests = insert_requests
        self._hooks = hooks
        self._failing = False
        """Whether the last round failed to insert its jobs."""
        self._plan: dict[int, datetime] = {}
        """The next run of each job, by handle."""
        self._reading: tuple[datetime, float] | None = None
        """The wall clock and the steady clock when they were last in step."""
        self._sent: tuple[int, int] | None = None
        """The number of a transaction without a result, and how many of the waiting jobs are in
        it.
        """
        self._term: LeaderTerm | None = None
        self._waiting: list[_Waiting] = []
        """Jobs created and not inserted yet, in order."""

    @property
    def durable(self) -> bool:
        """Whether there may be durable jobs."""
        return self._next_runs.durable

    async def start(self, *, goes_on: bool = False, durable_only: bool = False) -> None:
        """Start a term and call the hooks, whose errors are raised.

        The plan is empty unless the term `goes_on` after an interruption in which no other client
        led. With `durable_only` it is for durable jobs: another client leads.
        """
        self._durable_only = durable_only
        if not goes_on:
            self._failing = False
            self._plan = {}
            self._reading = self._sent = None
            self._waiting = []
            self._next_runs.reset()
        for hook in self._hooks:
            await settle(hook.periodic_jobs_start())

    async def run(self, term: LeaderTerm) -> None:
        """Do a round whenever a job is due or added."""
        added = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._term = term
        await self._context.timing.begin()
        with self._jobs.watched(lambda: loop.call_soon_threadsafe(added.set)):
            while True:
                # The wall clock may be set, and machines sleep: read it regularly.
                seconds = _RECHECK
                if term.trusted:
                    await run_round(self.name, self.run_once, self._context)
                    seconds = min((self._next() - self._context.clock()).total_seconds(), seconds)
                    if self._failing:
                        seconds = min(seconds, _AGAIN)
                    seconds = min(seconds, self._next_runs.look_seconds)
                await wait(added, seconds, sleep=self._context.timing.sleep)
                added.clear()

    async def run_once(self) -> int:
        """Insert due jobs, one for each run, and new jobs to run on start; return how many."""
        jobs = self._jobs.by_handle()
        if self._durable_only:
            jobs = {handle: job for handle, job in jobs.items() if job.id is not None}
        jobs = await self._look(jobs)
        self._plan = {handle: at for handle, at in self._plan.items() if handle in jobs}
        passed = self._adjust_to_clock(jobs)
        # A stored next run may be due already.
        new = self._new(jobs)
        self._waiting += [*self._due(jobs, passed), *new]
        inserted = await self._insert()
        if not self._waiting:
            # After the runs that are earlier.
            await self._write()
        return inserted

    def _next(self) -> datetime:
        return min(self._plan.values(), default=NEVER)

    async def _look(self, jobs: Mapping[int, PeriodicJob]) -> Mapping[int, PeriodicJob]:
        """Return the jobs with a person's changes, without those whose next run is not known yet;
        plan changed ones again.
        """
        next_runs = self._next_runs
        try:
            changed = await next_runs.look(jobs.values())
        except _DATABASE_ERRORS as error:
            self._context.logger.warning("%s: next runs cannot be read: %s", self.name, error)
            changed = ()
        if not next_runs.loaded:
            return {handle: job for handle, job in jobs.items() if job.id is None}
        effective = {handle: next_runs.effective(job) for handle, job in jobs.items()}
        if changed:
            self._forget(changed)
        now = self._context.clock()
        for handle, job in effective.items():
            if next_runs.paused(job):
                self._plan[handle] = NEVER
            elif job.id in changed and handle in self._plan:
                self._plan[handle] = self._plan_next_run(job, now)
            if (answer := next_runs.requested(job)) is not None:
                requests = self._request(job, now)
                self._waiting += [_Waiting(request, answer) for request in requests]
        return effective

    async def _write(self) -> None:
        """Write next runs without inserting jobs; the database may be unavailable."""
        try:
            overtaken = await self._next_runs.write()
        except _DATABASE_ERRORS as error:
            self._context.logger.warning("%s: next runs cannot be kept: %s", self.name, error)
            return
        if overtaken:
            self._forget(overtaken)

    def _forget(self, ids: Collection[str]) -> None:
        """Drop the waiting jobs of these durable ones: another leader or a person has changed
        them.
        """
        if self._sent is None:
            self._waiting = [
                each for each in self._waiting if each.save is None or each.save.id not in ids
            ]

    def _plan_next_run(self, job: PeriodicJob, now: datetime) -> datetime:
        """Return a job's next run: by its row, or else by its schedule, and store it."""
        if self._next_runs.paused(job):
            return NEVER
        at = self._next_runs.first(job, now)
        if at is None:
            at = self._after(job, now)
            self._next_runs.save(job, at, None)
        return at

    def _adjust_to_clock(self, jobs: Mapping[int, PeriodicJob]) -> datetime:
        """Adjust the plan if the wall clock was set; return the time of that clock up to which jobs
        are due.
        """
        now, steady = self._context.clock(), self._context.now()
        if self._reading is None:
            self._reading = now, steady
        then, steady_then = self._reading
        expected = then + timedelta(seconds=steady - steady_then)
        step = now - expected
        if abs(step) < _STEP:
            return now
        self._reading = now, steady
        self._context.logger.warning(
            "%s: the clock jumped by %+g s", self.name, step.total_seconds()
        )
        for handle, at in self._plan.items():
            if at != NEVER:
                self._plan[handle] = self._moved(jobs[handle], at, now, step)
        return min(expected, now)

    def _moved(self, job: PeriodicJob, at: datetime, now: datetime, step: timedelta) -> datetime:
        """Return when a job planned for `at` runs, after the clock was set by `step`."""
        if isinstance(job.schedule, PeriodicInterval):
            return at + step
        # If the clock is set back by less than the usual interval, the job does not run twice.
        if step < timedelta(0) and at - now > 2 * (self._after(job, at) - at):
            return self._after(job, now)
        return at

    def _due(self, jobs: Mapping[int, PeriodicJob], passed: datetime) -> list[_Waiting]:
        """Return a job for every run of the plan that is due, except runs across which the clock
        was set.
        """
        now = self._context.clock()
        due: list[tuple[datetime, _Waiting]] = []
        for handle, at in self._plan.items():
            job, made = jobs[handle], 0
            really = now if isinstance(job.schedule, PeriodicInterval) else passed
            while at < now + _MARGIN:
                if made == _MAX_MISSED:
                    self._context.logger.error(
                        "%s: %s missed more than %d runs, and continues from now",
                        self.name,
                        _named(job),
                        made,
                    )
                    at = self._skip(job, at, self._after(job, now))
                    break
                following = self._after(job, at if at < really else max(at, now))
                save = self._next_runs.following(job, at, following)
                requests = self._request(job, at)
                due += [(at, _Waiting(request, save)) for request in requests]
                made += 1
                at = following if requests else self._skip(job, at, following)
            self._plan[handle] = at
        return [waiting for _, waiting in sorted(due, key=lambda pair: pair[0])]

    def _skip(self, job: PeriodicJob, at: datetime, following: datetime) -> datetime:
        """Store a durable job's next run without inserting the current one; return it."""
        self._next_runs.save(job, following, at)
        return following

    def _new(self, jobs: Mapping[int, PeriodicJob]) -> list[_Waiting]:
        now = self._context.clock()
        requests: list[_Waiting] = []
        for handle, job in jobs.items():
            if handle not in self._plan:
                self._plan[handle] = self._plan_next_run(job, now)
                if job.run_on_start:
                    requests.extend(map(_Waiting, self._request(job, now)))
        return requests

    def _after(self, job: PeriodicJob, at: datetime) -> datetime:
        try:
            return next_time(job.schedule, at)
        except BaseException:
            # The program's own code may raise any exception.
            self._context.logger.exception(
                "%s: the schedule of %s failed, it will no longer be inserted",
                self.name,
                _named(job),
            )
            return NEVER

    def _request(self, job: PeriodicJob, at: datetime) -> list[InsertRequest]:
        """Return the job's request; nothing if its constructor skips this run."""
        try:
            made = job.construct()
            if made is None:
                return []
            request = self._prepare(made.args, made.insert_opts)
        except BaseException:
            self._context.logger.exception("%s: %s could not be built", self.name, _named(job))
            return []
        if request.scheduled_at is None:
            # It stays available, and is fetched at once: the planned time distinguishes it from the
            # last run.
            request.scheduled_at = at
        if job.id is not None:
            request.metadata["river:periodic_job_id"] = job.id
        request.metadata["periodic"] = True
        return [request]

    async def _insert(self) -> int:
        """Insert the waiting jobs, and return how many. Those that the database cannot insert now
        stay.
        """
        inserted = tries = 0
        at_once = _JOBS_PER_TRANSACTION
        while self._waiting and (self._term is None or self._term.trusted):
            batch = self._waiting[:at_once]
            try:
                async with asyncio.timeout(TIMEOUT.total_seconds()):
                    if self._sent is not None:
                        inserted += await self._read_lost_result(*self._sent)
                        continue
                    await self._send(batch)
                inserted += len(batch)
            except Overtaken as error:
                self._forget(error.ids)
                self._next_runs.distrust(error.ids)
                continue
            except _DATABASE_ERRORS as error:
                tries += 1
                if tries == _ATTEMPTS or not isinstance(error, DatabaseUnavailable):
                    self._keep(error)
                    return inserted
                await self._context.timing.sleep(backoff(tries))
                continue
            except Exception as error:
                if len(batch) > 1:
                    # One of them is the cause: insert the others without it.
                    at_once = 1
                    continue
                self._context.logger.error(
                    "%s: a job could not be inserted", self.name, exc_info=error
                )
                self._sent = None
            del self._waiting[: len(batch)]
        if not self._waiting and self._failing:
            self._failing = False
            self._context.logger.info("%s: all due jobs are inserted again", self.name)
        return inserted

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        def numbered(number: int) -> None:
            self._sent = number, len(batch)

        # Hooks may change the requests, so each try gets a copy.
        shown = [
            replace(request, metadata=deepcopy(request.metadata), tags=list(request.tags))
            for request, _ in batch
        ]
        beside = self._next_runs.beside([each.save for each in batch if each.save is not None])
        await self._insert_requests(shown, numbered=numbered, beside=beside)
        self._sent = None

    async def _read_lost_result(self, number: int, count: int) -> int:
        """Return how many jobs a transaction without a result has inserted after all."""
        async with self._context.executor() as executor:
            committed = await ServerStore(executor).transaction_committed(number)
        if committed is None:
            raise DatabaseUnavailable(
                "The database has not yet ended the transaction of the last try."
            )
        self._sent = None
        if not committed:
            return 0
        del self._waiting[:count]
        return count

    def _keep(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            self._context.logger.warning(
                "%s: %d jobs could not be inserted yet: %r", self.name, len(self._waiting), error
            )
        if self._sent is None and (excess := len(self._waiting) - _MAX_WAITING) > 0:
            del self._waiting[:excess]
            self._context.logger.error("%s: %d jobs were dropped", self.name, excess)


def _named(job: PeriodicJob) -> str:
    return repr(job.id) if job.id is not None else f"the job with {job.schedule!r}"
