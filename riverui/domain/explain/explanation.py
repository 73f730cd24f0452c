"""Explains why a job is not running: all checks in order, and those of its row and client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from riverui.domain.explain.facts import (
    CANCEL_UNHEARD_AFTER,
    LATE_AFTER,
    REPORTED_WITHIN,
    RESCUED_AFTER,
    SILENT_AFTER,
    STARVED_AFTER,
    Hold,
    JobFacts,
    JobLine,
)
from riverui.domain.explain.holds import in_batch
from riverui.domain.explain.queue import (
    kind_known,
    next_in_line,
    not_paused,
    served,
    slots,
    starved,
)
from riverui.domain.findings import (
    Check,
    Diagnosis,
    Finding,
    Unread,
    diagnose,
    examine,
    failed,
    known,
    passed,
    unknown,
)
from riverui.domain.jobs import FINALIZED, JobShowRow, JobState
from riverui.domain.queues import LeaderRow, QueueRow
from riverui.domain.time import duration

_NO_LEADER = "There is no leader at the moment, and only the leader"


def explain(facts: JobFacts) -> Diagnosis:
    """Return the checks that fit the job's state, and the first reason found."""
    return diagnose("explain", examine(facts, _checks(facts)), Finding(headline=_calm(facts)))


def stuck(job: JobShowRow, queue: QueueRow | Unread | None, now: datetime) -> str | None:
    """Return why a running job looks stuck, in words; None if it does not."""
    if job.state is not JobState.RUNNING or job.attempted_at is None:
        return None
    if job.cancel_attempted_at and (since := now - job.cancel_attempted_at) > CANCEL_UNHEARD_AFTER:
        return (
            f"Cancellation was requested {duration(since)} ago, but it is still running: its worker"
            " may have died or may not be listening, or the job may be ignoring the cancellation."
        )
    rescue = "The worker of this job may have died; River's leader rescues such jobs after an hour."
    if isinstance(queue, QueueRow) and queue.updated_at is None:
        return f"No client has ever served its queue. {rescue}"
    if isinstance(queue, QueueRow) and queue.updated_at and now - queue.updated_at > SILENT_AFTER:
        return f"No client has served its queue for {duration(now - queue.updated_at)}. {rescue}"
    if (running := now - job.attempted_at) > RESCUED_AFTER:
        return (
            f"It has been running for {duration(running)}. Unless it has a long timeout of its own,"
            " its worker may have died; River's leader rescues such jobs after an hour by default."
        )
    return None


def _calm(facts: JobFacts) -> str:
    """Return what to say if no reason was found."""
    job = facts.job
    if job.state is JobState.RUNNING:
        return f"It is running{_since(job, facts.now)}, and nothing looks wrong."
    if job.state in FINALIZED:
        return "It has completed: there is nothing left to run."
    if not isinstance(facts.line, JobLine):
        return "Nothing was found that holds it up."
    unseen = not isinstance(facts.work, Unread) and facts.work.kind_at is None
    if unseen and facts.now - job.scheduled_at > STARVED_AFTER:
        return (
            f"It is next in line, but no job of kind {job.kind} was taken recently: perhaps no"
            " client of its queue has a worker for it."
        )
    return "It is next in line, and nothing was found that holds it up."


def _state(facts: JobFacts) -> Finding:
    job = facts.job
    if job.state is JobState.PENDING:
        for hold, found in facts.holds.items():
            if hold.pending and not isinstance(found, Unread):
                return passed(f"It is pending: {hold.pending}.")
        return failed(
            "River does not start pending jobs by itself: whatever inserted the job must release"
            " it, such as a workflow once its dependencies are done."
        )
    if job.state is JobState.AVAILABLE:
        return passed("It is available: any client that works its queue may take it.")
    if job.state is JobState.SCHEDULED:
        return passed("It is scheduled: the leader makes it available when it is due.")
    if job.state is JobState.RETRYABLE:
        return passed(
            f"Attempt {job.attempt} of {job.max_attempts} failed: the leader makes it available"
            " again when its retry is due."
        )
    if job.state is JobState.RUNNING:
        if why := stuck(job, facts.queue, facts.now):
            return failed(why)
        return passed(f"It is running{_since(job, facts.now)}.")
    if job.state is JobState.COMPLETED:
        return passed("It has completed.")
    return failed(f"It has been {job.state.value}, and is not worked again unless it is retried.")


def _due(facts: JobFacts) -> Finding | None:
    job = facts.job
    if job.state not in (JobState.AVAILABLE, JobState.SCHEDULED, JobState.RETRYABLE):
        return None
    finding = _due_in(facts)
    return replace(finding, label="Retry due") if job.state is JobState.RETRYABLE else finding


