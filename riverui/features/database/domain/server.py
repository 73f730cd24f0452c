"""Checks of the server: connections, clocks, privileges, migrations."""

from __future__ import annotations

from datetime import timedelta

from riverui.domain.findings import Finding, Level, among, capital, known, listed, passed, unknown
from riverui.domain.time import duration
from riverui.features.database.domain.facts import DatabaseFacts, Limit

_CONNECTIONS_WARN = 0.8
"""The share of a limit of connections that leaves room for the next deploy."""
_CONNECTIONS_CRITICAL = 0.95
"""The share from which new connections are about to be rejected."""
_CLOCK_WARN = timedelta(seconds=5)
"""A difference that heartbeats and schedules notice."""
_CLOCK_CRITICAL = timedelta(minutes=1)
"""A difference by which clients count as dead, and jobs start a minute early or late."""
_WRITES = ("insert", "update", "delete")


def connections(facts: DatabaseFacts) -> Finding:
    """Return whether connections run out."""
    limits = sorted(facts.server.limits, key=lambda limit: -limit.used / limit.most)
    if not limits:
        return unknown("The limits could not be read.")
    nearest = limits[0]
    words = f"{nearest.used:,} of {nearest.most:,} connections of the {_of(nearest)} are in use"
    share = nearest.used / nearest.most
    if share < _CONNECTIONS_WARN:
        return passed(f"{words}.")
    more = 2 * nearest.most
    return Finding(
        level=Level.CRITICAL if share >= _CONNECTIONS_CRITICAL else Level.WARN,
        title=f"The {_of(nearest)} runs out of connections.",
        evidence=f"{words}. Most have {among(facts.server.clients)}.",
        statement=f"alter {nearest.of} {nearest.name} connection limit {more};"
        if nearest.name
        else f"alter system set max_connections = {more};\n-- It takes effect after a restart.",
    )


def clocks(facts: DatabaseFacts) -> Finding:
    """Return whether the clocks of the server and of this process differ."""
    ahead = facts.server.ahead
    if abs(ahead) < _CLOCK_WARN:
        return passed("The clocks of the server and of this process agree within 5 s.")
    side = "ahead of" if ahead > timedelta(0) else "behind"
    return Finding(
        level=Level.CRITICAL if abs(ahead) >= _CLOCK_CRITICAL else Level.WARN,
        title=f"The server's clock is {duration(abs(ahead))} {side} this one.",
        evidence="Schedules, heartbeats and rescues compare times of both.",
        statement="timedatectl set-ntp true\n# On the machine whose clock is wrong.",
    )


def pooler(facts: DatabaseFacts) -> Finding:
    """Return whether there is a pooler before the database."""
    if facts.server.direct is None:
        return unknown("It cannot be seen through this connection.")
    if facts.server.direct:
        return passed("This connection leads to Postgres itself.")
    return passed(
        "There is one, such as PgBouncer; its mode cannot be seen. In transaction mode workers need"
        " poll_only, or a direct connection."
    )


def privileges(facts: DatabaseFacts) -> Finding:
    """Return whether the role lacks privileges on River's tables."""
    server, tables = facts.server, known(facts.tables)
    # Nobody but migrations writes there.
    written = [table for table in tables if table.name != "river_migration"]
    only_reads = all(set(_WRITES) <= set(table.lacking) for table in written)
    needed = ("select",) if only_reads else ("select", *_WRITES)
    grants, named = [], []
    if server.usage is False:
        grants.append(f"grant usage on schema {server.schema} to {server.role};")
        named.append(f"usage of schema {server.schema}")
    for table in tables:
        wanted = needed if table in written else ("select",)
        if lacking := [name for name in wanted if name in table.lacking]:
            grants.append(f"grant {', '.join(lacking)} on {table.quoted} to {server.role};")
            named.append(f"{listed(lacking)} on {table.name}")
    if not only_reads:
        for sequence in server.sequences:
            grants.append(f"grant usage on sequence {sequence} to {server.role};")
            named.append(f"usage of {sequence}")
    if not grants:
        return passed(
            f"Role {server.role} may read the tables, and nothing else."
            if only_reads
            else f"Role {server.role} has all that it needs."
        )
    return Finding(
        level=Level.WARN,
        title=f"Role {server.role} lacks privileges.",
        evidence=f"{capital(among(named))}.",
        statement="\n".join(grants),
    )


def migrations(facts: DatabaseFacts) -> Finding:
    """Return whether migrations are missing."""
    found, there = known(facts.migrations), known(facts.tables)
    if "river_job" not in (table.name for table in there):
        return Finding(
            level=Level.CRITICAL,
            title="River's tables are missing.",
            evidence=f"There is no river_job in schema {facts.server.schema or '(none)'}.",
            statement="riverui migrate-up",
        )
    if found.missing:
        named = [
            f"{', '.join(map(str, versions))} of line {line}"
            for line, versions in found.missing.items()
        ]
        return Finding(
            level=Level.WARN,
            title="Migrations are missing.",
            evidence=f"Not applied: {listed(named)}.",
            statement="\n".join(f"riverui migrate-up --line {line}" for line in found.missing),
        )
    if found.unknown:
        versions = ", ".join(map(str, found.unknown))
        return passed(f"All are applied; {versions} of line main is newer than this riverui.")
    return passed("All are applied.")


def _of(limit: Limit) -> str:
    return f"{limit.of} {limit.name}".strip()
