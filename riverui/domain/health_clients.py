"""Who works: whether somebody takes the jobs of every queue, and whether a client is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from riverui.domain.health import Cause, HealthAction, Level
from riverui.domain.health_facts import HealthFacts, RunningJob
from riverui.domain.health_findings import (
    Finding,
    among,
    culprit,
    cut,
    failed,
    jobs,
    passed,
    unmeasured,
    wait,
    waiting_too,
)
from riverui.domain.health_kinds import only_unworked
from riverui.domain.health_late import LateQueue, available, late_queues, leader_id, leads
from riverui.domain.job_facts import Unread
from riverui.domain.time import duration

LOST_AFTER = timedelta(minutes=5)
"""How long a client that holds jobs may give no other sign of life: many rounds of any that polls.
"""
OVERRUN_TIMES = 10.0
"""How many times as long as the slowest of its kind a job may run before its client is doubted."""
_UNREAD = Unread(why="It was not read.")
NOT_TAKEN_AFTER = timedelta(minutes=1)
"""How long jobs of a queue may wait without any being taken: clients poll every second."""


def lost_clients(facts: HealthFacts) -> Mapping[str, Sequence[RunningJob]] | None:
    """Return the clients that seem to be gone, with the jobs that they hold; None where that cannot
    be told.

    A client is lost if it reports itself and stopped, or if it has taken no job for a while and
    holds one that runs far longer than the slowest of its kind.
    """
    if isinstance(facts.running, Unread):
        return None
    held: dict[str, list[RunningJob]] = {}
    for job in facts.running.jobs:
        if job.client:
            held.setdefault(job.client, []).append(job)
    full = facts.running.full
    first = leader_id(facts)
    lost = {}
    for client, own in held.items():
        reported = facts.reporting.get(client)
        if reported is not None:
            if reported.lost:
                lost[client] = own
            continue
        if client == first or full:
            # Where not all running jobs were read, it may have taken one of the others.
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
    """Return the late queues of which nobody takes jobs."""
    gone = lost_clients(facts)
    if gone is None or isinstance(facts.running, Unread):
        return []
    busy = {job.queue for job in facts.running.jobs if job.client not in gone}
    known = {job.queue for job in facts.running.jobs}
    found = []
    for late in late_queues(facts):
        waiting = facts.waiting.get(late.name)
        if late.name in busy or waiting is None or isinstance(waiting, Unread):
            continue
        if only_unworked(facts, late.name):
            # Its clients live, and have no worker for what waits.
            continue
        if facts.running.full and late.row.running and late.name not in known:
            # Its running jobs are not among those that were read.
            continue
        if waiting.taken_at is None or facts.now - waiting.taken_at >= NOT_TAKEN_AFTER:
            found.append(late)
    return found


def served(facts: HealthFacts) -> Finding:
    """Return whether somebody takes the jobs of every queue that waits."""
    name, label = "served", "Queues are served"
    if isinstance(facts.queues, Unread):
        return unmeasured(name, label, facts.queues)
    late = late_queues(facts)
    if not late and len(facts.queues) >= facts.queue_limit:
        words = f"Only the first {facts.queue_limit:,} queues were looked at."
        return unmeasured(name, label, words)
    if not late:
        return passed(name, label, "No queue waits for longer than usual.")
    if isinstance(facts.running, Unread):
        return unmeasured(name, label, facts.running)
    idle = unserved(facts)
    unread = [q.name for q in late if isinstance(facts.waiting.get(q.name, _UNREAD), Unread)]
    if not idle:
        if unread:
            words = f"Whether jobs of {among(unread)} are being taken was not read."
            return unmeasured(name, label, words)
        busy = [q.name for q in late if not only_unworked(facts, q.name)]
        if not busy:
            return passed(name, label, "Live clients serve every queue that waits.")
        return passed(name, label, f"Jobs of {among(busy)} are being taken.")
    worst, gone = idle[0], lost_clients(facts) or {}
    alive = any(job.client not in gone for job in facts.running.jobs)
    if any(job.queue == worst.name for job in facts.running.jobs):
        # Its clients are known, and gone: that is told by `clients`.
        return passed(name, label, "Clients serve every queue that waits, or did until lately.")
    count = sum(q.row.available for q in idle)
    if not alive and not leads(facts) and not isinstance(facts.leader, Unread):
        total = wait(available((q.row for q in idle), facts))
        words = f"{total[0].upper()}{total[1:]}, the oldest for {worst.words}."
        return Finding(
            check=failed(name, label, "No client runs a job, takes one, or leads."),
            level=Level.CRITICAL,
            cause=Cause.NOBODY_WORKS,
            label="No client works.",
            headline=words,
            detail="Start workers, or look why they ended.",
            action=HealthAction(label="See the queues", page="queues"),
        )
    waits = wait(available([worst.row], facts))
    taken = facts.waiting.get(worst.name, _UNREAD)
    at = None if isinstance(taken, Unread) else taken.taken_at
    kinds = () if isinstance(taken, Unread) else tuple(taken.kinds)
    only = f"Or its clients have no worker for {cut(kinds[0])}." if len(kinds) == 1 else ""
    others = waiting_too([q.name for q in idle[1:]])
    since = f"the last one {duration(facts.now - at)} ago" if at else "none lately"
    evidence = f"No job of queue {cut(worst.name)} is running, and nobody takes any: {since}."
    return Finding(
        check=failed(name, label, evidence),
        level=worst.level,
        cause=Cause.NOBODY_WORKS,
        label=f"Nobody works queue {cut(worst.name)}.",
        headline=f"{waits[0].upper()}{waits[1:]}, the oldest for {worst.words}.",
        detail=f"{only} {others}".strip(),
        culprit=culprit("queue", worst.name, worst.row.available / count)
        if count and worst.row.available * 2 >= count
        else None,
        action=HealthAction(label="Open the queue", page="queue", name=worst.name),
    )


def clients(facts: HealthFacts) -> Finding:
    """Return whether a client that holds jobs is gone."""
    name, label = "clients", "Clients that hold jobs live"
    if isinstance(facts.running, Unread):
        return unmeasured(name, label, facts.running)
    lost = lost_clients(facts) or {}
    if not lost:
        if any(_old(job, facts) and not _known(job, facts) for job in facts.running.jobs):
            evidence = "Jobs run for long, of kinds whose usual run time is not known."
            return unmeasured(name, label, evidence)
        if facts.running.full:
            evidence = f"Only the first {facts.running.cap:,} running jobs were read."
            return unmeasured(name, label, evidence)
        evidence = f"{jobs(len(facts.running.jobs))} running, none of them lost."
        return passed(name, label, evidence)
    client, own = max(lost.items(), key=lambda item: len(item[1]))
    total = sum(map(len, lost.values()))
    signs = [job.attempted_at for job in own if job.attempted_at is not None]
    if (reported := facts.reporting.get(client)) is not None:
        silent = f"has been silent for {duration(facts.now - reported.seen_at)}"
    elif signs:
        silent = f"has taken no job for {duration(facts.now - max(signs))}"
    else:
        silent = "gives no sign of life"
    others = f" {len(lost) - 1:,} more seem to be gone as well." if len(lost) > 1 else ""
    stands = {late.name for late in unserved(facts)} & {job.queue for job in own}
    kinds = Counter(job.kind for job in own)
    return Finding(
        check=failed(name, label, f"{cut(client)} {silent}; it holds {jobs(len(own))}."),
        level=Level.CRITICAL if stands else Level.WARN,
        cause=Cause.LOST_CLIENT,
        label="A client is gone." if len(lost) == 1 else f"{len(lost):,} clients are gone.",
        headline=(
            f"{cut(client)} {silent} and still holds {jobs(len(own))}:"
            f" {among(kind for kind, _ in kinds.most_common())}."
        ),
        detail=f"{others.strip()} What it holds runs again once it is rescued.".strip(),
        culprit=culprit("client", client, len(own) / total) if len(own) * 2 >= total else None,
        action=HealthAction(
            label="See what it holds", page="jobs", state="running", queue=own[0].queue
        ),
    )


def _old(job: RunningJob, facts: HealthFacts) -> bool:
    return job.attempted_at is not None and facts.now - job.attempted_at >= LOST_AFTER


def _known(job: RunningJob, facts: HealthFacts) -> timedelta | None:
    """Return how long the slowest of the job's kind ran in the last hour; None if none ended."""
    if isinstance(facts.hour, Unread):
        return None
    tally = facts.hour.pairs.get((job.queue, job.kind))
    return tally.run.longest if tally else None


def _overruns(job: RunningJob, facts: HealthFacts) -> bool:
    slowest = _known(job, facts)
    if slowest is None or job.attempted_at is None:
        return False
    return facts.now - job.attempted_at >= max(LOST_AFTER, slowest * OVERRUN_TIMES)
