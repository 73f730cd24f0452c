"""Checks of clients: whether the jobs of every queue are taken, and whether a client is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
from riverui.domain.health.facts import HealthFacts
from riverui.domain.health.lost import (
    NOT_TAKEN_AFTER,
    Holder,
    all_gone,
    is_old,
    lost_clients,
    slowest_run,
)
from riverui.domain.health.queues import (
    LateQueue,
    available,
    late_queues,
    only_unworked,
    wait,
    waiting_too,
)
from riverui.domain.text import client_host, counted
from riverui.domain.time import duration

_LONGEST_ID = 500
"""Characters of a client's id that are read: River's ids have some 100."""


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
        but = "Apart from paused ones, no" if any(q.queue.paused_at for q in queues) else "No"
        return passed(f"{but} queue waits for longer than usual.")
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
        cure="Start workers, or find out why they ended.",
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
        cure="Start its workers, or find out why they ended.",
        culprit=culprit("queue", worst.name, worst.row.available / count) if count else None,
        link=Link(label="Open the queue", page="queue", name=worst.name),
        began=worst.since,
        baseline=worst.known,
    )


def clients(facts: HealthFacts) -> Finding:
    """Return whether a client that holds jobs is lost."""
    running, lost = known(facts.running), lost_clients(facts)
    if not lost:
        if any(is_old(job, facts) and not slowest_run(job, facts) for job in running.jobs):
            return unknown("Jobs run for long, of kinds whose usual run time is not known.")
        if running.full:
            return unknown(f"Only the first {running.cap:,} running jobs were read.")
        return passed("No running job was lost with its client.")
    worst = max(lost.values(), key=lambda holder: len(holder.jobs))
    client, own, reported = worst.client, worst.jobs, facts.reporting.get(worst.client)
    if reported is not None:
        silent = f"has been silent for {duration(facts.now - reported.seen_at)}"
    elif worst.seen_at is not None:
        silent = f"has taken no job for {duration(facts.now - worst.seen_at)}"
    else:
        silent = "gives no sign of life"
    others = f"{len(lost) - 1:,} more seem to be lost as well." if len(lost) > 1 else ""
    stands = {late.name for late in unserved(facts)} & {job.queue for job in own}
    kinds = Counter(job.kind for job in own)
    jobs = counted(len(own), "job")
    holds = f"{silent} and still holds {jobs}"
    queue = own[0].queue if len({job.queue for job in own}) == 1 else ""
    label = f"Open its {jobs}" if queue else "Open what runs"
    held = Link(label=label, page="jobs", state="running", queue=queue)
    return Finding(
        level=Level.CRITICAL if stands else Level.WARN,
        evidence=f"{host(client)} {holds}.",
        cause=Cause.LOST_CLIENT,
        title=f"Client {host(client)} is gone."
        if len(lost) == 1
        else f"{len(lost):,} clients are gone.",
        headline=(
            f"{'It' if len(lost) == 1 else host(client)} still holds {jobs}:"
            f" {among(kind for kind, _ in kinds.most_common())}. {_rescued(worst, facts)}"
        ),
        detail=others,
        cure="Start a worker in its place if the others cannot do its work.",
        culprit=culprit("client", client, len(own) / sum(len(h.jobs) for h in lost.values())),
        link=Link(label="Rescue now", page="workers") if reported is not None else held,
        began=worst.seen_at if reported is None else reported.seen_at,
    )


def host(client: str) -> str:
    """Return the host's name of a client for a sentence."""
    return cut(client_host(client[:_LONGEST_ID]))


def _rescued(lost: Holder, facts: HealthFacts) -> str:
    """Return when the jobs of a lost client are rescued, as a sentence."""
    if lost.client in facts.reporting:
        return "They are rescued within 90 s."
    first = min((job.attempted_at for job in lost.jobs if job.attempted_at), default=None)
    at = "" if first is None else f" from {first + RESCUED_AFTER:%H:%M} on"
    return f"The leader rescues them{at}, by default once they have run for an hour."
