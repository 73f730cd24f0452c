"""Checks of clients: whether the jobs of every queue are taken, and whether a client is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from riverui.domain.findings import (
    Finding,
    Level,
    Link,
    Unread,
    among,
    capital,
    culprit,
    cut,
    known,
    passed,
    unknown,
)
from riverui.domain.health import Cause
from riverui.domain.health.facts import HealthFacts, RunningJob
from riverui.domain.health.queues import (
    LateQueue,
    available,
    late_queues,
    only_unworked,
    wait,
    waiting_too,
)
from riverui.domain.text import counted
from riverui.domain.time import duration

LOST_AFTER = timedelta(minutes=5)
"""How long a client that holds jobs may give no other sign of life: many rounds of polling."""
OVERRUN_TIMES = 10.0
"""How many times as long as the slowest of its kind a job may run before its client is suspect."""
NOT_TAKEN_AFTER = timedelta(minutes=1)
"""How long jobs of a queue may wait without any being taken: clients poll every second."""


def lost_clients(facts: HealthFacts) -> Mapping[str, Sequence[RunningJob]]:
    """Return the clients that seem to be lost, with the jobs that they hold. Raise Unread if the
    running jobs could not be read.

    A client is lost if its heartbeats stopped, or if it has taken no job for a while and holds one
    that runs far longer than the slowest of its kind.
    """
    running = known(facts.running)
    held: dict[str, list[RunningJob]] = {}
    for job in running.jobs:
        if job.client:
            held.setdefault(job.client, []).append(job)
    lost = {}
    for client, own in held.items():
        reported = facts.reporting.get(client)
        if reported is not None:
            if reported.lost:
                lost[client] = own
            continue
        if client == facts.leads or running.full:
            # If not all running jobs were read, it may have taken one of the others.
            continue
        signs = [job.attempted_at for job in own if job.attempted_at is not None]
        signs += [
            found.takers[client]
            for found in facts.waiting.values()
            if not isinstance(found, Unread) and client in found.takers
        ]
        quiet = not signs or facts.now - max(signs) >= LOST_AFTER
        if quiet and any(_overruns(job, facts) for job in own):
            lost[client] = own
    return lost


def unserved(facts: HealthFacts) -> list[LateQueue]:
    """Return the late queues whose jobs no client takes, as far as known."""
    if isinstance(facts.running, Unread):
        return []
    lost = lost_clients(facts)
    busy = {job.queue for job in facts.running.jobs if job.client not in lost}
    seen = {job.queue for job in facts.running.jobs}
    found = []
    for late in late_queues(facts):
        waiting = facts.waiting_in(late.name)
        if late.name in busy or isinstance(waiting, Unread):
            continue
        if only_unworked(facts, late.name):
            # Its clients are alive, but have no worker for the waiting kinds.
            continue
        if facts.running.full and late.row.running and late.name not in seen:
            # Its running jobs are not among those that were read.
            continue
        if waiting.taken_at is None or facts.now - waiting.taken_at >= NOT_TAKEN_AFTER:
            found.append(late)
    return found


def served(facts: HealthFacts) -> Finding:
    """Return whether a client takes the jobs of every queue with waiting jobs."""
    queues, late = known(facts.queues), late_queues(facts)
    if not late and len(queues) >= facts.queue_limit:
        return unknown(f"Only the first {facts.queue_limit:,} queues were looked at.")
    if not late:
        return passed("No queue waits for longer than usual.")
    running, idle = known(facts.running), unserved(facts)
    if not idle:
        unread = [q.name for q in late if isinstance(facts.waiting_in(q.name), Unread)]
        if unread:
            return unknown(f"Whether jobs of {among(unread)} are being taken was not read.")
        busy = [q.name for q in late if not only_unworked(facts, q.name)]
        if not busy:
            return passed("Live clients serve every queue that waits.")
        return passed(f"Jobs of {among(busy)} are being taken.")
    if any(job.queue == idle[0].name for job in running.jobs):
        # Its clients are known and lost: `clients` reports that.
        return passed("Clients serve every queue that waits, or did until recently.")
    lost = lost_clients(facts)
    alive = any(job.client not in lost for job in running.jobs)
    if alive or facts.leads or isinstance(facts.leader, Unread):
        return _nobody_works(facts, idle)
    total = capital(wait(available((q.row for q in idle), facts)))
    return Finding(
        level=Level.CRITICAL,
        evidence="No client runs a job, takes one, or leads.",
        cause=Cause.NOBODY_WORKS,
        title="No client works.",
        headline=f"{total}, the oldest for {idle[0].words}.",
        detail="Start workers, or find out why they ended.",
        link=Link(label="See the queues", page="queues"),
        began=idle[0].since,
        baseline=idle[0].known,
    )


def _nobody_works(facts: HealthFacts, idle: Sequence[LateQueue]) -> Finding:
    """Return that no client works the first of these queues."""
    worst = idle[0]
    waiting = known(facts.waiting_in(worst.name))
    count = sum(q.row.available for q in idle)
    kinds = [*waiting.kinds]
    only = f"Or its clients have no worker for {cut(kinds[0])}." if len(kinds) == 1 else ""
    at = waiting.taken_at
    since = f"the last one {duration(facts.now - at)} ago" if at else "none recently"
    waits = capital(wait(available([worst.row], facts)))
    return Finding(
        level=worst.level,
        evidence=f"No job of queue {cut(worst.name)} is running, and nobody takes any: {since}.",
        cause=Cause.NOBODY_WORKS,
        title=f"Nobody works queue {cut(worst.name)}.",
        headline=f"{waits}, the oldest for {worst.words}.",
        detail=f"{only} {waiting_too([q.name for q in idle[1:]])}".strip(),
        culprit=culprit("queue", worst.name, worst.row.available / count) if count else None,
        link=Link(label="Open the queue", page="queue", name=worst.name),
        began=worst.since,
        baseline=worst.known,
    )


def clients(facts: HealthFacts) -> Finding:
    """Return whether a client that holds jobs is lost."""
    running, lost = known(facts.running), lost_clients(facts)
    if not lost:
        if any(_old(job, facts) and not _slowest(job, facts) for job in running.jobs):
            return unknown("Jobs run for long, of kinds whose usual run time is not known.")
        if running.full:
            return unknown(f"Only the first {running.cap:,} running jobs were read.")
        return passed(f"{counted(len(running.jobs), 'job')} running, none of them lost.")
    client, own = max(lost.items(), key=lambda item: len(item[1]))
    signs = [job.attempted_at for job in own if job.attempted_at is not None]
    began = max(signs, default=None)
    if (reported := facts.reporting.get(client)) is not None:
        began = reported.seen_at
        silent = f"has been silent for {duration(facts.now - reported.seen_at)}"
    elif signs:
        silent = f"has taken no job for {duration(facts.now - max(signs))}"
    else:
        silent = "gives no sign of life"
    others = f"{len(lost) - 1:,} more seem to be lost as well. " if len(lost) > 1 else ""
    stands = {late.name for late in unserved(facts)} & {job.queue for job in own}
    kinds = Counter(job.kind for job in own)
    holds = counted(len(own), "job")
    return Finding(
        level=Level.CRITICAL if stands else Level.WARN,
        evidence=f"{cut(client)} {silent}; it holds {holds}.",
        cause=Cause.LOST_CLIENT,
        title="A client is gone." if len(lost) == 1 else f"{len(lost):,} clients are gone.",
        headline=(
            f"{cut(client)} {silent} and still holds {holds}:"
            f" {among(kind for kind, _ in kinds.most_common())}."
        ),
        detail=f"{others}What it holds runs again once it is rescued.",
        culprit=culprit("client", client, len(own) / sum(map(len, lost.values()))),
        link=Link(label="See what it holds", page="jobs", state="running", queue=own[0].queue),
        began=began,
    )


def _old(job: RunningJob, facts: HealthFacts) -> bool:
    return job.attempted_at is not None and facts.now - job.attempted_at >= LOST_AFTER


def _slowest(job: RunningJob, facts: HealthFacts) -> timedelta | None:
    """Return how long the slowest of the job's kind ran in the last hour; None if none ended."""
    if isinstance(facts.hour, Unread):
        return None
    tally = facts.hour.pairs.get((job.queue, job.kind))
    return tally.run.longest if tally else None


def _overruns(job: RunningJob, facts: HealthFacts) -> bool:
    slowest = _slowest(job, facts)
    if slowest is None or job.attempted_at is None:
        return False
    return facts.now - job.attempted_at >= max(LOST_AFTER, slowest * OVERRUN_TIMES)
