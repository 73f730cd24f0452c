"""Which clients seem to be lost, and which kinds hang, by jobs that run for too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from riverui.domain.findings import Unread, known
from riverui.domain.health.facts import HealthFacts, RunningJob

NOT_TAKEN_AFTER = timedelta(minutes=1)
"""How long jobs of a queue may wait without any being taken: clients poll every second."""
LOST_AFTER = timedelta(minutes=5)
"""How long a client that holds jobs may give no other sign of life: many rounds of polling."""
OVERRUN_TIMES = 10.0
"""How many times as long as the slowest of its kind a job may run before its client is suspect."""
_QUIET_AFTER = timedelta(minutes=2)
"""How long a client that takes no job may be only busy."""
_BEYOND = 2.0
"""How many times as long as the slowest of its kind a job must run to be suspect."""
_SEVERAL = 3
"""How many such jobs, and no others, make their client suspect."""
_PASSED_BY = 20
"""How many jobs of a queue each client must have taken while one that holds jobs took none."""
_FEWEST_RUNS = 3
"""Fewest runs of which the slowest means anything."""
_FEWEST_HANGING = 2
"""Fewest jobs of a kind that hang: a single one may have unusual args."""
_LEAST = timedelta(seconds=10)
"""The least time that counts as the slowest: a busy client may delay what is quick."""
_LONG = timedelta(minutes=1)
"""Jobs that run for less are never suspect."""


class Holder(Struct, frozen=True, kw_only=True):
    """A client and the jobs that it holds."""

    client: str
    jobs: Sequence[RunningJob]
    overrun: Sequence[RunningJob]
    """Those that run for at least twice as long as the slowest of their kind."""
    seen_at: datetime | None
    """When it last took a job, as far as known."""

    def alive_with(self, job: RunningJob, slowest: timedelta) -> bool:
        """Return whether the client took another job when this one had been running too long."""
        if self.seen_at is None or job.attempted_at is None:
            return False
        return self.seen_at - job.attempted_at >= max(slowest * _BEYOND, _LEAST)


def holders(facts: HealthFacts) -> Mapping[str, Holder]:
    """Return all clients that hold jobs. Raise Unread if the running jobs could not be read."""
    held: dict[str, list[RunningJob]] = {}
    long: dict[str, list[RunningJob]] = {}
    for job in known(facts.running).jobs:
        if job.client:
            held.setdefault(job.client, []).append(job)
    for job in overrun(facts):
        long.setdefault(job.client, []).append(job)
    found = {}
    for client, own in held.items():
        signs = [job.attempted_at for job in own if job.attempted_at is not None]
        signs += [
            waiting.takers[client]
            for waiting in facts.waiting.values()
            if not isinstance(waiting, Unread) and client in waiting.takers
        ]
        found[client] = Holder(
            client=client,
            jobs=own,
            overrun=long.get(client, ()),
            seen_at=max(signs, default=None),
        )
    return found


def lost_clients(facts: HealthFacts) -> Mapping[str, Holder]:
    """Return the clients that seem to be lost. Raise Unread if the running jobs could not be read.

    A client is lost if its heartbeats stopped, or if it has taken no job for a while and what it
    holds runs far longer than the slowest of its kind, unless a kind hangs.
    """
    every = holders(facts)
    lost = {}
    for client, holder in every.items():
        reported = facts.reporting.get(client)
        if reported is not None:
            if reported.lost:
                lost[client] = holder
            continue
        if client == facts.leads or known(facts.running).full:
            # If not all running jobs were read, it may have taken one of the others.
            continue
        seen = holder.seen_at
        if seen is not None and facts.now - seen < _QUIET_AFTER:
            continue
        if _is_lost(holder, facts) and not _hangs(holder, every, facts):
            lost[client] = holder
    return lost


def hanging(facts: HealthFacts) -> Mapping[str, Sequence[RunningJob]]:
    """Return the kinds that hang, with such jobs: they run too long while their clients live."""
    every, lost = holders(facts), lost_clients(facts)
    signs = [holder.seen_at for holder in every.values() if holder.seen_at is not None]
    if not facts.leads and signs and facts.now - max(signs) >= NOT_TAKEN_AFTER / 2:
        # Nobody leads or takes jobs: all may be gone.
        return {}
    found: dict[str, list[RunningJob]] = {}
    for holder in every.values():
        if holder.client not in lost:
            for job in holder.overrun:
                found.setdefault(job.kind, []).append(job)
    return {
        kind: jobs
        for kind, jobs in found.items()
        if len(jobs) >= _FEWEST_HANGING
        and (len({job.client for job in jobs}) > 1 or _lives(jobs[0], every, facts))
    }


def suspect_queues(facts: HealthFacts) -> list[str]:
    """Return the queues of jobs that run too long."""
    if isinstance(facts.running, Unread):
        return []
    return list(dict.fromkeys(job.queue for job in overrun(facts)))


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
    signs = [holder.seen_at for holder in holders(facts).values() if holder.seen_at is not None]
    for found in facts.waiting.values():
        if isinstance(found, Unread):
            return False
        signs += [found.taken_at] if found.taken_at else []
    return not signs or facts.now - max(signs) >= NOT_TAKEN_AFTER


def is_old(job: RunningJob, facts: HealthFacts) -> bool:
    """Return whether a job has been running for longer than a client may be silent."""
    return job.attempted_at is not None and facts.now - job.attempted_at >= LOST_AFTER


def slowest_run(job: RunningJob, facts: HealthFacts) -> timedelta | None:
    """Return how long the slowest of the job's kind ran in the last hour; None if few ended."""
    if isinstance(facts.hour, Unread):
        return None
    tally = facts.hour.pairs.get((job.queue, job.kind))
    return tally.run.longest if tally and tally.run.n >= _FEWEST_RUNS else None


