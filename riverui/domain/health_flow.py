"""Is work flowing: who waits, and whose fault it is."""

from __future__ import annotations

from datetime import timedelta

from riverui.domain.explain import LATE_AFTER
from riverui.domain.health import Cause, HealthAction, HealthSection, Level
from riverui.domain.health_backlog import backlog
from riverui.domain.health_clients import clients, served, unserved
from riverui.domain.health_database import blocked, notifications, transaction
from riverui.domain.health_facts import HealthFacts
from riverui.domain.health_findings import (
    Finding,
    among,
    cut,
    failed,
    jobs,
    passed,
    told,
    unmeasured,
    wait,
    waiting_too,
)
from riverui.domain.health_late import available, late_queues, leads, waited
from riverui.domain.health_usual import (
    SPAN,
    STALE_AFTER,
    WAIT_CRITICAL_FLOOR,
    WAIT_WARN_FLOOR,
    recent,
    usual,
    usually,
)
from riverui.domain.job_facts import Unread
from riverui.domain.time import duration


def flow(facts: HealthFacts) -> HealthSection:
    """Return whether work is flowing, and what holds it up."""
    nobody = served(facts)
    findings = [blocked(facts), nobody, clients(facts), _paused(facts)]
    if nobody.cause is not Cause.NOBODY_WORKS or leads(facts):
        # Where nobody works, nobody leads either.
        findings.append(_leader(facts))
    findings += [transaction(facts), notifications(facts)]
    idle = {late.name for late in unserved(facts)}
    behind = [late for late in late_queues(facts) if late.name not in idle]
    if behind:
        worst = behind[0]
        others = [late.name for late in behind[1:]]
        findings += backlog(
            facts,
            queue=worst.name,
            running=worst.row.running,
            words=worst.words,
            level=worst.level,
            known=worst.known,
            others=waiting_too(others),
        )
    return told(findings, _calm(facts))


def _calm(facts: HealthFacts) -> HealthSection:
    """Return the section for when nothing was found: whether it is calm, or not known."""
    if isinstance(facts.queues, Unread) or isinstance(facts.running, Unread):
        unread = facts.queues if isinstance(facts.queues, Unread) else facts.running
        why = unread.why if isinstance(unread, Unread) else ""
        return _section(Level.UNKNOWN, "Cannot tell whether work is flowing.", why)
    if facts.fresh is None or facts.fresh > STALE_AFTER:
        headline = "Its figures are old or could not be read; nothing was found that holds it up."
        return _section(Level.UNKNOWN, "Cannot tell whether work is flowing.", headline)
    longest = max((waited(row, facts) for row in facts.queues), default=timedelta(0))
    now = recent(facts.hour, facts)
    known = usual(facts.hour, facts.week, facts)
    if now is not None and (span := now.wait.quantile(0.95)) is not None:
        normal = known.tally.wait.quantile(0.95) if known else None
        headline = f"Jobs start {duration(span)} after they are due (p95){usually(normal)}."
        return _section(Level.OK, "Work is flowing.", headline)
    idle = not facts.running.jobs and not any(
        row.available + row.scheduled + row.retryable for row in facts.queues
    )
    if idle:
        return _section(Level.OK, "Nothing to do.", "No job waits, runs or is due later.")
    headline = f"No job ended in the last {SPAN}; the oldest one waits {duration(longest)}."
    return _section(Level.OK, "Work is flowing.", headline)


def _section(level: Level, label: str, headline: str) -> HealthSection:
    return HealthSection(name="flow", label=label, level=level, headline=headline)


def _paused(facts: HealthFacts) -> Finding:
    """Return whether jobs wait in queues that somebody paused."""
    name, label = "paused", "No paused queue has jobs waiting"
    if isinstance(facts.queues, Unread):
        return unmeasured(name, label, facts.queues)
    held = [
        row
        for row in facts.queues
        if row.queue.paused_at is not None and waited(row, facts) >= WAIT_WARN_FLOOR
    ]
    if not held:
        if len(facts.queues) >= facts.queue_limit:
            words = f"Only the first {facts.queue_limit:,} queues were looked at."
            return unmeasured(name, label, words)
        paused = sum(row.queue.paused_at is not None for row in facts.queues)
        if paused:
            verb = "is" if paused == 1 else "are"
            return passed(name, label, f"{paused:,} {verb} paused, and nothing waits there.")
        return passed(name, label, "No queue is paused.")
    held.sort(key=lambda row: waited(row, facts), reverse=True)
    first = held[0]
    real = [row for row in facts.queues if row.queue.created_at is not None]
    every = len(real) > 1 and all(row.queue.paused_at is not None for row in real)
    total = available(held, facts)
    since = max(
        (facts.now - row.queue.paused_at for row in held if row.queue.paused_at is not None),
        default=timedelta(0),
    )
    if every:
        words = f"All {len(real):,} queues are paused."
    elif len(held) == 1:
        words = f"Queue {cut(first.queue.name)} is paused."
    else:
        words = f"{len(held):,} queues with waiting jobs are paused."
    names = among(row.queue.name for row in held)
    return Finding(
        check=failed(name, label, f"Paused for {duration(since)}, with {total}: {names}."),
        level=Level.CRITICAL if every else Level.WARN,
        cause=Cause.PAUSED,
        label=words,
        headline=(
            f"{total[0].upper()}{wait(total)[1:]} there, the oldest for"
            f" {duration(waited(first, facts))};"
            f" paused for {duration(since)}."
        ),
        action=HealthAction(label="See the queues", page="queues")
        if len(held) > 1
        else HealthAction(label="Open the queue", page="queue", name=first.queue.name),
    )


def _leader(facts: HealthFacts) -> Finding:
    """Return whether somebody makes due jobs available."""
    name, label = "leader", "Due jobs are made available"
    if isinstance(facts.leader, Unread):
        return unmeasured(name, label, facts.leader)
    if isinstance(facts.overdue, Unread):
        return unmeasured(name, label, facts.overdue)
    led = leads(facts)
    who = f"{cut(facts.leader.leader_id)} leads" if led and facts.leader else "No client leads"
    oldest = facts.overdue.oldest_at
    late = facts.now - oldest if oldest is not None else timedelta(0)
    if late < WAIT_WARN_FLOOR:
        due = (
            f"{jobs(facts.overdue.jobs, facts.overdue.cap)} just became due"
            if late > LATE_AFTER
            else "no job is due that waits for it"
        )
        return passed(name, label, f"{who}; {due}.")
    count = jobs(facts.overdue.jobs, facts.overdue.cap)
    return Finding(
        check=failed(name, label, f"{who}; {count} due for up to {duration(late)}."),
        level=Level.CRITICAL if late >= WAIT_CRITICAL_FLOOR or not led else Level.WARN,
        cause=Cause.LEADERLESS,
        label="The leader is late." if led else "No client leads.",
        headline=(
            f"{count[0].upper()}{count[1:]} due to be tried, the first for {duration(late)};"
            " only the leader makes them available."
        ),
        action=HealthAction(label="See scheduled jobs", page="jobs", state="scheduled"),
    )
