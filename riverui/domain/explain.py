"""Why a job is not running: what was found around it becomes ordered checks with evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from riverui.domain.checks import Check, Place, PlaceKind, Result, check, cut, unread, up_to
from riverui.domain.explain_limits import in_batch, its_turn, within_limits, within_rate
from riverui.domain.explain_sequence import in_sequence
from riverui.domain.job_facts import (
    JobFacts,
    JobLine,
    JobLock,
    Overtaking,
    QueueWork,
    Unread,
)
from riverui.domain.jobs import FINALIZED, UNKNOWN_KIND, JobShowRow, JobState
from riverui.domain.queues import LeaderRow, QueueRow
from riverui.domain.time import duration
from riverui.features.sequences.domain import SequencePlace
from riverui.features.workflows.domain.pages import FAILED_TASKS, TaskNeighbour, TaskPlace

REPORTED_WITHIN = timedelta(minutes=12)
"""How old the newest sign of a queue's clients may be.

River's clients report their queues every 10 minutes; the rest is for a slow report.
"""
SILENT_AFTER = timedelta(minutes=25)
"""How long nobody has reported a queue before a running job's worker is taken for gone: two reports
missed, and a little.
"""
RESCUED_AFTER = timedelta(hours=1)
"""River's default of RescueStuckJobsAfter: from then on the leader takes a job for lost."""
CANCEL_UNHEARD_AFTER = timedelta(minutes=1)
"""How long a worker may take to end a job that it was asked to cancel before that is told.

A worker hears of it within seconds; the rest is for the job's own cleaning up.
"""
LATE_AFTER = timedelta(seconds=15)
"""How long a job may be due before that is told: the leader looks every 5 seconds by default."""
STARVED_AFTER = timedelta(minutes=1)
"""How long only more urgent jobs were started before a job that is due counts as starved: some
rounds of any client that polls.
"""
_FEWEST_ENDS = 20
"""Ends from which a pace can be told: with fewer, chance makes half of it."""
_STEADY = 2.0
"""How many times as many jobs one half of the time may have ended as the other, for a pace."""
_NAMED = 3
"""Tasks of a workflow that are named: the rest is counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why a job is not running, as far as can be told."""

    headline: str
    """The first reason that was found, or that none was."""
    checks: tuple[Check, ...]
    """The causes that come first come first."""

    @property
    def blocked(self) -> bool:
        """Whether anything was found that keeps the job from running or from going on."""
        return any(check.result is Result.FAILED for check in self.checks)


def explain(facts: JobFacts) -> Explanation:
    """Return the checks that fit the job's state, and the first reason that they found."""
    found = tuple(check for ask in CHECKS if (check := ask(facts)) is not None)
    failed = next((check for check in found if check.result is Result.FAILED), None)
    return Explanation(headline=failed.evidence if failed else _calm(facts), checks=found)


def pace(work: QueueWork, now: datetime) -> float | None:
    """Return how many jobs of the queue end in a second; None where they are few or uneven."""
    span = now - work.ends_since
    if len(work.ends) < _FEWEST_ENDS or span <= timedelta(0):
        return None
    middle = work.ends_since + span / 2
    late = sum(end > middle for end in work.ends)
    early = len(work.ends) - late
    if max(early, late) > _STEADY * min(early, late):
        return None
    return len(work.ends) / span.total_seconds()


def stuck(job: JobShowRow, queue: QueueRow | Unread | None, now: datetime) -> str | None:
    """Return why a running job looks stuck, in words; None when it does not."""
    if job.state is not JobState.RUNNING or job.attempted_at is None:
        return None
    if job.cancel_attempted_at and (since := now - job.cancel_attempted_at) > CANCEL_UNHEARD_AFTER:
        return (
            f"Cancellation was requested {duration(since)} ago, but it is still running: "
            "its worker may be gone or not listening, or the job may be ignoring the cancellation."
        )
    if isinstance(queue, QueueRow) and queue.updated_at is None:
        return (
            "No client has ever served its queue. The worker of this job may be gone; River's"
            " leader rescues such jobs after an hour."
        )
    if isinstance(queue, QueueRow) and queue.updated_at and now - queue.updated_at > SILENT_AFTER:
        return (
            f"No client has served its queue for {duration(now - queue.updated_at)}. The worker of"
            " this job may be gone; River's leader rescues such jobs after an hour."
        )
    if (running := now - job.attempted_at) > RESCUED_AFTER:
        return (
            f"It has been running for {duration(running)}. Unless it has a long timeout of its own,"
            " its worker may be gone; River's leader rescues such jobs after an hour by default."
        )
    return None


