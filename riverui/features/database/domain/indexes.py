"""Checks of the indexes: those that are missing, broken, useless or too large."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from riverui.domain.findings import Finding, Level, Unread, among, cut, known, passed, unknown
from riverui.features.database.domain.facts import DatabaseFacts, IndexState

_NEEDED_BY_ALL = frozenset({"river_job_prioritized_fetching_index", "river_job_unique_idx"})
"""Indexes without which fetching reads the whole table, or unique inserts fail."""
_WRITTEN = 10_000
"""Pages that writes have touched: an index that was never read until then is not needed."""
_LARGE = 10 * 2**20
"""Bytes below which free space in an index does not matter."""
_SWOLLEN = 3.0
"""Times the expected size: half of an index may be free space after a normal day."""

_CREATE = re.compile(
    r"create\s+(unique\s+)?index\s+(?:if\s+not\s+exists\s+)?(\w+)\s+on\s+/\* schema \*/(\w+)"
    r"([^;]*)",
    re.IGNORECASE,
)
_DROP = re.compile(
    r"drop\s+(?:index|table)\s+(?:if\s+exists\s+)?/\* schema \*/(\w+)", re.IGNORECASE
)


def created(scripts: Iterable[str], schema: str) -> Mapping[str, tuple[str, str]]:
    """Return the table of each index that migrations leave behind, and a statement that creates it
    while the table is used. `/* schema */` in the migrations marks the places of the schema.
    """
    found: dict[str, tuple[str, str]] = {}
    for script in scripts:
        for unique, name, table, rest in _CREATE.findall(script):
            made = f"create {unique}index concurrently {name} on {schema}.{table} {rest};"
            found[name] = (table, " ".join(made.replace("/* schema */", f"{schema}.").split()))
        for dropped in _DROP.findall(script):
            found = {name: each for name, each in found.items() if dropped not in (name, each[0])}
    return found


def missing(facts: DatabaseFacts) -> Finding:
    """Return whether an index of a migration is missing."""
    there = {index.name for index in known(facts.indexes)}
    tables = {table.name for table in known(facts.tables)}
    needed = known(facts.migrations).indexes
    lacking = [name for name, (table, _) in needed.items() if table in tables and name not in there]
    if not lacking:
        return passed(f"The {len(needed)} that migrations create exist.")
    return Finding(
        level=Level.CRITICAL if _NEEDED_BY_ALL & set(lacking) else Level.WARN,
        title=_title(lacking, "missing"),
        evidence=f"Migrations create {among(lacking)}. Statements that need one read the whole"
        " table.",
        statement="\n".join(needed[name][1] for name in lacking),
    )


def invalid(facts: DatabaseFacts) -> Finding:
    """Return whether indexes are left over from a build that failed."""
    bad = [each for each in known(facts.indexes) if not each.valid and not each.building]
    if not bad:
        return passed("All are valid.")
    needed = _needed(facts)
    return Finding(
        level=Level.WARN,
        title=_title([index.name for index in bad], "not valid"),
        evidence=f"The build of {among([each.name for each in bad])} was interrupted: that serves"
        " no query and slows down each insert.",
        statement="\n".join(
            f"{'reindex' if each.name in needed else 'drop'} index concurrently {each.quoted};"
            for each in bad
        ),
    )


def duplicate(facts: DatabaseFacts) -> Finding:
    """Return whether two indexes of a table are the same."""
    needed, kept, bad = _needed(facts), dict[tuple[str, str], str](), list[IndexState]()
    # Those that must stay come first.
    for index in sorted(
        known(facts.indexes), key=lambda each: (not each.constrains, each.name not in needed)
    ):
        if not index.valid or not index.definition:
            continue
        same = (index.table, index.definition)
        other = kept.setdefault(same, index.name) != index.name
        if other and index.name not in needed and not index.constrains:
            bad.append(index)
    if not bad:
        return passed("No two are the same.")
    pairs = [f"{each.name} is the same as {kept[each.table, each.definition]}" for each in bad]
    return Finding(
        level=Level.WARN,
        title=_title([index.name for index in bad], "there twice"),
        evidence=f"{among(pairs)}. Each insert writes both.",
        statement=_drops(bad),
    )


def unused(facts: DatabaseFacts) -> Finding:
    """Return whether an index that no migration creates is written but never read."""
    needed = _needed(facts)
    bad = [
        each
        for each in known(facts.indexes)
        if each.valid and not each.constrains and each.name not in needed
        if not each.scans and each.blocks >= _WRITTEN
    ]
    if not bad:
        return passed("No index but those of River and riverui is written without being read.")
    pages = [f"{each.name}: {each.blocks:,} pages" for each in bad]
    return Finding(
        level=Level.WARN,
        title=_title([index.name for index in bad], "never read"),
        evidence=f"Written since statistics began: {among(pages)}. Reads on a standby do not count"
        " here.",
        statement=_drops(bad),
    )


def swollen(facts: DatabaseFacts) -> Finding:
    """Return whether indexes are much larger than their entries need, as estimated."""
    large = [each for each in known(facts.indexes) if (each.bytes or 0) >= _LARGE and each.valid]
    bad = [each for each in large if (each.swelling or 0) >= _SWOLLEN]
    if not bad:
        blind = [
            each.name
            for each in large
            if each.swelling is None and each.definition.startswith("btree")
        ]
        if blind:
            return unknown(
                f"The size of {among(blind)} cannot be estimated: it needs an analyzed table that"
                " this role may read."
            )
        return passed("By an estimate from the columns' widths. GIN indexes are not estimated.")
    named = [f"{each.name} {each.swelling:.0f} times" for each in bad]
    return Finding(
        level=Level.WARN,
        title=_title([index.name for index in bad], "swollen"),
        evidence=f"Larger than expected, by an estimate: {among(named)}. The rest is free space,"
        " which vacuum does not return.",
        statement="\n".join(f"reindex index concurrently {each.quoted};" for each in bad),
    )


def _needed(facts: DatabaseFacts) -> Collection[str]:
    """Return the names of the indexes that migrations create."""
    return () if isinstance(facts.migrations, Unread) else facts.migrations.indexes


def _title(names: Sequence[str], state: str) -> str:
    if len(names) == 1:
        return f"Index {cut(names[0])} is {state}."
    return f"{len(names)} indexes are {state}."


def _drops(found: Sequence[IndexState]) -> str:
    return "\n".join(f"drop index concurrently {each.quoted};" for each in found)
