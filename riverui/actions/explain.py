"""Finds out why a job is not running, for pages, the API and the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from riverui.actions import holds
from riverui.domain.explain import LATE_AFTER, Explanation, explain
from riverui.domain.job_facts import JobFacts, JobLine, JobLock, Overtaking, QueueWork, Unread
from riverui.domain.job_holds import LimitHold, RateHold, ShareHold
from riverui.domain.jobs import FINALIZED, JobShowRow, JobState
from riverui.domain.queues import LeaderRow, QueueRow
from riverui.errors import DatabaseError, QueryTimeout
from riverui.features.sequences import verbs as sequences
from riverui.features.sequences.domain import SequencePlace
from riverui.features.workflows.domain.pages import TaskPlace
from riverui.features.workflows.store import WORKFLOW_TABLE
from riverui.storage.interface import EXPLANATIONS, OWN_TABLES, WORKFLOW_PAGES, Driver, Executor

_CUT = 1_000
"""Characters that are read of each long text of a job: the beginning of an error is enough."""
_WORKFLOW = '"workflow_id"'
"""What stands in the metadata of each task of a workflow."""
_NOT_ASKED = Unread(why="It does not matter in this state.")

_Fact = TypeVar("_Fact")


async def job_explain(driver: Driver, id: int) -> tuple[JobShowRow, Explanation] | None:
    """Return a job, its long texts cut, and why it is not running; None where there is no such job.

    A job too large to be read in time comes without what is in its JSON.
    """
    try:
        async with driver.reading() as executor:
            job = await executor.job_get(id, cut=_CUT)
    except QueryTimeout:
        async with driver.reading() as executor:
            job = await executor.job_get(id, lean=True)
    return None if job is None else (job, await explain_row(driver, job))


async def explain_row(driver: Driver, job: JobShowRow) -> Explanation:
    """Return why a job that has been read is not running.

    Only what matters in its state is read, each fact in a statement of its own: one that cannot be
    read makes its checks say that they cannot tell.
    """
    queue: QueueRow | Unread | None = None
    leader: LeaderRow | Unread | None = None
    line: JobLine | Unread = _NOT_ASKED
    work: QueueWork | Unread = _NOT_ASKED
    lock: JobLock | Unread | None = None
    ended = job.state in FINALIZED
    if not ended:
        queue = await _fact(driver, lambda executor: executor.queue_row_get(job.queue))
    if job.state in (JobState.SCHEDULED, JobState.RETRYABLE, JobState.RUNNING):
        leader = await _fact(driver, lambda executor: executor.leader_get())
    if EXPLANATIONS not in driver.capabilities:
        line = work = lock = Unread(why=EXPLANATIONS.missing)
    elif not ended:
        if job.state is JobState.AVAILABLE:
            line = await _fact(
                driver,
                lambda executor: EXPLANATIONS.on(executor).job_line_get(
                    job.queue,
                    priority=job.priority,
                    scheduled_at=job.scheduled_at,
                    id=job.id,
                ),
            )
        work = await _fact(
            driver,
            lambda executor: EXPLANATIONS.on(executor).queue_work_get(job.queue, kind=job.kind),
        )
        lock = await _fact(driver, lambda executor: EXPLANATIONS.on(executor).job_lock_get(job.id))
    now = datetime.now(UTC)
    clients = holds.QueueClients() if ended else await holds.queue_clients(driver, job.queue)
    reports = clients.kind(job.kind)
    overtaking: Overtaking | Unread | None = None
    if (
        EXPLANATIONS in driver.capabilities
        and job.state is JobState.AVAILABLE
        and now - job.scheduled_at > LATE_AFTER
        and not (reports and reports.working)
    ):
        overtaking = await _fact(
            driver,
            lambda executor: EXPLANATIONS.on(executor).job_overtaken_get(
                job.queue,
                kind=job.kind,
                priority=job.priority,
                scheduled_at=job.scheduled_at,
                id=job.id,
                # The leader may have made it available some seconds after it was due.
                after=job.scheduled_at + LATE_AFTER,
            ),
        )
    limit: LimitHold | Unread | None = None
    rate: RateHold | Unread | None = None
    share: ShareHold | Unread | None = None
    if job.state is JobState.AVAILABLE and isinstance(queue, QueueRow):
        terms = clients.terms(job.queue)
        limit = await holds.limit_hold(driver, job, queue, now)
        rate = await holds.rate_hold(driver, job, queue, terms)
        share = await holds.share_hold(driver, job, terms)
    return explain(
        JobFacts(
            job=job,
            now=now,
            queue=queue,
            leader=leader,
            line=line,
            work=work,
            overtaking=overtaking,
            kind_reports=reports,
            lock=Unread(why="The job is gone.") if lock is None else lock,
            workflow=await _place(driver, job),
            sequence=await _sequence(driver, job),
            slots=clients.slots(job.queue) if job.state is JobState.AVAILABLE else None,
            limit=limit,
            rate=rate,
            share=share,
            batch=clients.batch(job) if job.state is JobState.RUNNING else None,
        )
    )


async def workflow_place(driver: Driver, job: JobShowRow) -> TaskPlace | None:
    """Return a job's place in a workflow of riverui's own; None where it is in none."""
    own = {WORKFLOW_PAGES, OWN_TABLES}.issubset(driver.capabilities)
    # Metadata that are cut may have had the key.
    if not own or (_WORKFLOW not in job.metadata.text and job.metadata.complete):
        return None
    async with driver.reading() as executor:
        if not await WORKFLOW_TABLE.exists(executor):
            return None
        return await WORKFLOW_PAGES.on(executor).workflow_place_get(job_id=job.id)


async def _place(driver: Driver, job: JobShowRow) -> TaskPlace | Unread | None:
    """Return the place of a job that may wait for others, or that it could not be read."""
    if job.state not in (JobState.PENDING, JobState.CANCELLED):
        return None
    try:
        return await workflow_place(driver, job)
    except DatabaseError as error:
        return Unread(why=error.public)


async def _sequence(driver: Driver, job: JobShowRow) -> SequencePlace | Unread | None:
    """Return where a job stands in its sequence that may wait in it, or halt it."""
    if job.state not in (JobState.PENDING, JobState.CANCELLED, JobState.DISCARDED):
        return None
    try:
        return await sequences.place(driver, job)
    except DatabaseError as error:
        return Unread(why=error.public)


async def _fact(driver: Driver, read: Callable[[Executor], Awaitable[_Fact]]) -> _Fact | Unread:
    """Return what `read` gives in a transaction of its own, or that it could not be read."""
    try:
        async with driver.reading() as executor:
            return await read(executor)
    except DatabaseError as error:
        return Unread(why=error.public)