def _calm(facts: JobFacts) -> str:
    job = facts.job
    if job.state is JobState.RUNNING:
        return f"It is running{_since(job, facts.now)}, and nothing looks wrong."
    if job.state in FINALIZED:
        return "It has completed: there is nothing left to run."
    if isinstance(facts.line, JobLine) and _passed_over(facts):
        return (
            f"It is next in line, but no job of kind {facts.job.kind} was taken lately: perhaps no"
            " client of its queue has a worker for it."
        )
    if isinstance(facts.line, JobLine):
        return "It is next in line, and nothing was found that holds it up."
    return "Nothing was found that holds it up."


def _passed_over(facts: JobFacts) -> bool:
    """Return whether the job waits though it is next, and so long that others must know why."""
    if isinstance(facts.work, Unread) or facts.work.kind_at is not None:
        return False
    return facts.now - facts.job.scheduled_at > STARVED_AFTER


def _state(facts: JobFacts) -> Check:
    job, now = facts.job, facts.now
    result, evidence = Result.PASSED, f"It is {job.state.value}."
    if job.state is JobState.PENDING and isinstance(facts.workflow, TaskPlace):
        evidence = "It is pending: its workflow makes it available."
    elif job.state is JobState.PENDING and isinstance(facts.sequence, SequencePlace):
        evidence = "It is pending: its sequence makes it available when its turn comes."
    elif job.state is JobState.PENDING:
        result = Result.FAILED
        evidence = (
            "River does not start pending jobs by itself: whatever inserted the job must release"
            " it, such as a workflow once its dependencies are done."
        )
    elif job.state is JobState.AVAILABLE:
        evidence = "It is available: any client that works its queue may take it."
    elif job.state is JobState.SCHEDULED:
        evidence = "It is scheduled: the leader makes it available when it is due."
    elif job.state is JobState.RETRYABLE:
        evidence = (
            f"Attempt {job.attempt} of {job.max_attempts} failed: the leader makes it available"
            " again when its retry is due."
        )
    elif job.state is JobState.RUNNING:
        if why := stuck(job, facts.queue, now):
            result, evidence = Result.FAILED, why
        else:
            evidence = f"It is running{_since(job, now)}."
    elif job.state in (JobState.DISCARDED, JobState.CANCELLED):
        result = Result.FAILED
        evidence = f"It has been {job.state.value}, and is not worked again unless it is retried."
    elif job.state is JobState.COMPLETED:
        evidence = "It has completed."
    return check("state", "State", result, evidence)


def _workflow(facts: JobFacts) -> Check | None:
    """Return what the tasks are doing that the job waits for as a task of a workflow."""
    job, place, label = facts.job, facts.workflow, "Its workflow"
    if place is None or job.state not in (JobState.PENDING, JobState.CANCELLED):
        return None
    if isinstance(place, Unread):
        return check("workflow", label, Result.UNKNOWN, unread(place))
    of = f"its workflow {cut(place.workflow_name or place.workflow_id)}"
    see = Place(kind=PlaceKind.WORKFLOW, words="the workflow", name=place.workflow_id)
    if job.state is JobState.CANCELLED:
        failed = [task for task in place.unfinished if task.state in FAILED_TASKS]
        if not failed:
            return None
        verb = "has" if len(failed) == 1 else "have"
        evidence = f"{_tasks(failed, len(failed))} of {of} {verb} failed, and it waited for that."
        return check("workflow", label, Result.FAILED, evidence, see)
    if place.unfinished:
        count = max(place.waits_for, len(place.unfinished))
        evidence = f"It waits for {_tasks(place.unfinished, count)} of {of}."
    elif place.state == "wait":
        evidence = (
            f"The tasks that it waits for have completed. It still waits for its own terms in {of}:"
            " signals, timers or conditions."
        )
    else:
        evidence = (
            f"All that it waits for in {of} has completed: it becomes available when a client that"
            " knows workflows looks next."
        )
    return check("workflow", label, Result.FAILED, evidence, see)


