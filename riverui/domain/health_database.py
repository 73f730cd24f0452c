"""Is the database well, as far as jobs suffer from it."""

from __future__ import annotations

from datetime import timedelta

from riverui.domain.health import Cause, HealthAction, Level
from riverui.domain.health_facts import HealthFacts, OpenTransaction
from riverui.domain.health_findings import Finding, cut, failed, passed, unmeasured
from riverui.domain.job_facts import Unread
from riverui.domain.time import duration

BLOCKED_WARN_AFTER = timedelta(seconds=30)
"""How long a statement on River's tables may wait for a lock: theirs take milliseconds."""
BLOCKED_CRITICAL_AFTER = timedelta(minutes=2)
"""How long such a wait may last before nobody can have meant it."""
OPEN_WARN_AFTER = timedelta(minutes=10)
"""How long a transaction may be open: dead rows pile up from then on, and fetching slows down."""
OPEN_CRITICAL_AFTER = timedelta(hours=1)
"""How long a transaction may be open before a busy queue has millions of dead rows."""
NOTIFICATIONS_WARN = 0.5
"""How full (0 to 1) the queue of notifications may be; Postgres itself warns from there on."""
NOTIFICATIONS_CRITICAL = 0.9
"""How full (0 to 1) it may be before inserts are about to fail: they do once it is full."""

_ABOUT = HealthAction(label="See the database", page="about")


def blocked(facts: HealthFacts) -> Finding:
    """Return whether statements on River's tables wait for locks."""
    name, label, state = "locks", "Nothing waits for locks", facts.database
    if isinstance(state, Unread):
        return unmeasured(name, label, state)
    since = state.blocked_since
    if not state.blocked or since is None or facts.now - since < BLOCKED_WARN_AFTER:
        if state.hidden and not state.blocked:
            return unmeasured(name, label, _hidden(state.hidden))
        return passed(name, label, "No statement on River's tables waits for a lock.")
    span = facts.now - since
    by = f"; {_who(state.blocker, facts)} holds it" if state.blocker else ""
    verb = "statement waits" if state.blocked == 1 else "statements wait"
    words = f"{state.blocked:,} {verb} for a lock, the first for {duration(span)}{by}."
    return Finding(
        check=failed(name, label, words),
        level=Level.CRITICAL if span >= BLOCKED_CRITICAL_AFTER else Level.WARN,
        cause=Cause.BLOCKED,
        label="River's tables are locked.",
        headline=words,
        action=_ABOUT,
    )


def transaction(facts: HealthFacts) -> Finding:
    """Return whether a transaction has been open for too long."""
    name, label, state = "transactions", "No transaction is open for long", facts.database
    if isinstance(state, Unread):
        return unmeasured(name, label, state)
    span = facts.now - state.oldest.since if state.oldest else timedelta(0)
    if state.oldest is None or span < OPEN_WARN_AFTER:
        if state.hidden:
            return unmeasured(name, label, _hidden(state.hidden))
        if state.oldest is None:
            return passed(name, label, "No transaction keeps Postgres from cleaning up.")
        return passed(name, label, f"The oldest one has been open for {duration(span)}.")
    dead = (
        f"{state.dead_rows:,} dead rows of jobs wait for it."
        if state.dead_rows
        else "Dead rows of jobs pile up behind it."
    )
    who = _who(state.oldest, facts)
    return Finding(
        check=failed(name, label, f"{who[0].upper()}{who[1:]} has been open for {duration(span)}."),
        level=Level.CRITICAL if span >= OPEN_CRITICAL_AFTER else Level.WARN,
        cause=Cause.LONG_TRANSACTION,
        label="A transaction stays open.",
        headline=f"{who[0].upper()}{who[1:]} has been open for {duration(span)}. {dead}",
        detail="Until it ends, Postgres cannot clean up, and fetching jobs becomes slower.",
        action=_ABOUT,
    )


def notifications(facts: HealthFacts) -> Finding:
    """Return whether the queue of notifications fills up."""
    name, label, state = "notifications", "Notifications are read", facts.database
    if isinstance(state, Unread):
        return unmeasured(name, label, state)
    full = f"{state.notifications * 100:.0f} %"
    if state.notifications < NOTIFICATIONS_WARN:
        return passed(name, label, f"Postgres's queue of notifications is {full} full.")
    words = f"Postgres's queue of notifications is {full} full; once it is, inserts fail."
    return Finding(
        check=failed(name, label, words),
        level=Level.CRITICAL if state.notifications >= NOTIFICATIONS_CRITICAL else Level.WARN,
        cause=Cause.NOTIFICATIONS,
        label="Notifications pile up.",
        headline=words,
        detail="A session that listens has stopped reading, most likely inside a transaction.",
        action=_ABOUT,
    )


def _hidden(sessions: int) -> str:
    words = "session is" if sessions == 1 else "sessions are"
    return f"{sessions:,} {words} hidden from this role; pg_read_all_stats would show them."


def _who(found: OpenTransaction, facts: HealthFacts) -> str:
    if found.pid is None:
        return f"prepared transaction {cut(found.client)}"
    client = f" ({cut(found.client)})" if found.client else ""
    state = f", {found.state}" if found.state else ""
    return f"the transaction of process {found.pid}{client}{state}"
