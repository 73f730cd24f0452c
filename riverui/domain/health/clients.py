"""Checks of clients: whether the jobs of every queue are taken, and whether a client is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta

from riverui.domain.explain.facts import RESCUED_AFTER
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
QUIET_AFTER = timedelta(minutes=2)
"""How long a client that takes no job may be only busy."""
_BEYOND = 2.0
"""How many times as long as the slowest of its kind a job must run to be suspect."""
_SEVERAL = 3
"""How many such jobs, and no others, make their client suspect."""
_PASSED_BY = 20
"""How many jobs of a queue each client must have taken while one that holds jobs took none."""
_MOMENT = timedelta(seconds=10)
"""The least time that counts as the slowest: a busy client may delay what is quick."""
_STARTED = re.compile(r"_\d{4}_\d\d_\d\dT[\d_]+$")
"""When a client started, at the end of the id that River gives it."""
_LONGEST_ID = 500
"""Characters of a client's id that are read: River's ids have some 100."""
NOT_TAKEN_AFTER = timedelta(minutes=1)
"""How long jobs of a queue may wait without any being taken: clients poll every second."""


def lost_clients(facts: HealthFacts) -> Mapping[str, Sequence[RunningJob]]:
    """Return the clients that seem to be lost, with the jobs that they hold. Raise Unread if the
    running jobs could not be read.

    A client is lost if its heartbeats stopped, or if it has taken no job for a while and what it
    holds runs far longer than the slowest of its kind, unless a kind hangs.
    """
    running = known(facts.running)
    held: dict[str, list[RunningJob]] = {}
    for job in running.jobs:
        if job.client:
            held.setdefault(job.client, []).append(job)
    overrun = {client: _overrun(own, facts) for client, own in held.items()}
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
        seen = _seen(client, own, facts)
        if seen is not None and facts.now - seen < QUIET_AFTER:
            continue
        others = {job.kind for name, jobs in overrun.items() if name != client for job in jobs}
        if _is_lost(overrun[client], own, facts) and not _hangs(overrun[client], seen, others):
            lost[client] = own
    return lost


def all_gone(facts: HealthFacts) -> bool:
    """Return whether no client is alive, as far as known: nobody leads, though every client would,
    and nobody has taken a job for a while.
    """
    leader = facts.leader
    if isinstance(leader, Unread) or isinstance(facts.running, Unread) or facts.running.full:
        return False
    if leader is not None and facts.now - leader.expires_at < NOT_TAKEN_AFTER:
        return False
    if any(not client.lost for client in facts.reporting.values()):
        return False
    signs = [job.attempted_at for job in facts.running.jobs if job.attempted_at is not None]
    for found in facts.waiting.values():
        if isinstance(found, Unread):
            return False
        signs += [found.taken_at] if found.taken_at else []
    return not signs or facts.now - max(signs) >= NOT_TAKEN_AFTER


def unserved(facts: HealthFacts) -> list[LateQueue]:
    """Return the late queues whose jobs no client takes, as far as known."""
    if isinstance(facts.running, Unread):
        return []
    if all_gone(facts):
        return late_queues(facts)
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
    if not all_gone(facts):
        if any(job.queue == idle[0].name for job in running.jobs):
            # Its clients are known and lost: `clients` reports that.
            return passed("Clients serve every queue that waits, or did until recently.")
        return _nobody_works(facts, idle)
    total = capital(wait(available((q.row for q in idle), facts)))
    holders = {job.client for job in running.jobs if job.client}
    held = f"; {counted(len(running.jobs), 'job')} still held by {among(map(host, holders))}"
    return Finding(
        level=Level.CRITICAL,
        evidence=f"No client takes a job or leads{held if holders else ''}.",
        cause=Cause.NOBODY_WORKS,
        title="No client works.",
        headline=f"{total}, the oldest for {idle[0].words}.",
        detail="Start workers, or find out why they ended.",
        link=Link(label="Open the queues", page="queues"),
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
    seen, reported = _seen(client, own, facts), facts.reporting.get(client)
    if reported is not None:
        silent = f"has been silent for {duration(facts.now - reported.seen_at)}"
    elif seen is not None:
        silent = f"has taken no job for {duration(facts.now - seen)}"
    else:
        silent = "gives no sign of life"
    others = f"{len(lost) - 1:,} more seem to be lost as well. " if len(lost) > 1 else ""
    stands = {late.name for late in unserved(facts)} & {job.queue for job in own}
    kinds = Counter(job.kind for job in own)
    holds = f"{silent} and still holds {counted(len(own), 'job')}"
    return Finding(
        level=Level.CRITICAL if stands else Level.WARN,
        evidence=f"{host(client)} {holds}.",
        cause=Cause.LOST_CLIENT,
        title=f"Client {host(client)} is gone."
        if len(lost) == 1
        else f"{len(lost):,} clients are gone.",
        headline=(
            f"{'It' if len(lost) == 1 else host(client)} {holds}:"
            f" {among(kind for kind, _ in kinds.most_common())}. {_rescued(own, facts)}"
        ),
        detail=others.strip(),
        culprit=culprit("client", client, len(own) / sum(map(len, lost.values()))),
        link=Link(label="Rescue now", page="workers")
        if reported is not None
        else Link(
            label=f"Open its {counted(len(own), 'job')}",
            page="jobs",
            state="running",
            queue=own[0].queue,
        ),
        began=seen if reported is None else reported.seen_at,
    )


def host(client: str) -> str:
    """Return the host's name for a sentence: River's ids of clients begin with it."""
    return cut(_STARTED.sub("", client[:_LONGEST_ID]) or client)


def _rescued(own: Sequence[RunningJob], facts: HealthFacts) -> str:
    """Return when the jobs of a lost client are rescued, as a sentence."""
    client = facts.reporting.get(own[0].client)
    if client is not None:
        return "They are rescued within 90 s."
    first = min((job.attempted_at for job in own if job.attempted_at), default=None)
    at = "" if first is None else f" from {first + RESCUED_AFTER:%H:%M} on"
    return f"The leader rescues them{at}, an hour after they began by default."


def _seen(client: str, own: Sequence[RunningJob], facts: HealthFacts) -> datetime | None:
    """Return when a client last took a job, as far as known."""
    signs = [job.attempted_at for job in own if job.attempted_at is not None]
    signs += [
        found.takers[client]
        for found in facts.waiting.values()
        if not isinstance(found, Unread) and client in found.takers
    ]
    return max(signs, default=None)


def _old(job: RunningJob, facts: HealthFacts) -> bool:
    return job.attempted_at is not None and facts.now - job.attempted_at >= LOST_AFTER


def _slowest(job: RunningJob, facts: HealthFacts) -> timedelta | None:
    """Return how long the slowest of the job's kind ran in the last hour; None if none ended."""
    if isinstance(facts.hour, Unread):
        return None
    tally = facts.hour.pairs.get((job.queue, job.kind))
    return tally.run.longest if tally else None