def _tasks(tasks: Sequence[TaskNeighbour], count: int) -> str:
    """Return the first tasks by name with their states, and how many there are besides."""
    named = [f"“{cut(task.name)}” ({task.state})" for task in tasks[:_NAMED]]
    if count > len(named):
        named.append(f"{count - len(named):,} more task{'' if count - len(named) == 1 else 's'}")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _due(facts: JobFacts) -> Check | None:
    job, now = facts.job, facts.now
    if job.state not in (JobState.AVAILABLE, JobState.SCHEDULED, JobState.RETRYABLE):
        return None
    label = "Retry due" if job.state is JobState.RETRYABLE else "Due"
    if job.scheduled_at > now:
        reason = "It will be retried" if job.state is JobState.RETRYABLE else "It is due"
        evidence = f"{reason} in {duration(job.scheduled_at - now)}."
        return check("due", label, Result.FAILED, evidence)
    late = now - job.scheduled_at
    if job.state is JobState.AVAILABLE:
        return check("due", label, Result.PASSED, f"It has been due for {duration(late)}.")
    if isinstance(facts.leader, LeaderRow) and late > LATE_AFTER:
        evidence = (
            f"It was due {duration(late)} ago, but River's leader has not made it available yet."
        )
        return check("due", label, Result.FAILED, evidence)
    evidence = (
        f"It was due {duration(late)} ago, and becomes available when River's leader next checks."
    )
    return check("due", label, Result.PASSED, evidence)


def _leader(facts: JobFacts) -> Check | None:
    """Return whether anybody makes due jobs available, and rescues those that were left behind."""
    job, leader = facts.job, facts.leader
    if job.state not in (JobState.SCHEDULED, JobState.RETRYABLE, JobState.RUNNING):
        return None
    if isinstance(leader, Unread):
        evidence = f"The leader could not be read. {leader.why}"
        return check("leader", "Leader", Result.UNKNOWN, evidence)
    if leader is not None and leader.expires_at > facts.now:
        since = duration(facts.now - leader.elected_at)
        evidence = f"{leader.leader_id} has been the leader for {since}."
        return check("leader", "Leader", Result.PASSED, evidence)
    if job.state is not JobState.RUNNING:
        evidence = (
            "There is no leader at the moment, and only the leader makes scheduled jobs available."
        )
        return check("leader", "Leader", Result.FAILED, evidence)
    if stuck(job, facts.queue, facts.now) is None:
        return None
    evidence = "There is no leader at the moment, and only the leader rescues lost jobs."
    return check("leader", "Leader", Result.FAILED, evidence)


def _paused(facts: JobFacts) -> Check | None:
    if facts.job.state in FINALIZED or facts.job.state is JobState.RUNNING:
        return None
    if isinstance(facts.queue, Unread):
        evidence = f"The queue could not be read. {facts.queue.why}"
        return check("paused", "Queue not paused", Result.UNKNOWN, evidence)
    if facts.queue is not None and facts.queue.paused_at:
        evidence = f"Its queue has been paused for {duration(facts.now - facts.queue.paused_at)}."
        see = Place(kind=PlaceKind.QUEUE, words="the queue", name=facts.job.queue)
        return check("paused", "Queue not paused", Result.FAILED, evidence, see)
    evidence = f"Queue {facts.job.queue} is not paused."
    return check("paused", "Queue not paused", Result.PASSED, evidence)


