"""Ends the attempts of jobs that are stuck or whose client is dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.text import counted
from riverui.engine.config import ClientConfig
from riverui.engine.lead.maintenance.service import (
    SET_ASIDE_SECONDS,
    BatchSize,
    ServiceContext,
    in_batches,
)
from riverui.engine.pilot import Pilot, RescueBatch, StuckParams
from riverui.engine.work.outcome import error_text, next_retry
from riverui.engine.work.set_aside import SetAside, is_rows_fault, passing_over
from riverui.engine.work.worker import Job, WorkUnit, retry_for
from riverui.engine.work.worker_settings import timeout_of
from riverui.errors import DatabaseError
from riverui.features.heartbeats.store import ClientStore, DeadClient
from riverui.features.heartbeats.verbs import cancel_requested, ended, retried
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobRescueParams

_BATCH = 1_000
"""Jobs per statement: fewer than River's figure, as these rows include args, which may be large."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rescued:
    """The result of one round."""

    cancelled: int = 0
    discarded: int = 0
    retried: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    """Stuck jobs of kinds without a worker in this client, by kind, if they are left alone."""


class _Stuck(NamedTuple):
    """Which jobs to process, and how."""

    attempted_before: datetime
    """Jobs attempted later are left alone."""
    read: Callable[[Executor, int, int], Awaitable[Sequence[JobRow]]]
    """Returns up to so many jobs, by id and above one."""
    first: Callable[[Executor, int], Awaitable[int | None]]
    """Returns the id of the first job above one."""
    decide: Callable[[Sequence[JobRow], Counter[str]], list[JobRescueParams]]
    """Returns how to end their attempts; jobs left alone are counted by kind."""


