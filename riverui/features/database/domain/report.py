"""Makes the report from the facts."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.domain.findings import Check, Unread, examine
from riverui.domain.health.database import blocked, notifications, primary
from riverui.features.database.domain import indexes, server, vacuum
from riverui.features.database.domain.facts import DatabaseFacts, DatabaseReport

_CHECKS: Sequence[Check[DatabaseFacts]] = (
    ("migrations", "Migrations", server.migrations),
    ("privileges", "Privileges", server.privileges),
    ("blocked", "Locks", blocked),
    ("held", "Held rows", vacuum.held),
    ("dead_rows", "Dead rows", vacuum.dead_rows),
    ("autovacuum", "Autovacuum", vacuum.autovacuum),
    ("wraparound", "Transaction ids", vacuum.wraparound),
    ("missing_indexes", "Missing indexes", indexes.missing),
    ("invalid_indexes", "Invalid indexes", indexes.invalid),
    ("duplicate_indexes", "Duplicate indexes", indexes.duplicate),
    ("unused_indexes", "Unused indexes", indexes.unused),
    ("swollen_indexes", "Swollen indexes", indexes.swollen),
    ("notifications", "Notifications", notifications),
    ("connections", "Connections", server.connections),
    ("clocks", "Clocks", server.clocks),
    ("pooler", "Pooler", server.pooler),
    ("primary", "Server", primary),
)


def report(facts: DatabaseFacts) -> DatabaseReport:
    """Return the findings of all checks, the worst first, and what the tables and indexes are."""
    found = sorted(examine(facts, _CHECKS), key=lambda finding: -finding.level.badness)
    return DatabaseReport(
        at=facts.now,
        findings=found,
        tables=() if isinstance(facts.tables, Unread) else facts.tables,
        indexes=() if isinstance(facts.indexes, Unread) else facts.indexes,
    )