def _served(facts: JobFacts) -> Check | None:
    """Return who has given a sign of serving the queue: by a report, or by taking a job."""
    if facts.job.state in FINALIZED or facts.job.state is JobState.RUNNING:
        return None
    name, now, label = facts.job.queue, facts.now, "Queue served"
    if facts.queue is None:
        # Every client makes the row before it takes a job.
        evidence = f"No client has ever served its queue, {name}."
        return check("served", label, Result.FAILED, evidence)
    taken = _newest_taken(facts.work)
    if taken and now - taken[1] < REPORTED_WITHIN:
        evidence = f"{taken[0]} took a job of this queue {duration(now - taken[1])} ago."
        return check("served", label, Result.PASSED, evidence)
    if isinstance(facts.queue, Unread):
        evidence = "Whether any client serves the queue cannot be told without its row."
        return check("served", label, Result.UNKNOWN, evidence)
    if facts.queue.updated_at is None:
        evidence = f"Queue {name} has a row that says nothing of when it was served."
        return check("served", label, Result.UNKNOWN, evidence)
    silent = now - facts.queue.updated_at
    if silent > REPORTED_WITHIN:
        evidence = f"Nobody serves queue {name}: no client has reported it for {duration(silent)}."
        return check("served", label, Result.FAILED, evidence)
    evidence = (
        f"A client reported this queue {duration(silent)} ago; clients do so every 10 minutes."
    )
    return check("served", label, Result.PASSED, evidence)


def _kind(facts: JobFacts) -> Check | None:
    job, now, label = facts.job, facts.now, "Kind known"
    if job.state in FINALIZED or job.state is JobState.RUNNING:
        return None
    if job.errors and job.errors[-1].error.startswith(UNKNOWN_KIND):
        evidence = (
            f"The client that took it last has no worker for the kind {job.kind}: each such attempt"
            " fails."
        )
        return check("kind", label, Result.FAILED, evidence)
    if isinstance(facts.work, Unread):
        return check("kind", label, Result.UNKNOWN, unread(facts.work))
    work, reports = facts.work, facts.kind_reports
    if reports is not None and reports.working:
        evidence = f"{reports.working[0]} works jobs of kind {job.kind}."
        return check("kind", label, Result.PASSED, evidence)
    if work.unknown_at is not None and (work.kind_at is None or work.kind_at < work.unknown_at):
        evidence = (
            f"A job of kind {job.kind} was taken {duration(now - work.unknown_at)} ago, and failed:"
            " its client has no worker for it."
        )
        return check("kind", label, Result.FAILED, evidence)
    others = reports.others | reports.gone if reports is not None else frozenset()
    if running := [client for client in work.kind_running if client not in others]:
        evidence = f"{running[0]} runs a job of kind {job.kind}."
        return check("kind", label, Result.PASSED, evidence)
    if isinstance(facts.overtaking, Unread):
        return check("kind", label, Result.UNKNOWN, unread(facts.overtaking))
    if (unworked := _unworked(facts, work)) is not None:
        return check("kind", label, *unworked)
    if work.kind_at is not None:
        evidence = (
            f"A job of kind {job.kind} was taken from this queue"
            f" {duration(now - work.kind_at)} ago."
        )
        return check("kind", label, Result.PASSED, evidence)
    evidence = (
        f"No job of kind {job.kind} is among those of this queue that were taken lately; which"
        " kinds its clients work is not in the database."
    )
    return check("kind", label, Result.UNKNOWN, evidence)


def _unworked(facts: JobFacts, work: QueueWork) -> tuple[Result, str] | None:
    """Return that nobody seems to work the job's kind, by what clients report and by the jobs that
    overtook it; None where neither speaks for it.
    """
    job, now, reports = facts.job, facts.now, facts.kind_reports
    passed = facts.overtaking if isinstance(facts.overtaking, Overtaking) else None
    overtaken = passed is not None and passed.jobs > 0
    if reports is not None and reports.complete and reports.others:
        known = reports.others | reports.gone
        # They may have ended, or be Go's: those do not report.
        silent = [c for c, at in work.clients.items() if c not in known and _lately(at, now)]
        if silent and not overtaken:
            if work.kind_at is not None and now - work.kind_at <= STARVED_AFTER:
                return None
            return Result.UNKNOWN, (
                f"No client that reports its kinds works jobs of kind {job.kind}; {silent[0]}"
                " reports none."
            )
        evidence = f"No live client works jobs of kind {job.kind}."
    elif overtaken and not _held_back(facts):
        evidence = f"No client seems to work jobs of kind {job.kind}."
    else:
        return None
    if overtaken and passed is not None:
        have = "has" if passed.jobs == 1 else "have"
        evidence += (
            f" {up_to(passed.jobs, passed.cap, 'younger job')} of its queue {have} overtaken it."
        )
    if passed is not None and passed.kind_at is not None:
        by = f" by {passed.kind_by}" if passed.kind_by else ""
        evidence += f" One of this kind was last taken {duration(now - passed.kind_at)} ago{by}."
    return Result.FAILED, evidence