def _times(job: RunningJob, facts: HealthFacts) -> float:
    """Return how many times as long as the slowest of its kind a job has been running; 0 if that
    is unknown.
    """
    slowest = slowest_run(job, facts)
    if slowest is None or job.attempted_at is None:
        return 0.0
    return (facts.now - job.attempted_at) / max(slowest, _LEAST)


def overrun(facts: HealthFacts) -> list[RunningJob]:
    """Return the jobs that run for at least twice as long as the slowest of their kind."""
    long = facts.now - _LONG
    jobs = [
        job for job in known(facts.running).jobs if job.attempted_at and job.attempted_at < long
    ]
    return [job for job in jobs if _times(job, facts) >= _BEYOND]


def _is_lost(holder: Holder, facts: HealthFacts) -> bool:
    """Return whether the jobs of a quiet client run too long to be only slow: one for far too long,
    or all of several, or all of a client that would have taken others meanwhile.
    """
    if any(is_old(job, facts) and _times(job, facts) >= OVERRUN_TIMES for job in holder.overrun):
        return True
    if not holder.overrun or len(holder.overrun) < len(holder.jobs):
        return False
    passed = max(_passed_by(job, facts) for job in holder.jobs)
    return len(holder.jobs) >= _SEVERAL or passed >= _PASSED_BY


def _passed_by(job: RunningJob, facts: HealthFacts) -> float:
    """Return how many jobs of its queue each client has taken since this one, as far as known."""
    if isinstance(facts.hour, Unread):
        return 0.0
    ended = sum(t.ended for (queue, _), t in facts.hour.pairs.items() if queue == job.queue)
    clients = len({each.client for each in known(facts.running).jobs if each.queue == job.queue})
    since = (facts.now - (job.attempted_at or facts.now)) / facts.hour.window.span
    return ended * since / max(clients, 1)


def _hangs(holder: Holder, every: Mapping[str, Holder], facts: HealthFacts) -> bool:
    """Return whether jobs of one kind hang rather than their client being lost: other clients have
    such jobs too, or it took others while the first of them ran for too long.
    """
    kinds = {job.kind for job in holder.overrun}
    if len(kinds) != 1:
        return False
    others = {job.kind for other in every.values() if other is not holder for job in other.overrun}
    return kinds <= others or any(_lives(job, every, facts) for job in holder.overrun)


def _lives(job: RunningJob, every: Mapping[str, Holder], facts: HealthFacts) -> bool:
    """Return whether the client of a job that runs too long is alive, as far as known."""
    reported = facts.reporting.get(job.client)
    if reported is not None or job.client == facts.leads:
        return reported is None or not reported.lost
    slowest = slowest_run(job, facts) or timedelta(0)
    return every[job.client].alive_with(job, slowest)