def _times(job: RunningJob, facts: HealthFacts) -> float:
    """Return how many times as long as the slowest of its kind a job has been running; 0 if that
    is unknown.
    """
    slowest = _slowest(job, facts)
    if slowest is None or job.attempted_at is None:
        return 0.0
    return (facts.now - job.attempted_at) / max(slowest, _MOMENT)


def _overrun(own: Sequence[RunningJob], facts: HealthFacts) -> list[RunningJob]:
    """Return the jobs that run for at least twice as long as the slowest of their kind."""
    return [job for job in own if _times(job, facts) >= _BEYOND]


def _is_lost(overrun: Sequence[RunningJob], own: Sequence[RunningJob], facts: HealthFacts) -> bool:
    """Return whether the jobs of a quiet client run too long to be only slow: one for far too long,
    or all of several, or all of a client that would have taken others meanwhile.
    """
    if any(_old(job, facts) and _times(job, facts) >= OVERRUN_TIMES for job in overrun):
        return True
    if not overrun or len(overrun) < len(own):
        return False
    return len(own) >= _SEVERAL or max(_passed_by(job, facts) for job in own) >= _PASSED_BY


def _passed_by(job: RunningJob, facts: HealthFacts) -> float:
    """Return how many jobs of its queue each client has taken since this one, as far as known."""
    if isinstance(facts.hour, Unread) or isinstance(facts.running, Unread):
        return 0.0
    ended = sum(tally.ended for (queue, _), tally in facts.hour.pairs.items() if queue == job.queue)
    clients = len({other.client for other in facts.running.jobs if other.queue == job.queue})
    since = (facts.now - (job.attempted_at or facts.now)) / facts.hour.window.span
    return ended * since / clients if clients else 0.0


def _hangs(overrun: Sequence[RunningJob], seen: datetime | None, others: Set[str]) -> bool:
    """Return whether jobs of one kind hang rather than their client being lost: it took others
    when the first of them had been running for long, or other clients have such jobs too.
    """
    kinds = {job.kind for job in overrun}
    if len(kinds) != 1:
        return False
    if kinds <= others:
        return True
    first = min((job.attempted_at for job in overrun if job.attempted_at), default=None)
    return first is not None and seen is not None and seen - first >= QUIET_AFTER
