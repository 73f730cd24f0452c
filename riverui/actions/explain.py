"""Explain why a job is not running, for pages, the API and the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from riverui.actions.facts import FactReader
from riverui.actions.queue_clients import QueueClients, queue_clients
from riverui.domain.explain.explanation import explain
from riverui.domain.explain.facts import LATE_AFTER, Hold, JobFacts
from riverui.domain.findings import Diagnosis, Unread
from riverui.domain.jobs import FINALIZED, JobShowRow, JobState
from riverui.errors import QueryTimeout
from riverui.storage.interface import Driver, Executor
from riverui.storage.stores.explanations import ExplanationStore

_CUT = 1_000
"""Characters to read of each long text of a job: the beginning of an error is enough."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class JobHold(Hold[_Found]):
    """A feature's reason why a job is not running, and how its fact is read."""

    states: Collection[JobState]
    """The states in which it may hold a job; an available job only once it is due."""
    read: Callable[[Executor, JobFacts], Awaitable[_Found | None]]
    """Return the feature's fact; None if the feature does not hold the job."""


async def job_explain(
    driver: Driver, id: int, holds: Iterable[JobHold[Any]]
) -> tuple[JobShowRow, Diagnosis] | None:
    """Return a job, its long texts cut, and why it is not running; None if there is no such job. A
    job that is too large to read in time is returned without its JSON.
    """
    try:
        async with driver.reading() as executor:
            job = await executor.jobs.get(id, cut=_CUT)
    except QueryTimeout:
        async with driver.reading() as executor:
            job = await executor.jobs.get(id, lean=True)
    return None if job is None else (job, await explain_row(driver, job, holds))


async def explain_row(driver: Driver, job: JobShowRow, holds: Iterable[JobHold[Any]]) -> Diagnosis:
    """Return why this job is not running.

    Only the facts that matter in its state are read, each by a statement with a time limit. A fact
    that cannot be read makes its checks unknown.
    """
    facts = JobFacts(job=job, now=datetime.now(UTC))
    async with FactReader(driver) as reader:
        if job.state in (JobState.SCHEDULED, JobState.RETRYABLE, JobState.RUNNING):
            facts.leader = await reader.fact(lambda db: db.leader.get())
        if job.state not in FINALIZED:
            await _read_around(reader, facts)
        for hold in holds:
            await _read_hold(reader, hold, facts)
    return explain(facts)


async def _read_hold(reader: FactReader, hold: JobHold[Any], facts: JobFacts) -> None:
    """Read a feature's fact about the job, if it may hold the job."""
    state = facts.job.state
    if state not in hold.states or (state is JobState.AVAILABLE and not facts.in_line):
        return
    found = await reader.fact(lambda db: hold.read(db, facts))
    if found is not None:
        facts.holds[hold] = found


async def _read_around(reader: FactReader, facts: JobFacts) -> None:
    """Read the facts about a job that has not ended."""
    job, fact = facts.job, reader.fact
    facts.queue = await fact(lambda db: db.queues.row_get(job.queue))
    facts.work = await fact(
        lambda db: ExplanationStore(db).queue_work_get(job.queue, kind=job.kind)
    )
    lock = await fact(lambda db: ExplanationStore(db).job_lock_get(job.id))
    facts.lock = Unread(why="The job no longer exists.") if lock is None else lock
    clients = await fact(lambda db: queue_clients(db, job.queue))
    if isinstance(clients, Unread):
        clients = QueueClients()
    facts.kind_reports = clients.kind(job.kind)
    facts.terms = clients.terms(job.queue)
    if job.state is JobState.RUNNING:
        facts.batch = clients.batch(job)
    if job.state is not JobState.AVAILABLE:
        return
    place: dict[str, Any] = {
        "priority": job.priority,
        "scheduled_at": job.scheduled_at,
        "id": job.id,
    }
    facts.line = await fact(lambda db: ExplanationStore(db).job_line_get(job.queue, **place))
    facts.slots = clients.slots(job.queue)
    worked = facts.kind_reports is not None and facts.kind_reports.working
    if facts.now - job.scheduled_at > LATE_AFTER and not worked:
        # The leader may have made it available some seconds after it was due.
        after = job.scheduled_at + LATE_AFTER
        facts.overtaking = await fact(
            lambda db: ExplanationStore(db).job_overtaken_get(
                job.queue, kind=job.kind, after=after, **place
            )
        )
