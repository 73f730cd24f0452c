"""The operations on jobs in which features take part.

This is River's pilot, with River's list of operations. A feature is a `Feature` subclass in
`ClientConfig.features` that overrides only what it needs. Several features are wrapped around one
another: **the first of the list is the outermost, in every operation**, and storage is the
innermost. An operation in which no feature takes part is the plain storage call.

Operations in which a feature takes part run in a transaction: what the feature writes with the
given executor is committed or rolled back together with the rest of the operation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.lead.maintenance.service import MaintenanceService, ServiceContext
from riverui.engine.lead.next_runs import NextRuns
from riverui.engine.work.candidate_fetch import Chooser
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobDeleteBeforeParams,
    JobFetchParams,
    JobInsertParams,
    JobRescueParams,
    JobSetStateParams,
)
from riverui.storage.interface.job_actions import JobChanges

if TYPE_CHECKING:
    from riverui.engine.client_context import ClientContext
    from riverui.engine.work.producer import Producer

E = TypeVar("E")
P = TypeVar("P")
R = TypeVar("R")

Operation: TypeAlias = Callable[[E, P], Awaitable[R]]
"""An operation on jobs: executes its params with an executor."""

Inner: TypeAlias = Callable[[P], Awaitable[R]]
"""Continues an operation, for inner features and storage, with the same executor."""


class InsertBatch(NamedTuple):
    """Jobs to insert in one statement."""

    jobs: Sequence[JobInsertParams]
    notify: Sequence[str] = ()
    """Queues whose workers are notified."""
    fast: bool = False
    """Whether the jobs are copied (`insert_many_fast`): then the insert returns no rows. A feature
    that needs them continues with `batch._replace(fast=False)`.
    """

    def parts(self, most: int) -> Iterator[InsertBatch]:
        """Yield batches of up to `most` jobs, to be inserted in one transaction; all notifications
        are in the first batch, and are sent when it commits.
        """
        for start in range(0, len(self.jobs), most):
            jobs = self.jobs[start : start + most]
            yield self._replace(jobs=jobs, notify=() if start else self.notify)


class JobEnd(NamedTuple):
    """How one attempt at a job ended."""

    job: JobRow
    """The job as it was fetched."""
    change: JobSetStateParams


class StuckParams(NamedTuple):
    """Which running jobs the rescuer looks at."""

    attempted_before: datetime
    after_id: int
    limit: int


class RescueBatch(NamedTuple):
    """How to end the attempts of stuck jobs, if they have been running since before a time."""

    rescues: Sequence[JobRescueParams]
    attempted_before: datetime


class ProducerStatus(NamedTuple):
    """A queue as one client works it."""

    client_id: str
    queue: str
    max_workers: int
    running: tuple[int, ...] = ()
    """Ids of the running jobs."""


class Feature:
    """Takes part in what a client does to jobs. Override what you need: the rest costs nothing.

    An override of an operation calls `do_inner`, usually once, and returns the operation's result.
    An exception fails the operation: an insert or a person's action is rolled back, a fetch or the
    writing of outcomes is retried, a service's round is skipped.
    """

    ends_at_once = False
    """Whether `set_state_if_running_many` awaits only `do_inner` and the methods of synchronous
    drivers, so that SyncClient can complete jobs with it.
    """

    built_in = False
    """Whether it is one of riverui's own, which every client has."""
    lost_without = ""
    """What is lost while the leader is not a riverui client, as a clause; empty for nothing. The
    other clients log it.
    """
    marked = ""
    """Text in the metadata of its jobs: jobs without it reach neither `insert_many` nor
    `set_state_if_running_many`, and run none of the feature's code. Empty for a feature that
    decides in `wants_insert` and `wants_end`.
    """

    def wants_insert(self, job: JobInsertParams) -> bool:
        """Return whether batches with this job reach `insert_many`; by default all do.

        It is called for every job until one is wanted, so it must be fast.
        """
        return True

    def wants_fetch(self, queue: str) -> bool:
        """Return whether fetches from this queue reach `get_available`; by default all do. It is
        called before each fetch, so the result may change.
        """
        return True

    def wants_end(self, job: JobRow) -> bool:
        """Return whether ends of this job, as it was fetched, reach `set_state_if_running_many`,
        perhaps together with others; by default all do. It is called for every job, so it must be
        fast.
        """
        return True

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        """Insert jobs and return one result for each, in order; at most 5,000 at a time.

        It runs in the transaction of `insert_many_tx`, or in the insert's own. In a SyncClient only
        `do_inner` and the executor may be awaited.
        """
        return await do_inner(batch)

    def fetch_params(self, params: JobFetchParams) -> JobFetchParams:
        """Return which jobs a producer fetches; called once, when it starts."""
        return params

    async def get_available(
        self,
        executor: Executor,
        params: JobFetchParams,
        do_inner: Inner[JobFetchParams, Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        """Fetch up to `params.limit` jobs of one queue, make them running, and return them."""
        return await do_inner(params)

    def chooser(self, work: Producer) -> Chooser | None:
        """Return this feature's chooser among the waiting jobs of a queue, or None; called when a
        client starts to work a queue. See `engine.work.candidate_fetch`.
        """
        return None

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        """Write how attempts ended and return the updated rows, without missing ones.

        A job that is no longer running keeps its state. Up to 2,000 at a time; those of
        `job_complete_tx` come one by one, in the caller's transaction.
        """
        return await do_inner(ends)

    async def takes_part(self, executor: Executor) -> bool:
        """Return whether it takes part in `retry`, `cancel` and `delete`; called before each."""
        return True

    async def retry(
        self, executor: Executor, ids: Sequence[int], do_inner: Inner[Sequence[int], JobChanges]
    ) -> JobChanges:
        """Make jobs available at a person's request; the result lists each id once."""
        return await do_inner(ids)

    async def cancel(
        self, executor: Executor, ids: Sequence[int], do_inner: Inner[Sequence[int], JobChanges]
    ) -> JobChanges:
        """Cancel jobs at a person's request; the result lists each id once."""
        return await do_inner(ids)

    async def delete(
        self, executor: Executor, ids: Sequence[int], do_inner: Inner[Sequence[int], JobChanges]
    ) -> JobChanges:
        """Delete jobs at a person's request; the result lists each id once."""
        return await do_inner(ids)

    def queues_excluded_from_cleaning(self) -> Collection[str]:
        """Return the queues whose finished jobs the leader's job cleaner skips."""
        return ()

    async def delete_before(
        self,
        executor: Executor,
        params: JobDeleteBeforeParams,
        do_inner: Inner[JobDeleteBeforeParams, int],
    ) -> int:
        """Remove up to `params.limit` finished jobs for the leader's job cleaner; return how
        many.
        """
        return await do_inner(params)

    async def get_stuck(
        self,
        executor: Executor,
        params: StuckParams,
        do_inner: Inner[StuckParams, Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        """Return up to `params.limit` jobs that may be stuck, by id and above `params.after_id`."""
        return await do_inner(params)

    async def rescue_many(
        self,
        executor: Executor,
        batch: RescueBatch,
        do_inner: Inner[RescueBatch, Sequence[int]],
    ) -> Sequence[int]:
        """End the attempts of stuck jobs and return the ids of those changed."""
        return await do_inner(batch)

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        """Act when this client starts to work a queue. An exception prevents that."""

    async def producer_keep_alive(
        self, executor: Executor, producers: Sequence[ProducerStatus]
    ) -> None:
        """Act every 30 seconds on all queues that this client works. Errors are logged."""

    async def producer_stop(self, executor: Executor, producer: ProducerStatus) -> None:
        """Act when this client has left a queue, or could not start to work it.

        A client that stops has written its outcomes by then. Errors are logged; a killed client
        does not call this.
        """

    def client_services(self, client: ClientContext) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what each client runs in the background, by the names for logs: called at the
        client's start and cancelled at its stop. A service may return earlier; after an error it is
        called again.
        """
        return {}

    def services(self, context: ServiceContext) -> Sequence[MaintenanceService]:
        """Return services that the leader runs periodically; called once per start of a client."""
        return ()

    def next_runs(self, context: ServiceContext) -> NextRuns | None:
        """Return the store of periodic jobs' next runs, if the feature has one; called once per
        start of a client.
        """
        return None


class Pilot:
    """A client's features, composed once: each operation is one call."""

    def __init__(self, features: Sequence[Feature] = ()) -> None:
        self.features = tuple(features)
        self.insert_many = _composed(features, Feature.insert_many, plain_insert_many)
        self.get_available = _composed(features, Feature.get_available, plain_get_available)
        self.set_state_if_running_many = _composed(
            features, Feature.set_state_if_running_many, plain_set_state_if_running_many
        )
        self.delete_before = _composed(features, Feature.delete_before, plain_delete_before)
        self.get_stuck = _composed(features, Feature.get_stuck, plain_get_stuck)
        self.rescue_many = _composed(features, Feature.rescue_many, plain_rescue_many)
        self._ending = ending = _overriding(features, Feature.set_state_if_running_many)
        self._ending_marks = _marks(ending)
        self._wants_end = tuple(feature.wants_end for feature in ending if not feature.marked)
        self._fetching = _overriding(features, Feature.get_available)
        inserting = _overriding(features, Feature.insert_many)
        self._inserting_marks = _marks(inserting)
        self._wants_insert = tuple(
            feature.wants_insert for feature in inserting if not feature.marked
        )
        self._starting = _overriding(features, Feature.producer_start)
        self._keeping_alive = _overriding(features, Feature.producer_keep_alive)
        self._stopping = _overriding(features, Feature.producer_stop)

    def choosers(self, work: Producer) -> Sequence[Chooser]:
        """Return the choosers among the waiting jobs of a queue, in the order of the features."""
        choosers = (feature.chooser(work) for feature in self.features)
        return [chooser for chooser in choosers if chooser is not None]

    def fetching(
        self, innermost: Operation[Executor, JobFetchParams, Sequence[JobRow]]
    ) -> Operation[Executor, JobFetchParams, Sequence[JobRow]]:
        """Return `get_available` with another operation than storage's as the innermost."""
        return _composed(self.features, Feature.get_available, innermost)

    @property
    def ends(self) -> bool:
        """Whether a feature takes part in writing how attempts ended."""
        return self.set_state_if_running_many is not plain_set_state_if_running_many

    def wants_insert(self, jobs: Iterable[JobInsertParams]) -> bool:
        """Return whether a feature takes part in inserting any of these jobs."""
        for job in jobs:
            for mark in self._inserting_marks:
                if mark in job.metadata:
                    return True
            for wants_insert in self._wants_insert:
                if wants_insert(job):
                    return True
        return False

    def wants_fetch(self, queue: str) -> bool:
        """Return whether a feature takes part in the next fetch from this queue."""
        return any(feature.wants_fetch(queue) for feature in self._fetching)

    def wants_end(self, job: JobRow) -> bool:
        """Return whether a feature takes part in writing how attempts at this job end."""
        # A loop, as this runs for every job: `any` takes twice as long.
        for mark in self._ending_marks:
            if mark in job.metadata:
                return True
        for wants_end in self._wants_end:  # noqa: SIM110
            if wants_end(job):
                return True
        return False

    def ends_at_once(self, job: JobRow) -> bool:
        """Return whether a synchronous driver can write how attempts at this job end."""
        return all(
            feature.ends_at_once
            for feature in self._ending
            if (feature.marked in job.metadata if feature.marked else feature.wants_end(job))
        )

    async def retry(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Make jobs available."""
        return await self._verb(Feature.retry, plain_retry, executor, ids)

    async def cancel(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Cancel jobs."""
        return await self._verb(Feature.cancel, plain_cancel, executor, ids)

    async def delete(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Delete jobs."""
        return await self._verb(Feature.delete, plain_delete, executor, ids)

    async def _verb(
        self,
        method: Callable[..., Awaitable[JobChanges]],
        plain: Operation[Executor, Sequence[int], JobChanges],
        executor: Executor,
        ids: Sequence[int],
    ) -> JobChanges:
        operation = plain
        for feature in reversed(_overriding(self.features, method)):
            if await feature.takes_part(executor):
                operation = _around(getattr(feature, method.__name__), operation)
        return await operation(executor, ids)

    @property
    def verb_features(self) -> str:
        """Return the names of all features if one of the program's own takes part in retry, cancel
        or delete; otherwise an empty text.
        """
        given = tuple(feature for feature in self.features if not feature.built_in)
        if not any(
            _overriding(given, verb) for verb in (Feature.retry, Feature.cancel, Feature.delete)
        ):
            return ""
        return ",".join(type(feature).__name__ for feature in self.features)

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return whether deleting jobs is a plain storage call."""
        for feature in _overriding(self.features, Feature.delete):
            if await feature.takes_part(executor):
                return False
        return True

    @property
    def cleans(self) -> bool:
        """Whether a feature takes part in removing finished jobs."""
        return self.delete_before is not plain_delete_before

    @property
    def rescues(self) -> bool:
        """Whether a feature takes part in reading or rescuing stuck jobs."""
        return self.get_stuck is not plain_get_stuck or self.rescue_many is not plain_rescue_many

    @property
    def starts(self) -> bool:
        """Whether a feature is called when producers start."""
        return bool(self._starting)

    @property
    def keeps_alive(self) -> bool:
        """Whether a feature gets keep-alive calls."""
        return bool(self._keeping_alive)

    @property
    def stops(self) -> bool:
        """Whether a feature is called when producers stop."""
        return bool(self._stopping)

    @property
    def queues_excluded_from_cleaning(self) -> tuple[str, ...]:
        """Return the queues that the job cleaner leaves to features, by name."""
        excluded = {
            queue for feature in self.features for queue in feature.queues_excluded_from_cleaning()
        }
        return tuple(sorted(excluded))

    def fetch_params(self, params: JobFetchParams) -> JobFetchParams:
        """Return the params of each fetch of a producer."""
        return reduce(lambda asked, feature: feature.fetch_params(asked), self.features, params)

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        """Notify the features, first to last, that this client starts to work a queue."""
        for feature in self._starting:
            await feature.producer_start(executor, producer)

    async def producer_keep_alive(
        self, executor: Executor, producers: Sequence[ProducerStatus]
    ) -> None:
        """Notify the features, first to last, which queues this client works."""
        for feature in self._keeping_alive:
            await feature.producer_keep_alive(executor, producers)

    async def producer_stop(self, executor: Executor, producer: ProducerStatus) -> None:
        """Notify the features, last to first, that this client no longer works a queue."""
        for feature in reversed(self._stopping):
            await feature.producer_stop(executor, producer)

    def services(self, context: ServiceContext) -> Sequence[MaintenanceService]:
        """Return the services that features add to the leader's."""
        return [service for feature in self.features for service in feature.services(context)]

    def next_runs(self, context: ServiceContext) -> NextRuns:
        """Return the store of periodic jobs' next runs: the first that a feature has."""
        kept = (feature.next_runs(context) for feature in self.features)
        return next((each for each in kept if each is not None), NextRuns())


async def plain_insert_many(executor: Executor, batch: InsertBatch) -> Sequence[InsertResult]:
    """Insert jobs without any feature."""
    if batch.fast:
        await executor.jobs.insert_many_fast(batch.jobs, notify=batch.notify)
        return []
    return await executor.jobs.insert_many(batch.jobs, notify=batch.notify)


def plain_get_available(executor: Executor, params: JobFetchParams) -> Awaitable[Sequence[JobRow]]:
    """Fetch jobs without any feature."""
    return executor.work.get_available(params)


async def plain_set_state_if_running_many(
    executor: Executor, ends: Sequence[JobEnd]
) -> Sequence[JobRow]:
    """Write how attempts ended without any feature."""
    if len(ends) == 1:
        return await executor.work.set_state_many([end.change for end in ends])
    # Jobs that only become completed, with nothing else to write, need not be returned as rows.
    quick = [end for end in ends if _only_completes(end)]
    removed = [end for end in quick if end.change.ephemeral]
    kept = [end for end in quick if not end.change.ephemeral]
    written = {
        *await executor.work.complete_many(
            [end.job.id for end in kept],
            [cast(datetime, end.change.finalized_at) for end in kept],
            of_attempts=[end.job.attempt for end in kept],
        ),
        *await executor.work.delete_completed_many(
            [end.job.id for end in removed],
            of_attempts=[end.job.attempt for end in removed],
        ),
    }
    rows = [
        end.job._replace(state=end.change.state, finalized_at=end.change.finalized_at)
        for end in quick
        if end.job.id in written
    ]
    if others := [end.change for end in ends if end.job.id not in written]:
        rows += await executor.work.set_state_many(others)
    return rows


_NOTHING = (None, None, None, None)


def _only_completes(end: JobEnd) -> bool:
    """Return whether an end completes or removes a job, and writes nothing else."""
    change = end.change
    return (
        change.state is JobState.COMPLETED
        and change.finalized_at is not None
        and change.of_attempt == end.job.attempt
        and (change.attempt, change.error, change.scheduled_at, change.metadata) == _NOTHING
    )


def plain_retry(executor: Executor, ids: Sequence[int]) -> Awaitable[JobChanges]:
    """Make jobs available without any feature."""
    return executor.jobs.retry_many(ids)


def plain_cancel(executor: Executor, ids: Sequence[int]) -> Awaitable[JobChanges]:
    """Cancel jobs without any feature."""
    return executor.jobs.cancel_many(ids)


def plain_delete(executor: Executor, ids: Sequence[int]) -> Awaitable[JobChanges]:
    """Delete jobs without any feature."""
    return executor.jobs.delete_many(ids)


def plain_delete_before(executor: Executor, params: JobDeleteBeforeParams) -> Awaitable[int]:
    """Remove finished jobs without any feature."""
    return executor.work.delete_before(params)


def plain_get_stuck(executor: Executor, params: StuckParams) -> Awaitable[Sequence[JobRow]]:
    """Return jobs that may be stuck without any feature."""
    return executor.work.get_stuck(
        attempted_before=params.attempted_before, after_id=params.after_id, limit=params.limit
    )


def plain_rescue_many(executor: Executor, batch: RescueBatch) -> Awaitable[Sequence[int]]:
    """End the attempts of stuck jobs without any feature."""
    return executor.work.rescue_many(batch.rescues, attempted_before=batch.attempted_before)


def _overriding(features: Sequence[Feature], method: Callable[..., object]) -> tuple[Feature, ...]:
    """Return the features that override this method."""
    name = method.__name__
    return tuple(feature for feature in features if getattr(type(feature), name) is not method)


def _marks(features: Iterable[Feature]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(feature.marked for feature in features if feature.marked))


def _composed(
    features: Sequence[Feature],
    method: Callable[[Feature, E, P, Inner[P, R]], Awaitable[R]],
    plain: Operation[E, P, R],
) -> Operation[E, P, R]:
    """Return the operation with the overriding features around it, the first one outermost."""
    operation = plain
    for feature in reversed(_overriding(features, method)):
        operation = _around(getattr(feature, method.__name__), operation)
    return operation


def _around(
    outer: Callable[[E, P, Inner[P, R]], Awaitable[R]], inner: Operation[E, P, R]
) -> Operation[E, P, R]:
    return lambda executor, params: outer(executor, params, partial(inner, executor))
