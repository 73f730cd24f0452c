"""Checks of dead rows: who keeps them, and whether vacuum keeps up."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from riverui.domain.findings import Finding, Level, Unread, among, capital, cut, known, passed
from riverui.domain.health.database import (
    IDLE_WARN_AFTER,
    OPEN_CRITICAL_AFTER,
    OPEN_WARN_AFTER,
    hidden,
    terminate,
)
from riverui.domain.text import counted
from riverui.domain.time import duration
from riverui.features.database.domain.facts import DatabaseFacts, Holder, TableState

_HELD_WARN = 1_000_000
"""Transactions since the snapshot of a slot or standby: replicas that keep up are at some
thousands.
"""
_HELD_CRITICAL = 20_000_000
"""Transactions after which a busy queue has tens of millions of dead rows."""
_HELD_BACK = 10_000
"""Transactions since a snapshot of a slot or standby from which dead rows are put down to it."""
_DEAD_WARN = 10_000
"""Dead rows of a table: fewer are scanned within some milliseconds."""
_DEAD_CRITICAL = 1_000_000
"""Dead rows above which fetching becomes slow, if they outnumber the others."""
_ROUNDS = timedelta(minutes=15)
"""The time in which autovacuum should have come, which looks every minute but has few workers."""
_LARGE_TRIGGER = 500_000
"""Dead rows before autovacuum begins: more make each round long, and fetching slow before it."""
_SMALL_SCALE = 0.05
"""The share of dead rows above which a large table is vacuumed too seldom."""
_OLD_WARN = 500_000_000
"""Age in transactions: autovacuum freezes rows at 200 million by default."""
_OLD_CRITICAL = 1_500_000_000
"""Age in transactions: at 2.1 billion Postgres takes no more writes."""


def held(facts: DatabaseFacts) -> Finding:
    """Return who keeps Postgres from removing dead rows."""
    found = [(holder, _level(holder, facts)) for holder in known(facts.holders)]
    bad = [(holder, level) for holder, level in found if level is not Level.OK]
    if not bad:
        if (sessions := known(facts.database).hidden) > 0:
            return replace(
                hidden(sessions), statement=f"grant pg_read_all_stats to {facts.server.role};"
            )
        if not found:
            return passed("No transaction, prepared transaction, slot or standby keeps dead rows.")
        oldest = found[0][0]
        return passed(f"The oldest is {_who(oldest)}, {_span(oldest, facts)}.")
    worst, level = max(bad, key=lambda each: (each[1].badness, each[0].transactions))
    others = f" {len(bad) - 1:,} more hold them too." if len(bad) > 1 else ""
    return Finding(
        level=level,
        title=f"{capital(_who(worst))} keeps dead rows from being removed.",
        evidence=f"It has held {'those of the catalogs' if worst.catalogs else 'them'} for"
        f" {_span(worst, facts)}.{others} "
        + (
            "It also keeps WAL, which fills the disk."
            if worst.kind == "slot"
            else "Until it ends, fetching jobs becomes slower; let a report or a dump finish."
        ),
        statement="\n".join(_ending(holder) for holder, _ in bad[:10]),
        began=worst.since,
    )


def dead_rows(facts: DatabaseFacts) -> Finding:
    """Return whether tables have more dead rows than autovacuum should leave."""
    tables = known(facts.tables)
    holders = () if isinstance(facts.holders, Unread) else facts.holders
    late: list[TableState] = []
    blamed: Holder | None = None
    for table in tables:
        if table.dead_rows < max(_DEAD_WARN, 2 * table.trigger):
            continue
        holder = next((each for each in holders if _holds(each, table)), None)
        if holder is None and table.vacuumed_at and facts.now - table.vacuumed_at < _ROUNDS:
            continue
        late.append(table)
        blamed = blamed or holder
    if not late:
        most = max(tables, key=lambda table: table.dead_rows, default=None)
        return passed(f"{most.name} has most: {most.dead_rows:,}." if most else "No tables.")
    vacuums = "\n".join(f"vacuum (analyze) {table.quoted};" for table in late)
    named = among([f"{table.name} has {table.dead_rows:,}" for table in late])
    why = (
        f"Vacuum cannot remove them: {_who(blamed)} may still see them."
        if blamed
        else "Autovacuum does not come to remove them."
    )
    critical = any(each.dead_rows >= max(_DEAD_CRITICAL, each.rows_estimated or 0) for each in late)
    return Finding(
        level=Level.CRITICAL if critical else Level.WARN,
        title=f"{among([table.name for table in late])} "
        f"{'has' if len(late) == 1 else 'have'} many dead rows.",
        evidence=f"By Postgres's estimate {named}. {why}",
        # A session takes a moment to end.
        statement=f"{_ending(blamed)}\nselect pg_sleep(1);\n{vacuums}" if blamed else vacuums,
    )


def autovacuum(facts: DatabaseFacts) -> Finding:
    """Return whether autovacuum is on, and begins early enough on large tables."""
    settings = {"autovacuum": facts.server.autovacuum, "track_counts": facts.server.counts}
    off = [f"alter system set {name} = on;" for name, on in settings.items() if not on]
    if off:
        return Finding(
            level=Level.CRITICAL,
            title="Autovacuum is off on this server.",
            evidence="Dead rows of all tables stay, unless something else vacuums them.",
            statement="\n".join([*off, "select pg_reload_conf();"]),
        )
    tables = known(facts.tables)
    without = [table for table in tables if not table.autovacuum]
    if without:
        return Finding(
            level=Level.CRITICAL if "river_job" in (each.name for each in without) else Level.WARN,
            title=f"Autovacuum is off for {among([table.name for table in without])}.",
            evidence="Dead rows there stay, unless something else vacuums them.",
            statement="\n".join(
                f"alter table {table.quoted} reset (autovacuum_enabled);" for table in without
            ),
        )
    rare = [each for each in tables if each.trigger > _LARGE_TRIGGER and each.scale > _SMALL_SCALE]
    if rare:
        named = [f"{each.name} at {each.trigger:,} dead rows" for each in rare]
        return Finding(
            level=Level.WARN,
            title=f"Autovacuum begins late on {among([table.name for table in rare])}.",
            evidence=f"It begins on {among(named)}. Earlier and shorter rounds keep fetching fast.",
            statement="\n".join(map(_earlier, rare)),
        )
    return passed("It is on, and begins early enough on large tables.")


def wraparound(facts: DatabaseFacts) -> Finding:
    """Return how far the database is from the end of its transaction ids."""
    age, limit = facts.server.transactions, 2**31 - 1
    words = f"The oldest row is {age:,} transactions old; from {limit:,} on nothing can be written"
    if age < _OLD_WARN:
        return passed(f"{words}.")
    tables = sorted(known(facts.tables), key=lambda table: -table.transactions)
    old = [table for table in tables if table.transactions >= _OLD_WARN]
    vacuums = [f"vacuum (freeze, verbose) {table.quoted};" for table in old[:10]]
    return Finding(
        level=Level.CRITICAL if age >= _OLD_CRITICAL else Level.WARN,
        title="The database runs out of transaction ids.",
        evidence=f"{words}. "
        + (
            f"To be frozen: {among([table.name for table in old])}."
            if old
            else "No table of River is the cause: vacuum the whole database."
        ),
        statement="\n".join(vacuums) or "vacuum (freeze);",
    )


def _level(holder: Holder, facts: DatabaseFacts) -> Level:
    if holder.since is not None:
        span = facts.now - holder.since
        limit = IDLE_WARN_AFTER if holder.state.startswith("idle") else OPEN_WARN_AFTER
        if span < limit:
            return Level.OK
        return Level.CRITICAL if span >= OPEN_CRITICAL_AFTER else Level.WARN
    if holder.transactions >= _HELD_CRITICAL:
        return Level.CRITICAL
    bad = holder.state == "inactive" or holder.transactions >= _HELD_WARN
    return Level.WARN if bad else Level.OK


def _holds(holder: Holder, table: TableState) -> bool:
    """Return whether a vacuum of the table could not remove rows because of it."""
    if holder.catalogs or table.vacuumed_at is None:
        return False
    if holder.since is None:
        return holder.state == "inactive" or holder.transactions >= _HELD_BACK
    return holder.since < table.vacuumed_at


def _who(holder: Holder) -> str:
    if holder.kind == "transaction":
        return f"the transaction of {cut(holder.name)} (process {holder.pid}, {holder.state})"
    if holder.kind == "slot":
        return f"{holder.state} replication slot {cut(holder.name)}"
    return (
        f"{'prepared transaction' if holder.kind == 'prepared' else 'standby'} {cut(holder.name)}"
    )


def _span(holder: Holder, facts: DatabaseFacts) -> str:
    passed_by = counted(holder.transactions, "transaction")
    if holder.since is None:
        return passed_by
    return f"{duration(facts.now - holder.since)} and {passed_by}"


def _ending(holder: Holder) -> str:
    """Return the statement that ends it."""
    if holder.kind == "prepared":
        return f"rollback prepared {holder.literal};"
    if holder.kind == "slot" and holder.catalogs and holder.state == "active":
        return f"-- Its reader is behind.\ntable pg_replication_slots; -- {holder.name}"
    if holder.kind == "slot" and holder.state == "inactive":
        drop = f"select pg_drop_replication_slot({holder.literal});"
        return f"-- If its reader is gone for good:\n{drop}"
    if holder.kind == "transaction":
        return terminate(holder.pid)
    return (
        "-- On the standby, this ends its oldest query:\n"
        "select pg_terminate_backend(pid) from pg_stat_activity where backend_xmin is not null"
        " order by xact_start limit 1;"
    )


def _earlier(table: TableState) -> str:
    return (
        f"alter table {table.quoted} set (autovacuum_vacuum_scale_factor = 0.01,"
        " autovacuum_vacuum_threshold = 10000, autovacuum_analyze_scale_factor = 0.02,"
        " autovacuum_vacuum_insert_scale_factor = 0.05);"
    )
