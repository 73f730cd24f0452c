"""Which kinds of a queue nobody works: by what clients report, and by the jobs that overtake."""

from __future__ import annotations

from riverui.domain.explain import REPORTED_WITHIN
from riverui.domain.health_facts import HealthFacts, QueueWaiting, ReportingClient
from riverui.domain.job_facts import Unread

_OVERTAKEN = 5
"""Younger jobs that were taken before the oldest of a kind, from which on nobody seems to work it:
a locked row or a limit makes clients pass over a few.
"""


def unworked(facts: HealthFacts, queue: str) -> frozenset[str]:
    """Return the kinds that come next in a queue and that nobody works, as far as is known."""
    waiting = facts.waiting.get(queue)
    if waiting is None or isinstance(waiting, Unread):
        return frozenset()
    kinds = frozenset(waiting.kinds)
    if unreported(facts, queue, waiting):
        kinds = frozenset(k for k in kinds if waiting.kinds[k].overtaken >= _OVERTAKEN)
    return kinds - worked(facts, queue)


def only_unworked(facts: HealthFacts, queue: str) -> bool:
    """Return whether live clients serve a queue and work none of the kinds that wait in it."""
    waiting = facts.waiting.get(queue)
    if waiting is None or isinstance(waiting, Unread) or unreported(facts, queue, waiting):
        return False
    return bool(waiting.kinds) and unworked(facts, queue) == waiting.kinds.keys()


def worked(facts: HealthFacts, queue: str) -> frozenset[str]:
    """Return the kinds of a queue that a live client reports, or that run."""
    kinds = frozenset[str]().union(*(client.kinds or () for client in _live(facts, queue)))
    if isinstance(facts.running, Unread):
        return kinds
    lost = {name for name, client in facts.reporting.items() if client.lost}
    return kinds.union(
        job.kind for job in facts.running.jobs if job.queue == queue and job.client not in lost
    )


def unreported(facts: HealthFacts, queue: str, waiting: QueueWaiting) -> bool:
    """Return whether clients may work a queue that do not report their kinds, such as Go's."""
    live = _live(facts, queue)
    if not live or any(client.kinds is None for client in live):
        return True
    if isinstance(facts.running, Unread) or facts.running.full:
        return True
    seen = {job.client for job in facts.running.jobs if job.queue == queue}
    seen |= {name for name, at in waiting.takers.items() if facts.now - at < REPORTED_WITHIN}
    return bool(seen - facts.reporting.keys())


def _live(facts: HealthFacts, queue: str) -> list[ReportingClient]:
    return [c for c in facts.reporting.values() if queue in c.slots and not c.lost]
