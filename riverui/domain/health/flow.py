"""Is work flowing: which jobs wait, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from msgspec.structs import replace

from riverui.domain.explain.facts import LATE_AFTER
from riverui.domain.findings import (
    Check,
    Diagnosis,
    Finding,
    Level,
    Link,
    Unread,
    among,
    capital,
    culprit,
    cut,
    diagnose,
    examine,
    known,
    passed,
    unknown,
)
from riverui.domain.health import Cause
from riverui.domain.health.backlog import backlog
from riverui.domain.health.clients import clients, host, served, unserved
from riverui.domain.health.database import blocked, notifications, transaction
from riverui.domain.health.facts import HealthFacts
from riverui.domain.health.periodic import periodic
from riverui.domain.health.queues import (
    LateQueue,
    available,
    late_queues,
    wait,
    waited,
    waiting_too,
)
from riverui.domain.health.slo import slo
from riverui.domain.health.slow import slow_kinds
from riverui.domain.health.usual import (
    SPAN,
    STALE_AFTER,
    WAIT_CRITICAL_FLOOR,
    WAIT_WARN_FLOOR,
    usual,
    usually,
    within,
)
from riverui.domain.text import counted
from riverui.domain.time import duration


def flow(facts: HealthFacts) -> Diagnosis:
    """Return whether work is flowing, and what holds it up."""
    findings = examine(facts, _CHECKS)
    causes = {found.cause for found in findings}
    hidden = _consequences(causes, facts)
    findings = [found for found in findings if found.name not in hidden]
    if Cause.BLOCKED not in causes and (behind := _behind(facts)):
        reasons = backlog(facts, behind[0], waiting_too([late.name for late in behind[1:]]))
        if reasons[-1].cause == Cause.SLOW_KIND:
            findings = [found for found in findings if found.cause != Cause.SLOW_KIND]
        findings += reasons
    findings += map(slo, facts.objectives)
    return diagnose("flow", findings, _calm(facts))


def _consequences(causes: Collection[str], facts: HealthFacts) -> Collection[str]:
    """Return the checks that would only find consequences of these causes."""
    if Cause.BLOCKED in causes:
        return ("served", "clients", "slow", "leader", "periodic", "transactions")
    if Cause.NOBODY_WORKS in causes and not facts.leads:
        # Without a working client there is no leader either.
        return ("clients", "slow", "leader", "periodic")
    return ("periodic",) if Cause.LEADERLESS in causes else ()


def _behind(facts: HealthFacts) -> list[LateQueue]:
    """Return the late queues whose jobs are taken."""
    idle = {late.name for late in unserved(facts)}
    return [late for late in late_queues(facts) if late.name not in idle]


def _calm(facts: HealthFacts) -> Finding:
    """Return the finding if no cause was found: all is calm, or it is unknown."""
    unsure = Finding(level=Level.UNKNOWN, title="Cannot tell whether work is flowing.")
    for fact in (facts.queues, facts.running):
        if isinstance(fact, Unread):
            return replace(unsure, headline=fact.why)
    if facts.fresh is None or facts.fresh > STALE_AFTER:
        headline = "Its figures are old or could not be read; nothing was found that holds it up."
        return replace(unsure, headline=headline)
    queues, running = known(facts.queues), known(facts.running)
    now, normal = within(facts), usual(facts)
    if now is not None and (span := now.wait.quantile(0.95)) is not None:
        before = normal.wait if normal else None
        headline = f"Jobs start {duration(span)} after they are due (p95){usually(before)}."
        return Finding(title="Work is flowing.", headline=headline)
    due = sum(row.available + row.scheduled + row.retryable for row in queues)
    if not running.jobs and not due:
        return Finding(title="Nothing to do.", headline="No job waits, runs or is due later.")
    longest = max((waited(row, facts) for row in queues), default=timedelta(0))
    headline = f"No job ended in the last {SPAN}; the oldest one waits {duration(longest)}."
    return Finding(title="Work is flowing.", headline=headline)


def _paused(facts: HealthFacts) -> Finding:
    """Return whether jobs wait in paused queues."""
    queues = known(facts.queues)
    paused = [row for row in queues if row.queue.paused_at is not None]
    held = [row for row in paused if waited(row, facts) >= WAIT_WARN_FLOOR]
    if not held:
        if len(queues) >= facts.queue_limit:
            return unknown(f"Only the first {facts.queue_limit:,} queues were looked at.")
        if paused:
            verb = "is" if len(paused) == 1 else "are"
            waits = wait(available(paused, facts)) if any(row.available for row in paused) else ""
            since = f"{waits} there for less than a minute" if waits else "nothing waits there"
            return passed(f"{len(paused):,} {verb} paused, and {since}.")
        return passed("No queue is paused.")
    held.sort(key=lambda row: waited(row, facts), reverse=True)
    real = [row for row in queues if row.queue.created_at is not None]
    every = len(real) > 1 and all(row.queue.paused_at is not None for row in real)
    name = held[0].queue.name
    if every:
        title = f"All {len(real):,} queues are paused."
    elif len(held) == 1:
        title = f"Queue {cut(name)} is paused."
    else:
        title = f"{len(held):,} queues with waiting jobs are paused."
    total, names = available(held, facts), among(row.queue.name for row in held)
    began = min(row.queue.paused_at or facts.now for row in held)
    since = duration(facts.now - began)
    return Finding(
        level=Level.CRITICAL if every else Level.WARN,
        evidence=f"Paused for {since}, with {total}: {names}.",
        cause=Cause.PAUSED,
        title=title,
        headline=f"{capital(wait(total))} there, the oldest for"
        f" {duration(waited(held[0], facts))}.",
        link=Link(label=f"Resume {'all' if every else counted(len(held), 'queue')}", page="queues")
        if len(held) > 1 or every
        else Link(label="Resume the queue", page="queue", name=name),
        culprit=culprit("queue", name, 1.0) if len(held) == 1 and not every else None,
        began=began,
    )


def _leader(facts: HealthFacts) -> Finding:
    """Return whether a client makes due jobs available."""
    known(facts.leader)
    overdue = known(facts.overdue)
    who = f"{host(facts.leads)} leads" if facts.leads else "No client leads"
    late = facts.now - (overdue.oldest_at or facts.now)
    count = counted(overdue.jobs, "job", overdue.cap)
    if late < WAIT_WARN_FLOOR:
        just = f"{count} just became due"
        return passed(f"{who}; {just if late > LATE_AFTER else 'no job is due that waits for it'}.")
    return Finding(
        level=Level.CRITICAL if late >= WAIT_CRITICAL_FLOOR or not facts.leads else Level.WARN,
        evidence=f"{who}; {count} due for up to {duration(late)}.",
        cause=Cause.LEADERLESS,
        title="The leader is late." if facts.leads else "No client leads.",
        headline=(
            f"{capital(count)} due to be tried, the first for {duration(late)};"
            " only the leader makes them available."
        ),
        link=Link(label="Open what is due", page="jobs", state="scheduled"),
        began=overdue.oldest_at,
    )


_CHECKS: Sequence[Check[HealthFacts]] = (
    ("locks", "Locks", blocked),
    ("served", "Clients of each queue", served),
    ("clients", "Clients that hold jobs", clients),
    ("slow", "Slow kinds", slow_kinds),
    ("paused", "Paused queues", _paused),
    ("leader", "Leader", _leader),
    ("periodic", "Periodic jobs", periodic),
    ("transactions", "Long transactions", transaction),
    ("notifications", "Notifications", notifications),
)
