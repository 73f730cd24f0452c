"""Inserts periodic jobs when their time has come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta

from riverui.domain.schedules import NEVER, next_time
from riverui.engine.hooks import Hook, settle
from riverui.engine.insert import InsertOpts, InsertRequest
from riverui.engine.leader import Term
from riverui.engine.maintenance.rounds import TIMEOUT, Means, one_round
from riverui.engine.periodic import PeriodicJob, PeriodicJobs
from riverui.engine.waiting import backoff, wait
from riverui.errors import DatabaseUnavailable, QueryTimeout

Prepare = Callable[[object, InsertOpts | None], InsertRequest]
"""Checks one job and makes the request of it."""
InsertRequests = Callable[[Sequence[InsertRequest]], Awaitable[object]]
"""The client's usual way of inserting, in a transaction of its own."""

_MARGIN = timedelta(milliseconds=100)
"""What is due by then goes along."""
_RECHECK = 60.0
_ATTEMPTS = 3


class PeriodicEnqueuer:
    """Plans each job anew at the begin of a term; nothing of the plan outlives it, unless jobs are unique."""

    name = "periodic jobs"

    def __init__(
        self,
        means: Means,
        jobs: PeriodicJobs,
        *,
        prepare: Prepare,
        insert_requests: InsertRequests,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self._means = means
        self._jobs = jobs
        self._prepare = prepare
        self._insert_requests = insert_requests
        self._hooks = hooks
        self._plan: dict[int, datetime] = {}
        """When each job comes next, by handle."""

    async def start(self) -> None:
        """Begins a term: an empty plan, and the hooks are told; their errors are raised."""
        self._plan = {}
        for hook in self._hooks:
            await settle(hook.periodic_jobs_start())

    async def run(self, term: Term) -> None:
        """A round whenever a job is due or added."""
        added = asyncio.Event()
        loop = asyncio.get_running_loop()
        await self._means.pace.begin()
        with self._jobs.watched(lambda: loop.call_soon_threadsafe(added.set)):
            while True:
                # The wall clock may be set meanwhile, and machines sleep: it is looked at once in a while.
                seconds = _RECHECK
                if term.trusted:
                    await one_round(self.name, self.run_once, self._means)
                    seconds = min((self._next() - self._means.clock()).total_seconds(), seconds)
                await wait(added, seconds, sleep=self._means.pace.sleep)
                added.clear()

    async def run_once(self) -> int:
        """Inserts what is due, one job for each schedule, and what is new and to run on start; how many."""
        jobs = self._jobs.by_handle()
        self._plan = {handle: at for handle, at in self._plan.items() if handle in jobs}
        return await self._insert(self._due(jobs)) + await self._insert(self._new(jobs))

    def _next(self) -> datetime:
        return min(self._plan.values(), default=NEVER)

    def _due(self, jobs: Mapping[int, PeriodicJob]) -> list[InsertRequest]:
        limit = self._means.clock() + _MARGIN
        requests = []
        for handle, at in self._plan.items():
            if at < limit:
                requests.extend(self._request(jobs[handle], at))
                self._plan[handle] = self._after(jobs[handle], at)
        return requests

    def _new(self, jobs: Mapping[int, PeriodicJob]) -> list[InsertRequest]:
        now = self._means.clock()
        requests = []
        for handle, job in jobs.items():
            if handle not in self._plan:
                self._plan[handle] = self._after(job, now)
                if job.run_on_start:
                    requests.extend(self._request(job, now))
        return requests

    def _after(self, job: PeriodicJob, at: datetime) -> datetime:
        try:
            return next_time(job.schedule, at)
        except BaseException:
            # The program's own code, which may raise anything.
            self._means.logger.exception(
                "%s: the schedule of %s is broken, it is not inserted any more", self.name, _named(job)
            )
            return NEVER

    def _request(self, job: PeriodicJob, at: datetime) -> list[InsertRequest]:
        """The job as it is to be inserted; nothing where there is none this time."""
        try:
            made = job.construct()
            if made is None:
                return []
            request = self._prepare(made.args, made.insert_opts)
        except BaseException:
            self._means.logger.exception("%s: %s could not be made", self.name, _named(job))
            return []
        if request.scheduled_at is None:
            # It stays available, and is fetched at once: the planned time tells it from the one before.
            request.scheduled_at = at
        if job.id is not None:
            request.metadata["river:periodic_job_id"] = job.id
        request.metadata["periodic"] = True
        return [request]

    async def _insert(self, requests: Sequence[InsertRequest]) -> int:
        """Inserts all of them, or each by itself where one makes that fail; how many.

        What cannot be inserted is logged as an error, and comes again by its schedule.
        """
        if not requests:
            return 0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with asyncio.timeout(TIMEOUT.total_seconds()):
                    await self._insert_requests(requests)
                return len(requests)
            except DatabaseUnavailable as error:
                # Pooled connections that a restart of the database has cut show themselves only when used. In
                # the rare case that the answer alone was lost, jobs that are not unique are inserted twice.
                problem: Exception = error
                if attempt < _ATTEMPTS:
                    await self._means.pace.sleep(backoff(attempt))
            except Exception as error:
                if len(requests) > 1 and not isinstance(error, TimeoutError | QueryTimeout):
                    return sum([await self._insert([request]) for request in requests])
                problem = error
                break
        self._means.logger.error(
            "%s: %d jobs could not be inserted", self.name, len(requests), exc_info=problem
        )
        return 0


def _named(job: PeriodicJob) -> str:
    return repr(job.id) if job.id is not None else f"the job with {job.schedule!r}"