def _lately(at: datetime, now: datetime) -> bool:
    return now - at < REPORTED_WITHIN


def _held_back(facts: JobFacts) -> bool:
    """Return whether clients may pass the job over for another reason than its kind."""
    locked = isinstance(facts.lock, JobLock) and facts.lock.pid is not None
    return locked or any(hold is not None for hold in (facts.limit, facts.rate, facts.share))


def _lock(facts: JobFacts) -> Check | None:
    job, lock, label = facts.job, facts.lock, "Row not locked"
    if job.state in FINALIZED:
        return None
    if job.state is JobState.RUNNING and stuck(job, facts.queue, facts.now) is None:
        # Its own worker may hold it, to complete the job with other work in one transaction.
        return None
    if isinstance(lock, Unread):
        return check("lock", label, Result.UNKNOWN, unread(lock))
    if lock.transaction == 0:
        return check("lock", label, Result.PASSED, "No transaction has locked its row.")
    if lock.pid is None:
        evidence = (
            f"Transaction {lock.transaction} has locked its row and is not among those that run:"
            " it has most likely ended, unless several share the lock."
        )
        return check("lock", label, Result.UNKNOWN, evidence)
    who = f"process {lock.pid}" + (f" ({lock.client})" if lock.client else "")
    doing = f", which is {lock.state}" if lock.state else ""
    since = f" for {duration(facts.now - lock.since)}" if lock.since else ""
    kept = (
        "clients pass it over" if job.state is JobState.AVAILABLE else "nobody else can change it"
    )
    evidence = f"Its row is locked by the transaction of {who}{doing}{since}: {kept}."
    return check("lock", label, Result.FAILED, evidence)


def _starved(facts: JobFacts) -> Check | None:
    """Return whether more urgent jobs take all that the clients can do."""
    job, line, work, label = facts.job, facts.line, facts.work, "Not starved by priority"
    if not facts.in_line or facts.share is not None:
        # Where jobs are dealt in turn, this is not their order.
        return None
    if isinstance(line, Unread):
        return check("priority", label, Result.UNKNOWN, unread(line))
    if line.more_urgent == 0:
        evidence = f"No job with a lower priority number than {job.priority} waits before it."
        return check("priority", label, Result.PASSED, evidence)
    ahead = up_to(line.more_urgent, line.cap, "more urgent job")
    if isinstance(work, Unread):
        evidence = f"{ahead} {_wait(line.more_urgent)}. {unread(work)}"
        return check("priority", label, Result.UNKNOWN, evidence)
    own = max((at for p, at in work.started.items() if p >= job.priority), default=None)
    urgent = max((at for p, at in work.started.items() if p < job.priority), default=None)
    if own is not None and facts.now - own <= STARVED_AFTER:
        evidence = (
            f"{ahead} {_wait(line.more_urgent)}, but one no more urgent than this was taken"
            f" {duration(facts.now - own)} ago."
        )
        return check("priority", label, Result.PASSED, evidence)
    waited = facts.now - job.scheduled_at
    if urgent is not None and facts.now - urgent <= STARVED_AFTER and waited > STARVED_AFTER:
        last = f"for {duration(facts.now - own)}" if own is not None else "lately"
        evidence = (
            f"More urgent jobs keep it waiting: {ahead} {_wait(line.more_urgent)}, and none of"
            f" priority {job.priority} or less was taken {last}."
        )
        return check("priority", label, Result.FAILED, evidence)
    evidence = f"{ahead} {_wait(line.more_urgent)}; whether more keep coming is not known yet."
    return check("priority", label, Result.UNKNOWN, evidence)