def _due_in(facts: JobFacts) -> Finding:
    job, late = facts.job, facts.now - facts.job.scheduled_at
    if job.scheduled_at > facts.now:
        reason = "It will be retried" if job.state is JobState.RETRYABLE else "It is due"
        return failed(f"{reason} in {duration(-late)}.")
    if job.state is JobState.AVAILABLE:
        return passed(f"It has been due for {duration(late)}.")
    if isinstance(facts.leader, LeaderRow) and late > LATE_AFTER:
        return failed(
            f"It was due {duration(late)} ago, but River's leader has not made it available yet."
        )
    return passed(
        f"It was due {duration(late)} ago, and becomes available when River's leader next checks."
    )


def _leader(facts: JobFacts) -> Finding | None:
    """Return whether there is a leader, which makes due jobs available and rescues lost ones."""
    job = facts.job
    if job.state not in (JobState.SCHEDULED, JobState.RETRYABLE, JobState.RUNNING):
        return None
    leader = facts.leader
    if isinstance(leader, Unread):
        return unknown(f"The leader could not be read. {leader.why}")
    if leader is not None and leader.expires_at > facts.now:
        since = duration(facts.now - leader.elected_at)
        return passed(f"{leader.leader_id} has been the leader for {since}.")
    if job.state is not JobState.RUNNING:
        return failed(f"{_NO_LEADER} makes scheduled jobs available.")
    if stuck(job, facts.queue, facts.now) is None:
        return None
    return failed(f"{_NO_LEADER} rescues lost jobs.")


def _client(facts: JobFacts) -> Finding | None:
    """Return whether the client that runs the job has given a sign of life since it took it."""
    job, now, leader = facts.job, facts.now, facts.leader
    if job.state is not JobState.RUNNING:
        return None
    if not job.attempted_by:
        return unknown("The row does not name the client that runs it.")
    name = job.attempted_by[-1]
    if isinstance(leader, LeaderRow) and leader.leader_id == name and leader.expires_at > now:
        return passed(f"{name} runs it, and is the leader at present.")
    if isinstance(facts.work, Unread):
        return unknown(f"{name} runs it. {facts.work.why}")
    taken = facts.work.clients.get(name)
    later = taken is not None and (job.attempted_at is None or taken > job.attempted_at)
    if taken is not None and later and now - taken < REPORTED_WITHIN:
        return passed(f"{name} runs it, and took another job {duration(now - taken)} ago.")
    return unknown(f"{name} runs it, and has given no other sign of life in this queue recently.")


def _lock(facts: JobFacts) -> Finding | None:
    """Return whether a transaction holds the job's row."""
    job = facts.job
    if job.state in FINALIZED:
        return None
    if job.state is JobState.RUNNING and stuck(job, facts.queue, facts.now) is None:
        # Its own worker may hold it, to complete the job with other work in one transaction.
        return None
    lock = known(facts.lock)
    if lock.transaction == 0:
        return passed("No transaction has locked its row.")
    if lock.pid is None:
        return unknown(
            f"Transaction {lock.transaction} has locked its row and is not among those that run:"
            " it has most likely ended, unless several share the lock."
        )
    who = f"process {lock.pid}" + (f" ({lock.client})" if lock.client else "")
    doing = f", which is {lock.state}" if lock.state else ""
    since = f" for {duration(facts.now - lock.since)}" if lock.since else ""
    kept = (
        "clients pass it over" if job.state is JobState.AVAILABLE else "nothing else can change it"
    )
    return failed(f"Its row is locked by the transaction of {who}{doing}{since}: {kept}.")


CHECKS: Sequence[Check[JobFacts]] = (
    ("state", "State", _state),
    ("due", "Due", _due),
    ("leader", "Leader", _leader),
    ("client", "Its client lives", _client),
    ("batch", "Its batch", in_batch),
    ("paused", "Queue not paused", not_paused),
    ("served", "Queue served", served),
    ("kind", "Kind known", kind_known),
    ("lock", "Row not locked", _lock),
    ("priority", "Not starved by priority", starved),
    ("line", "Next in line", next_in_line),
    ("slots", "Free slots", slots),
)
"""The checks for what may keep a job from running, without those of features. Causes that hold up
all jobs come first; the first check that fails gives the headline.
"""


def _checks(facts: JobFacts) -> Iterator[Check[JobFacts]]:
    """Yield all checks, with those of features in their places."""
    for check in CHECKS:
        yield check
        for hold, found in facts.holds.items():
            if hold.after == check[0]:
                yield hold.name, hold.label, partial(_check_hold, hold, found)


def _check_hold(hold: Hold[Any], found: Any, facts: JobFacts) -> Finding | None:
    return hold.check(facts, known(found))


def _since(job: JobShowRow, now: datetime) -> str:
    by = f" at {job.attempted_by[-1]}" if job.attempted_by else ""
    return f"{by} for {duration(now - job.attempted_at)}" if job.attempted_at else by
