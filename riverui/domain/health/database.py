"""Checks of the database, as far as it affects jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.findings import (
    Finding,
    Level,
    Link,
    Unread,
    capital,
    cut,
    known,
    passed,
    unknown,
)
from riverui.domain.health import Cause
from riverui.domain.health.facts import DatabaseState, OpenTransaction
from riverui.domain.text import counted
from riverui.domain.time import duration

BLOCKED_WARN_AFTER = timedelta(seconds=30)
"""How long a statement on River's tables may wait for a lock: theirs take milliseconds."""
_REPEATED_AFTER = timedelta(seconds=2)
"""The same if the lock's holder has been open for longer than BLOCKED_WARN_AFTER: clients give up
after ten seconds and try again.
"""
BLOCKED_CRITICAL_AFTER = timedelta(minutes=2)
"""How long such a wait may last before it cannot be intended."""
IDLE_WARN_AFTER = timedelta(minutes=5)
"""How long a transaction may be open and idle: nothing is gained by it, and dead rows pile up."""
OPEN_WARN_AFTER = timedelta(minutes=10)
"""How long a transaction that does something may be open: reports and dumps take minutes."""
OPEN_CRITICAL_AFTER = timedelta(hours=1)
"""How long a transaction may be open before a busy queue has millions of dead rows."""
NOTIFICATIONS_WARN = 0.5
"""How full (0 to 1) the queue of notifications may be; Postgres itself warns from there on."""
NOTIFICATIONS_CRITICAL = 0.9
"""How full (0 to 1) it may be before inserts are about to fail, as they do when it is full."""

_DATABASE = Link(label="Check the database", page="database")


class ServerFacts(Protocol):
    """What these checks need of the facts."""

    @property
    def now(self) -> datetime:
        """Return the time of the facts."""
        ...

    @property
    def database(self) -> DatabaseState | Unread | None:
        """Return the state of the server; None for a file."""
        ...


def blocked(facts: ServerFacts) -> Finding | None:
    """Return whether statements on River's tables wait for locks."""
    state = known(facts.database)
    if state is None:
        return None
    since, holder = state.blocked_since, state.blocker
    waits = facts.now - since if since else timedelta(0)
    held = facts.now - holder.since if holder else timedelta(0)
    repeated = waits >= _REPEATED_AFTER and held >= BLOCKED_WARN_AFTER
    if not state.blocked or not (repeated or waits >= BLOCKED_WARN_AFTER):
        if state.hidden and not state.blocked:
            return hidden(state.hidden)
        return passed("No statement on River's tables waits for a lock.")
    span = max(waits, held)
    by = f" {capital(_who(holder))}, open for {duration(held)}, holds it." if holder else ""
    verb = "waits" if state.blocked == 1 else "wait"
    return Finding(
        level=Level.CRITICAL if span >= BLOCKED_CRITICAL_AFTER else Level.WARN,
        evidence=f"{counted(state.blocked, 'statement')} {verb} for a lock, the first for"
        f" {duration(waits)}.{by}",
        cause=Cause.BLOCKED,
        title="River's tables are locked.",
        cure=_cure(holder),
        link=_DATABASE,
        began=since,
        statement=_ending(holder),
    )


def transaction(facts: ServerFacts) -> Finding | None:
    """Return whether a transaction has been open for too long."""
    state = known(facts.database)
    if state is None:
        return None
    span = facts.now - state.oldest.since if state.oldest else timedelta(0)
    idle = state.oldest is not None and state.oldest.state.startswith("idle")
    if state.oldest is None or span < (IDLE_WARN_AFTER if idle else OPEN_WARN_AFTER):
        if state.hidden:
            return hidden(state.hidden)
        if state.oldest is None:
            return passed("No transaction keeps Postgres from cleaning up.")
        return passed(f"The oldest one has been open for {duration(span)}.")
    dead = (
        f"{state.dead_rows:,} dead rows of jobs wait for it."
        if state.dead_rows
        else "Dead rows of jobs pile up behind it."
    )
    evidence = f"{capital(_who(state.oldest))} has been open for {duration(span)}."
    return Finding(
        level=Level.CRITICAL if span >= OPEN_CRITICAL_AFTER else Level.WARN,
        evidence=evidence,
        cause=Cause.LONG_TRANSACTION,
        title="A transaction stays open.",
        headline=f"{evidence} {dead}",
        detail="Until it ends, Postgres cannot clean up, and fetching jobs becomes slower.",
        cure=_cure(state.oldest),
        statement=_ending(state.oldest),
        link=_DATABASE,
        began=state.oldest.since,
    )


def notifications(facts: ServerFacts) -> Finding | None:
    """Return whether the queue of notifications fills up."""
    state = known(facts.database)
    if state is None:
        return None
    filled = state.notifications
    words = f"Postgres's queue of notifications is {filled * 100:.0f} % full"
    if filled < NOTIFICATIONS_WARN:
        return passed(f"{words}.")
    return Finding(
        level=Level.CRITICAL if filled >= NOTIFICATIONS_CRITICAL else Level.WARN,
        evidence=f"{words}; once it is, inserts fail.",
        cause=Cause.NOTIFICATIONS,
        title="Notifications pile up.",
        detail="A session that listens has stopped reading, most likely inside a transaction.",
        cure=_cure(state.oldest),
        link=_DATABASE,
        statement=_ending(state.oldest),
    )


def primary(facts: ServerFacts) -> Finding | None:
    """Return whether the facts were read from the primary server."""
    state = known(facts.database)
    if state is None:
        return None
    if state.standby:
        return unknown("Read from a standby, which may lag behind.")
    return passed("Read from the primary.")


def hidden(sessions: int) -> Finding:
    """Return a finding for sessions that the role may not see."""
    verb = "is" if sessions == 1 else "are"
    return unknown(
        f"{counted(sessions, 'session')} {verb} hidden from this role; pg_read_all_stats would show"
        " them."
    )


def _cure(found: OpenTransaction | None) -> str:
    """Return what its statement does; empty if it is unknown."""
    return f"To end process {found.pid}, run:" if found is not None and _ending(found) else ""


def terminate(pid: int | None) -> str:
    """Return the statement that ends the session of a process."""
    return f"select pg_terminate_backend({pid});"


def _ending(found: OpenTransaction | None) -> str:
    """Return the statement that ends a session; empty if it is unknown."""
    if found is None or found.pid is None:
        return ""
    return terminate(found.pid)


def _who(found: OpenTransaction) -> str:
    if found.pid is None:
        return f"prepared transaction {cut(found.client)}"
    client = f" ({cut(found.client)})" if found.client else ""
    state = f", {found.state}" if found.state else ""
    return f"the transaction of process {found.pid}{client}{state}"