def _line(facts: JobFacts) -> Check | None:
    line, label = facts.line, "Next in line"
    if not facts.in_line or facts.share is not None:
        # Where jobs are dealt in turn, this is not their order.
        return None
    if isinstance(line, Unread):
        return check("line", label, Result.UNKNOWN, unread(line))
    if line.before == 0:
        return check("line", label, Result.PASSED, "It is the next of its queue.")
    verb = "is" if line.before == 1 else "are"
    evidence = f"{up_to(line.before, line.cap, 'job')} {verb} before it in its queue."
    if line.before < line.cap and not isinstance(facts.work, Unread):
        rate = pace(facts.work, facts.now)
        if rate is not None:
            span = timedelta(seconds=line.before / rate)
            evidence += (
                f" As fast as its last {len(facts.work.ends):,} jobs ended, its turn comes in about"
                f" {duration(span)}."
            )
    return check("line", label, Result.FAILED, evidence)


def _slots(facts: JobFacts) -> Check | None:
    work, label = facts.work, "Free slots"
    if not facts.in_line:
        return None
    if isinstance(work, Unread):
        return check("slots", label, Result.UNKNOWN, unread(work))
    if work.running == 0:
        evidence = "No job of this queue is running."
        return check("slots", label, Result.PASSED, evidence)
    told = facts.slots
    if told is not None and work.clients.keys() <= told.clients:
        evidence = (
            f"{told.taken} of {told.most} slots of its {_clients(len(told.clients))} are taken."
        )
        result = Result.FAILED if told.taken >= told.most else Result.PASSED
        return check("slots", label, result, evidence)
    verb = "is" if work.running == 1 else "are"
    evidence = (
        f"{up_to(work.running, work.cap, 'job')} of this queue {verb} running; how many its"
        " clients may run at once is not in the database."
    )
    return check("slots", label, Result.UNKNOWN, evidence)


def _clients(count: int) -> str:
    return "client" if count == 1 else f"{count} clients"


def _client(facts: JobFacts) -> Check | None:
    """Return whether the client that runs the job has given a sign of life since it took it."""
    job, now, label = facts.job, facts.now, "Its client lives"
    if job.state is not JobState.RUNNING:
        return None
    if not job.attempted_by:
        evidence = "The row does not name the client that runs it."
        return check("client", label, Result.UNKNOWN, evidence)
    name = job.attempted_by[-1]
    leads = isinstance(facts.leader, LeaderRow) and facts.leader.leader_id == name
    if leads and isinstance(facts.leader, LeaderRow) and facts.leader.expires_at > now:
        evidence = f"{name} runs it, and is the leader at present."
        return check("client", label, Result.PASSED, evidence)
    if isinstance(facts.work, Unread):
        return check("client", label, Result.UNKNOWN, f"{name} runs it. {unread(facts.work)}")
    taken = facts.work.clients.get(name)
    later = taken is not None and (job.attempted_at is None or taken > job.attempted_at)
    if taken is not None and later and now - taken < REPORTED_WITHIN:
        evidence = f"{name} runs it, and took another job {duration(now - taken)} ago."
        return check("client", label, Result.PASSED, evidence)
    evidence = f"{name} runs it, and has given no other sign of life in this queue lately."
    return check("client", label, Result.UNKNOWN, evidence)


CHECKS: tuple[Callable[[JobFacts], Check | None], ...] = (
    _state,
    _workflow,
    in_sequence,
    _due,
    _leader,
    _client,
    in_batch,
    _paused,
    _served,
    _kind,
    _lock,
    within_limits,
    within_rate,
    its_turn,
    _starved,
    _line,
    _slots,
)
"""What may keep a job from running: each gives its check, or None where it does not fit the state.

What holds up all jobs comes before what holds up one; the first that fails is the headline.
"""


def _newest_taken(work: QueueWork | Unread) -> tuple[str, datetime] | None:
    if isinstance(work, Unread) or not work.clients:
        return None
    return max(work.clients.items(), key=lambda item: item[1])


def _since(job: JobShowRow, now: datetime) -> str:
    by = f" at {job.attempted_by[-1]}" if job.attempted_by else ""
    return f"{by} for {duration(now - job.attempted_at)}" if job.attempted_at else by


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"
