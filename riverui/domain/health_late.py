"""Which queues wait for longer than usual."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from riverui.domain.health import Level
from riverui.domain.health_facts import HealthFacts
from riverui.domain.health_findings import jobs
from riverui.domain.health_usual import (
    PENDING_CRITICAL_TIMES,
    PENDING_FLOOR,
    PENDING_WARN_TIMES,
    WAIT_WARN_FLOOR,
    Usual,
    grade_wait,
    usual,
    usually,
)
from riverui.domain.job_facts import Unread
from riverui.domain.queues import LeaderRow, QueueListRow
from riverui.domain.time import duration


@dataclass(frozen=True, kw_only=True, slots=True)
class LateQueue:
    """A queue whose oldest job has waited for longer than it should."""

    row: QueueListRow
    waited: timedelta
    known: Usual | None
    level: Level

    @property
    def name(self) -> str:
        """Return its name."""
        return self.row.queue.name

    @property
    def words(self) -> str:
        """Return how long it waits, and usually does."""
        normal = self.known.tally.wait.quantile(0.95) if self.known else None
        return f"{duration(self.waited)}{usually(normal)}"


def waited(row: QueueListRow, facts: HealthFacts) -> timedelta:
    """Return how long the oldest job of a queue has waited; nothing where none does."""
    if row.oldest_waiting_at is None:
        return timedelta(0)
    return max(facts.now - row.oldest_waiting_at, timedelta(0))


def available(rows: Iterable[QueueListRow], facts: HealthFacts) -> str:
    """Return how many jobs wait in these queues together."""
    counts = [row.available for row in rows]
    capped = any(count >= facts.queue_cap for count in counts)
    return jobs(sum(counts), 0 if capped else None)


def waiting_long(facts: HealthFacts) -> list[QueueListRow]:
    """Return the queues that are not paused and whose oldest job waits, the longest first."""
    if isinstance(facts.queues, Unread):
        return []
    rows = [
        row
        for row in facts.queues
        if row.queue.paused_at is None and waited(row, facts) >= WAIT_WARN_FLOOR
    ]
    return sorted(rows, key=lambda row: waited(row, facts), reverse=True)


def late_queues(facts: HealthFacts) -> list[LateQueue]:
    """Return the queues that wait for longer than usual, the worst first."""
    found = []
    for row in waiting_long(facts):
        name = row.queue.name
        known = usual(facts.queue_hours.get(name), facts.queue_weeks.get(name), facts)
        span = waited(row, facts)
        level = max(
            grade_wait(span, known), _grade_pending(row, known), key=lambda grade: grade.badness
        )
        if level is not Level.OK:
            found.append(LateQueue(row=row, waited=span, known=known, level=level))
    return sorted(found, key=lambda late: (late.level.badness, late.waited), reverse=True)


def leads(facts: HealthFacts) -> bool:
    """Return whether a client leads at that time."""
    return isinstance(facts.leader, LeaderRow) and facts.leader.expires_at > facts.now


def leader_id(facts: HealthFacts) -> str:
    """Return who leads; empty where nobody is known to."""
    leader = facts.leader
    return leader.leader_id if isinstance(leader, LeaderRow) and leads(facts) else ""


def _grade_pending(row: QueueListRow, known: Usual | None) -> Level:
    """Return how bad the number of waiting jobs is, beside what is usual."""
    if known is None or not known.waiting or row.available < PENDING_FLOOR:
        return Level.OK
    times = row.available / known.waiting
    if times >= PENDING_CRITICAL_TIMES:
        return Level.CRITICAL
    return Level.WARN if times >= PENDING_WARN_TIMES else Level.OK
