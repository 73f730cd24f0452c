"""Find queues that wait longer than usual, and kinds in them that no client works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from riverui.domain.explain.facts import REPORTED_WITHIN
from riverui.domain.findings import Level, Unread, among
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.change import calm, long_ones, rise
from riverui.domain.health.facts import HealthFacts, QueueWaiting, ReportingClient
from riverui.domain.health.usual import (
    PENDING_CRITICAL_TIMES,
    PENDING_FLOOR,
    PENDING_WARN_TIMES,
    WAIT_CRITICAL_FLOOR,
    WAIT_WARN_FLOOR,
    WAIT_WARN_TIMES,
    columns,
    grade_wait,
    kept,
    usual,
    usually,
    within,
)
from riverui.domain.queues import QueueListRow
from riverui.domain.sketch import Sketch
from riverui.domain.text import counted
from riverui.domain.time import duration

_OVERTAKEN = 5
"""How many younger jobs must be taken before the oldest of a kind until the kind counts as not
worked: clients skip fewer for a locked row or a limit.
"""
_OVERTAKEN_IDLE = 2
"""The same if nothing of the queue runs, so that no limit holds the kind up."""
_SHORT = timedelta(seconds=5)
"""Shorter waits do not begin a delay: clients poll every second, and the leader every 5 seconds."""
_LAG = timedelta(seconds=20)
"""Shorter waits never show that a queue falls behind: each job may wait for a slot."""
_STRETCH = timedelta(minutes=5)
"""A time whose waits are compared with those of the time before: chance evens out."""
_RISE = 1.05
"""How much longer waits must be than in the time before."""
_SOON = timedelta(minutes=3)
"""How soon a queue must be empty for its delay to be a burst that is over by itself."""


class LateQueue(Struct, frozen=True, kw_only=True):
    """A queue whose oldest job has waited too long."""

    row: QueueListRow
    waited: timedelta
    known: Baseline | None
    level: Level
    since: datetime
    """Since when its jobs have been late."""

    @property
    def name(self) -> str:
        """Return its name."""
        return self.row.queue.name

    @property
    def words(self) -> str:
        """Return in words how long it waits, and how long it usually does."""
        normal = self.known.wait if self.known else None
        return f"{duration(self.waited)}{usually(normal)}"


def waited(row: QueueListRow, facts: HealthFacts) -> timedelta:
    """Return how long the oldest job of a queue has waited; zero if none waits."""
    return max(facts.now - (row.oldest_waiting_at or facts.now), timedelta(0))


def waiting_long(facts: HealthFacts) -> list[QueueListRow]:
    """Return the queues that are not paused and whose oldest job waits, the longest first."""
    if isinstance(facts.queues, Unread):
        return []
    rows = [
        row for row in facts.queues if row.queue.paused_at is None and waited(row, facts) >= _LAG
    ]
    return sorted(rows, key=lambda row: waited(row, facts), reverse=True)


def any_waits(facts: HealthFacts) -> bool:
    """Return whether jobs wait in any queue, for longer than a moment."""
    if isinstance(facts.queues, Unread):
        return True
    return any(waited(row, facts) >= WAIT_WARN_FLOOR for row in facts.queues)


def late_queues(facts: HealthFacts) -> list[LateQueue]:
    """Return the queues that wait for longer than before that began, the worst first."""
    found = []
    for row in waiting_long(facts):
        subject, span = Subject("queue", row.queue.name), waited(row, facts)
        since = _began(facts, subject, span)
        known = usual(facts, subject, since)
        if known is None and facts.looking and span < WAIT_CRITICAL_FLOOR:
            continue
        pending = _grade_pending(row, known) if span >= WAIT_WARN_FLOOR else Level.OK
        grades = (grade_wait(span, known), pending)
        level = max(grades, key=lambda grade: grade.badness)
        if level is Level.OK and _lags(facts, subject, since, known):
            level = Level.WARN
        if level is not Level.OK and not _drains(row, facts):
            found.append(LateQueue(row=row, waited=span, known=known, level=level, since=since))
    return sorted(found, key=lambda late: (late.level.badness, late.waited), reverse=True)


def _began(facts: HealthFacts, subject: Subject, waited: timedelta) -> datetime:
    """Return since when the jobs of a queue have been late, whose oldest one waits so long."""
    if (before := kept(facts, subject)) is not None:
        return before.before
    since, known = facts.now - waited, columns(facts, subject)
    usually = calm(known, lambda column: column.tally.wait)
    if usually is None:
        return since
    limit = max(usually * WAIT_WARN_TIMES, _SHORT)
    began = rise(long_ones(known, lambda column: column.tally.wait, limit))
    return since if began is None else min(began, since)


def _lags(facts: HealthFacts, subject: Subject, since: datetime, known: Baseline | None) -> bool:
    """Return whether the jobs of a queue wait longer from minute to minute, and already far longer
    than usual: it falls behind slowly.
    """
    if known is None or known.wait is None or facts.now - since < 2 * _STRETCH:
        return False
    newest, middle, oldest = (
        _median_wait(facts, subject, facts.now - number * _STRETCH) for number in range(3)
    )
    rises = _RISE * _RISE * oldest < _RISE * middle < newest
    return rises and newest >= max(_LAG, known.wait * WAIT_WARN_TIMES)


def _median_wait(facts: HealthFacts, subject: Subject, until: datetime) -> timedelta:
    total = Sketch()
    for column in columns(facts, subject):
        if until - _STRETCH <= column.at < until:
            total.merge(column.tally.wait)
    return total.quantile(0.5) or timedelta(0)


def _drains(row: QueueListRow, facts: HealthFacts) -> bool:
    """Return whether a queue will soon be empty at its pace: a burst that does no harm."""
    if waited(row, facts) >= WAIT_CRITICAL_FLOOR or row.available >= facts.queue_cap:
        return False
    if isinstance(facts.hour, Unread) or facts.hour.unnamed:
        return False
    span = 3 * timedelta(minutes=1)
    now = within(facts, Subject("queue", row.queue.name), since=facts.now - span)
    gain = 0 if now is None else now.ended - now.inserted
    return gain > 0 and row.available * span <= gain * _SOON


def _grade_pending(row: QueueListRow, known: Baseline | None) -> Level:
    """Return how bad the number of waiting jobs is, compared with the usual one."""
    if known is None or not known.waiting or row.available < PENDING_FLOOR:
        return Level.OK
    times = row.available / known.waiting
    if times >= PENDING_CRITICAL_TIMES:
        return Level.CRITICAL
    return Level.WARN if times >= PENDING_WARN_TIMES else Level.OK


def available(rows: Iterable[QueueListRow], facts: HealthFacts) -> str:
    """Return how many jobs wait in these queues together: "17 jobs", "at least 1,000 jobs"."""
    counts = [row.available for row in rows]
    capped = any(count >= facts.queue_cap for count in counts)
    return counted(sum(counts), "job", 0 if capped else None)


def wait(jobs: str) -> str:
    """Return a number of waiting jobs in words: "1 job waits", "17 jobs wait"."""
    return f"{jobs} wait{'s' if jobs == counted(1, 'job') else ''}"


def waiting_too(names: Sequence[str]) -> str:
    """Return a sentence about further waiting queues: "mail waits too."; empty without names."""
    return f"{among(names)} wait{'s' if len(names) == 1 else ''} too." if names else ""


def unworked(facts: HealthFacts, queue: str) -> frozenset[str]:
    """Return the kinds of the next jobs of a queue that no client works, as far as known."""
    waiting = facts.waiting_in(queue)
    if isinstance(waiting, Unread):
        return frozenset()
    kinds = frozenset(waiting.kinds)
    if unreported(facts, queue, waiting):
        fewest = _OVERTAKEN if _runs(facts, queue) else _OVERTAKEN_IDLE
        kinds = frozenset(k for k in kinds if waiting.kinds[k].overtaken >= fewest)
    return kinds - worked(facts, queue)


def _runs(facts: HealthFacts, queue: str) -> bool:
    """Return whether jobs of a queue may be running."""
    running = facts.running
    if isinstance(running, Unread) or running.full:
        return True
    return any(job.queue == queue for job in running.jobs)


def only_unworked(facts: HealthFacts, queue: str) -> bool:
    """Return whether live clients serve a queue and work none of the kinds that wait in it."""
    waiting = facts.waiting_in(queue)
    if isinstance(waiting, Unread) or unreported(facts, queue, waiting):
        return False
    return bool(waiting.kinds) and unworked(facts, queue) == waiting.kinds.keys()


def worked(facts: HealthFacts, queue: str) -> frozenset[str]:
    """Return the kinds of a queue that a live client reports or that are running."""
    kinds = frozenset[str]().union(*(client.kinds or () for client in _live(facts, queue)))
    if isinstance(facts.running, Unread):
        return kinds
    lost = {name for name, client in facts.reporting.items() if client.lost}
    return kinds.union(
        job.kind for job in facts.running.jobs if job.queue == queue and job.client not in lost
    )


def unreported(facts: HealthFacts, queue: str, waiting: QueueWaiting) -> bool:
    """Return whether a queue may have clients that do not report kinds, such as Go clients."""
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
