"""Checks of a job's queue: whether it is worked, its kind is known, and which jobs come first."""

from __future__ import annotations

from datetime import datetime, timedelta

from riverui.domain.explain.facts import (
    REPORTED_WITHIN,
    STARVED_AFTER,
    JobFacts,
    JobLock,
    Overtaking,
    QueueWork,
)
from riverui.domain.findings import Finding, Link, Unread, capital, failed, known, passed, unknown
from riverui.domain.jobs import FINALIZED, UNKNOWN_KIND, JobState
from riverui.domain.text import counted
from riverui.domain.time import duration

_FEWEST_ENDS = 20
"""Fewest ended jobs for a pace: with fewer, half of it is chance."""
_STEADY = 2.0
"""Largest ratio between the jobs ended in the two halves of the time, for a steady pace."""


def pace(work: QueueWork, now: datetime) -> float | None:
    """Return how many jobs of the queue end per second; None if too few, or at an uneven pace."""
    span = now - work.ends_since
    if len(work.ends) < _FEWEST_ENDS or span <= timedelta(0):
        return None
    middle = work.ends_since + span / 2
    late = sum(end > middle for end in work.ends)
    early = len(work.ends) - late
    if max(early, late) > _STEADY * min(early, late):
        return None
    return len(work.ends) / span.total_seconds()


def _begun(facts: JobFacts) -> bool:
    """Return whether the job runs or has ended."""
    return facts.job.state in FINALIZED or facts.job.state is JobState.RUNNING


def not_paused(facts: JobFacts) -> Finding | None:
    """Return whether the job's queue is paused."""
    if _begun(facts):
        return None
    queue, name = facts.queue, facts.job.queue
    if isinstance(queue, Unread):
        return unknown(f"The queue could not be read. {queue.why}")
    if queue is not None and queue.paused_at:
        evidence = f"Its queue has been paused for {duration(facts.now - queue.paused_at)}."
        return failed(evidence, Link(label="the queue", page="queue", name=name))
    return passed(f"Queue {name} is not paused.")


def served(facts: JobFacts) -> Finding | None:
    """Return whether a client serves the queue, as shown by a report or by taking a job."""
    if _begun(facts):
        return None
    name, now, work = facts.job.queue, facts.now, facts.work
    if facts.queue is None:
        # Every client makes the row before it takes a job.
        return failed(f"No client has ever served its queue, {name}.")
    if not isinstance(work, Unread) and work.clients:
        client, taken = max(work.clients.items(), key=lambda item: item[1])
        if now - taken < REPORTED_WITHIN:
            return passed(f"{client} took a job of this queue {duration(now - taken)} ago.")
    if isinstance(facts.queue, Unread):
        return unknown("Without the queue's row it is unknown whether a client serves it.")
    if facts.queue.updated_at is None:
        return unknown(f"Queue {name} has a row that does not say when it was last served.")
    silent = now - facts.queue.updated_at
    if silent > REPORTED_WITHIN:
        return failed(
            f"No client serves queue {name}: no client has reported it for {duration(silent)}."
        )
    return passed(
        f"A client reported this queue {duration(silent)} ago; clients do so every 10 minutes."
    )


def kind_known(facts: JobFacts) -> Finding | None:
    """Return whether a client of the queue has a worker for the job's kind."""
    job, now, reports = facts.job, facts.now, facts.kind_reports
    if _begun(facts):
        return None
    if job.errors and job.errors[-1].error.startswith(UNKNOWN_KIND):
        return failed(
            f"The client that took it last has no worker for the kind {job.kind}: each such attempt"
            " fails."
        )
    work = known(facts.work)
    if reports is not None and reports.working:
        return passed(f"{reports.working[0]} works jobs of kind {job.kind}.")
    if work.unknown_at is not None and (work.kind_at is None or work.kind_at < work.unknown_at):
        return failed(
            f"A job of kind {job.kind} was taken {duration(now - work.unknown_at)} ago, and failed:"
            " its client has no worker for it."
        )
    others = reports.others | reports.stopped if reports is not None else frozenset()
    if running := [client for client in work.kind_running if client not in others]:
        return passed(f"{running[0]} runs a job of kind {job.kind}.")
    if (unworked := _unworked(facts, work, known(facts.overtaking))) is not None:
        return unworked
    if work.kind_at is not None:
        return passed(
            f"A job of kind {job.kind} was taken from this queue"
            f" {duration(now - work.kind_at)} ago."
        )
    return unknown(
        f"No job of kind {job.kind} is among those of this queue that were taken recently; which"
        " kinds its clients work is not in the database."
    )