class JobRescuer:
    """Retries jobs that have been running for longer than `rescue_after`, and than their timeout.

    Their worker may still be running: the outcome that it reports later is ignored.
    """

    name = "job rescuer"
    interval = timedelta(seconds=30)

    def __init__(
        self,
        context: ServiceContext,
        config: ClientConfig,
        *,
        pilot: Pilot,
        size: BatchSize | None = None,
    ) -> None:
        self._aside = SetAside(self.name, context.logger, seconds=SET_ASIDE_SECONDS)
        self._config = config
        self._context = context
        self._pilot = pilot
        self._size = size or BatchSize(_BATCH, _BATCH // 10)

    async def run_once(self) -> Rescued:
        """Process every stuck job, and return the result."""
        before = self._context.clock() - self._config.rescue_after

        async def read(executor: Executor, last: int, limit: int) -> Sequence[JobRow]:
            return await self._pilot.get_stuck(executor, StuckParams(before, last, limit))

        async def first(executor: Executor, last: int) -> int | None:
            return await executor.work.first_stuck(attempted_before=before, after_id=last)

        return await self._rescue(_Stuck(before, read, first, self._decide))

    async def rescue_client(self, dead: DeadClient) -> Rescued:
        """Process every job of a dead client, and return the result.

        These jobs no longer run, so neither their time limit nor whether this client knows their
        kind matters.
        """

        async def read(executor: Executor, last: int, limit: int) -> Sequence[JobRow]:
            return await ClientStore(executor).job_get_held(dead, after_id=last, limit=limit)

        async def first(executor: Executor, last: int) -> int | None:
            return await ClientStore(executor).job_first_held(dead, after_id=last)

        return await self._rescue(
            _Stuck(dead.attempted_before, read, first, self._decide_dead_client)
        )

    async def _rescue(self, jobs: _Stuck) -> Rescued:
        states: Counter[JobState] = Counter()
        unknown: Counter[str] = Counter()
        last = 0

        async def rescue(limit: int) -> int:
            nonlocal last
            async with self._begin() as executor:
                stuck = await jobs.read(executor, last, limit)
            if not stuck:
                return 0
            last = stuck[-1].id
            rescues = jobs.decide(stuck, unknown)
            changed = await self._write(rescues, jobs.attempted_before)
            states.update(rescue.state for rescue in rescues if rescue.id in changed)
            return len(stuck)

        async def first() -> int | None:
            """Return the next job, which cannot be read."""
            nonlocal last
            async with self._context.executor() as executor:
                found = await jobs.first(executor, last)
            last = found or last
            return found

        await in_batches(
            self._size,
            lambda limit: passing_over(limit, rescue, first, self._aside),
            self._context.timing,
        )
        done = Rescued(
            cancelled=states[JobState.CANCELLED],
            discarded=states[JobState.DISCARDED],
            retried=states[JobState.RETRYABLE],
            unknown=unknown,
        )
        self._log(done)
        return done

    def _begin(self) -> AbstractAsyncContextManager[Executor]:
        """Return a transaction if a feature takes part, otherwise autocommit."""
        return self._context.transaction() if self._pilot.rescues else self._context.executor()

    async def _write(self, rescues: Sequence[JobRescueParams], before: datetime) -> set[int]:
        """Write the decisions and return the ids of the jobs changed. If one makes the statement
        fail, halves are written separately.
        """
        if not rescues:
            return set()
        try:
            async with self._begin() as executor:
                return set(await self._pilot.rescue_many(executor, RescueBatch(rescues, before)))
        except DatabaseError as error:
            if not is_rows_fault(error):
                raise
            if len(rescues) == 1:
                self._aside.log(rescues[0].id, error)
                return set()
        middle = len(rescues) // 2
        return await self._write(rescues[:middle], before) | await self._write(
            rescues[middle:], before
        )

    def _decide(self, stuck: Sequence[JobRow], unknown: Counter[str]) -> list[JobRescueParams]:
        config, now = self._config, self._context.clock()
        rescues: list[JobRescueParams] = []
        for row in stuck:
            unit = config.workers.get(row.kind) if config.workers else None
            if cancel_requested(row):
                rescues.append(ended(row, JobState.CANCELLED, now))
            elif unit is not None:
                rescues.extend(self._decide_known(row, unit, now))
            elif config.discard_unknown_stuck_jobs:
                rescues.append(ended(row, JobState.DISCARDED, now))
            else:
                unknown[row.kind] += 1
        return rescues

    def _decide_dead_client(self, held: Sequence[JobRow], _: Counter[str]) -> list[JobRescueParams]:
        """Return whether each job of a dead client is cancelled, retried or discarded. Unlike
        `_decide`, unknown kinds are included and time limits do not apply.
        """
        config, now = self._config, self._context.clock()
        rescues: list[JobRescueParams] = []
        for row in held:
            unit = config.workers.get(row.kind) if config.workers else None
            if cancel_requested(row):
                rescues.append(ended(row, JobState.CANCELLED, now))
            elif unit is None:
                rescues.append(self._retry_or_discard(row, now))
            else:
                rescues.extend(self._decide_known(row, unit, now, dead=True))
        return rescues

    def _decide_known(
        self, row: JobRow, unit: WorkUnit, now: datetime, *, dead: bool = False
    ) -> Iterator[JobRescueParams]:
        """Decide by the rules of the job's own worker, if its args can be read. Unless its client
        is `dead`, its time limit applies.
        """
        config, logger = self._config, self._context.logger
        job: Job[object] | None = None
        try:
            for plugin in config.plugins:
                row = plugin.opened(row)
            job = Job(row, unit.decode(row.args))
            timeout = timeout_of(unit.worker, job, config.job_timeout)
        except BaseException as error:
            # Both may run the program's own code, which may raise any exception.
            logger.warning("%s: job %d: %s", self.name, row.id, error_text(error))
        else:
            taken = now - (row.attempted_at or row.created_at)
            if not dead and (timeout < timedelta(0) or taken < timeout):
                return
        yield self._retry_or_discard(row, now, unit, job)

    def _retry_or_discard(
        self,
        row: JobRow,
        now: datetime,
        unit: WorkUnit | None = None,
        job: Job[object] | None = None,
    ) -> JobRescueParams:
        """Return how to retry or discard a job, by its attempts and its worker's retry policy."""
        retry = retry_for(unit, self._config.retry)
        if row.attempt >= row.max_attempts or (retry is not None and retry.used_up(row)):
            return ended(row, JobState.DISCARDED, now)
        retry_at = next_retry(
            row,
            now,
            worker=None if unit is None else unit.worker,
            job=job,
            retry=retry,
            policy=self._config.retry_policy,
            logger=self._context.logger,
        )
        return retried(row, now, retry_at)

    def _log(self, done: Rescued) -> None:
        if done.cancelled or done.discarded or done.retried:
            self._context.logger.info(
                "%s: %s to be retried, %d discarded, %d cancelled",
                self.name,
                counted(done.retried, "job"),
                done.discarded,
                done.cancelled,
            )
        if done.unknown:
            self._context.logger.warning(
                "%s: left %d stuck jobs alone, as this client has no worker of their kind: %s",
                self.name,
                done.unknown.total(),
                ", ".join(kind for kind, _ in done.unknown.most_common(10)),
            )
