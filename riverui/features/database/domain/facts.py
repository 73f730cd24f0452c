"""The facts that the checks of the database need, and their report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from riverui.domain.findings import Finding, Level, Result, Unread
from riverui.domain.health.facts import DatabaseState
from riverui.domain.text import counted


class Limit(Struct, frozen=True, kw_only=True):
    """A limit of connections, and how many there are."""

    of: str
    """server, database or role."""
    name: str
    """Of the database or the role, quoted; empty for the server."""
    used: int
    most: int


class ServerState(Struct, frozen=True, kw_only=True):
    """The server, and the role that reads it. Names are quoted."""

    at: datetime
    """The server's clock."""
    ahead: timedelta
    """How far that clock is ahead of the clock of this process."""
    direct: bool | None
    """Whether the connection leads to Postgres itself; None if that is not known."""
    role: str
    database: str
    schema: str
    usage: bool | None
    """Whether the role may use the schema; None if there is no such schema."""
    sequences: Sequence[str]
    """Sequences of River that the role may not use."""
    autovacuum: bool
    counts: bool
    """Whether statistics are collected, without which autovacuum does nothing."""
    transactions: int
    """The age of the oldest row of the database that is not frozen, in transactions."""
    limits: Sequence[Limit]
    clients: Sequence[str]
    """The programs with most connections, each with its number."""


class Holder(Struct, frozen=True, kw_only=True):
    """Something that keeps Postgres from removing rows that died since it began."""

    kind: str
    """transaction, prepared, slot or standby."""
    catalogs: bool
    """Whether it keeps rows of the catalogs only."""
    name: str
    literal: str
    """The name as a literal of SQL."""
    pid: int | None
    state: str
    since: datetime | None
    """When it began; None for slots and standbys."""
    transactions: int
    """How many transactions have begun since."""


class TableState(Struct, frozen=True, kw_only=True):
    """A table of River or riverui, as the statistics have it."""

    name: str
    quoted: str
    """With its schema."""
    rows_estimated: int | None
    """None before the first vacuum."""
    dead_rows: int
    bytes: int | None
    """Without indexes; None while the table is locked."""
    index_bytes: int | None
    vacuumed_at: datetime | None
    autovacuum: bool
    threshold: float
    scale: float
    """The share of the rows, from 0, that must be dead before autovacuum begins."""
    transactions: int
    """As in ServerState."""
    lacking: Sequence[str]
    """Privileges that the role lacks, of select, insert, update and delete."""

    @property
    def trigger(self) -> int:
        """Return how many dead rows let autovacuum begin."""
        return round(self.threshold + self.scale * (self.rows_estimated or 0))


class IndexState(Struct, frozen=True, kw_only=True):
    """An index of such a table."""

    table: str
    name: str
    quoted: str
    valid: bool
    constrains: bool
    """Whether it is unique."""
    building: bool
    definition: str
    """What follows USING; empty while the table is locked."""
    bytes: int | None
    scans: int
    blocks: int
    """Pages of it that were read or written."""
    expected_bytes: int | None
    """The estimated bytes without free space; None if they cannot be estimated."""

    @property
    def swelling(self) -> float | None:
        """Return how many times larger than expected it is; None if that is not known."""
        if self.bytes is None or not self.expected_bytes:
            return None
        return self.bytes / self.expected_bytes


class Migrations(Struct, frozen=True, kw_only=True):
    """The migrations of this riverui and of the database."""

    missing: Mapping[str, Sequence[int]]
    """Versions that are not applied and would change something, of lines that have begun."""
    unknown: Sequence[int]
    """Versions of line main that this riverui does not know."""
    indexes: Mapping[str, tuple[str, str]]
    """What the applied ones create: the table of each index, and a statement that creates it."""


class DatabaseFacts(Struct, frozen=True, kw_only=True):
    """The facts at one time; those that could not be read are `Unread`."""

    now: datetime
    """By the server's clock."""
    server: ServerState
    database: DatabaseState | Unread
    holders: Sequence[Holder] | Unread
    tables: Sequence[TableState] | Unread
    indexes: Sequence[IndexState] | Unread
    migrations: Migrations | Unread


class DatabaseReport(Struct, frozen=True, kw_only=True):
    """The findings of all checks, the worst first."""

    at: datetime
    findings: Sequence[Finding]
    tables: Sequence[TableState]
    indexes: Sequence[IndexState]

    @property
    def level(self) -> Level:
        """Return the level of the worst finding."""
        return self.findings[0].level

    @property
    def headline(self) -> str:
        """Return the worst finding, or that nothing is wrong, in a sentence."""
        worst = self.findings[0]
        if worst.result is Result.FAILED:
            return worst.title
        unmade = sum(finding.result is Result.UNKNOWN for finding in self.findings)
        if not unmade:
            return "Nothing is wrong with the database."
        checks = counted(len(self.findings), "check")
        return f"Nothing wrong was found, but {unmade} of {checks} could not be made in full."