def _unworked(facts: JobFacts, work: QueueWork, passed: Overtaking | None) -> Finding | None:
    """Return a finding if no client seems to work the job's kind, judging by the kinds that clients
    report and by the jobs that overtook it; else None.
    """
    job, now, reports = facts.job, facts.now, facts.kind_reports
    overtaken = passed is not None and passed.jobs > 0
    if reports is not None and reports.complete and reports.others:
        reporting = reports.others | reports.stopped
        # Clients that do not report may have ended, or may be Go clients.
        silent = [
            client
            for client, at in work.clients.items()
            if client not in reporting and now - at < REPORTED_WITHIN
        ]
        if silent and not overtaken:
            if work.kind_at is not None and now - work.kind_at <= STARVED_AFTER:
                return None
            return unknown(
                f"No client that reports its kinds works jobs of kind {job.kind}; {silent[0]}"
                " reports none."
            )
        evidence = f"No live client works jobs of kind {job.kind}."
    elif overtaken and not _held_back(facts):
        evidence = f"No client seems to work jobs of kind {job.kind}."
    else:
        return None
    if passed is not None and passed.jobs:
        younger = capital(counted(passed.jobs, "younger job", passed.cap))
        have = "has" if passed.jobs == 1 else "have"
        evidence += f" {younger} of its queue {have} overtaken it."
    if passed is not None and passed.kind_at is not None:
        by = f" by {passed.kind_by}" if passed.kind_by else ""
        evidence += f" One of this kind was last taken {duration(now - passed.kind_at)} ago{by}."
    return failed(evidence)


def _held_back(facts: JobFacts) -> bool:
    """Return whether clients may skip the job for another reason than its kind."""
    locked = isinstance(facts.lock, JobLock) and facts.lock.pid is not None
    return locked or bool(facts.holds)


def starved(facts: JobFacts) -> Finding | None:
    """Return whether more urgent jobs take all of the clients' capacity."""
    job = facts.job
    if not facts.in_line or facts.reordered:
        return None
    line = known(facts.line)
    if line.more_urgent == 0:
        return passed(f"No job with a lower priority number than {job.priority} waits before it.")
    ahead = capital(counted(line.more_urgent, "more urgent job", line.cap))
    ahead += " waits" if line.more_urgent == 1 else " wait"
    if isinstance(facts.work, Unread):
        return unknown(f"{ahead}. {facts.work.why}")
    started = facts.work.started
    own = max((at for p, at in started.items() if p >= job.priority), default=None)
    urgent = max((at for p, at in started.items() if p < job.priority), default=None)
    if own is not None and facts.now - own <= STARVED_AFTER:
        return passed(
            f"{ahead}, but one no more urgent than this was taken {duration(facts.now - own)} ago."
        )
    waited = facts.now - job.scheduled_at
    if urgent is not None and facts.now - urgent <= STARVED_AFTER and waited > STARVED_AFTER:
        last = f"for {duration(facts.now - own)}" if own is not None else "recently"
        return failed(
            f"More urgent jobs keep it waiting: {ahead}, and none of priority {job.priority} or"
            f" less was taken {last}."
        )
    return unknown(f"{ahead}; whether more keep coming is not known yet.")


def next_in_line(facts: JobFacts) -> Finding | None:
    """Return how many jobs come before it in its queue."""
    if not facts.in_line or facts.reordered:
        return None
    line, work = known(facts.line), facts.work
    if line.before == 0:
        return passed("It is the next of its queue.")
    verb = "is" if line.before == 1 else "are"
    evidence = f"{capital(counted(line.before, 'job', line.cap))} {verb} before it in its queue."
    rate = None if isinstance(work, Unread) else pace(work, facts.now)
    if rate is not None and line.before < line.cap and not isinstance(work, Unread):
        evidence += (
            f" As fast as its last {len(work.ends):,} jobs ended, its turn comes in about"
            f" {duration(timedelta(seconds=line.before / rate))}."
        )
    return failed(evidence)


def slots(facts: JobFacts) -> Finding | None:
    """Return whether the clients of the queue can run one more job."""
    if not facts.in_line:
        return None
    work, reported = known(facts.work), facts.slots
    if work.running == 0:
        return passed("No job of this queue is running.")
    if reported is not None and work.clients.keys() <= reported.clients:
        count = len(reported.clients)
        clients = "client" if count == 1 else f"{count} clients"
        evidence = f"{reported.taken} of {reported.most} slots of its {clients} are taken."
        return failed(evidence) if reported.taken >= reported.most else passed(evidence)
    verb = "is" if work.running == 1 else "are"
    return unknown(
        f"{capital(counted(work.running, 'job', work.cap))} of this queue {verb} running; how many"
        " its clients may run at once is not in the database."
    )
