"""The report as JSON and as text; `riverui doctor` uses it without a dashboard."""

from __future__ import annotations

from typing import Annotated, Self

from msgspec import Meta, convert, to_builtins

from riverui.domain.text import plain
from riverui.domain.time import rfc3339_nano
from riverui.features.database.domain.facts import DatabaseReport
from riverui.web.api.diagnoses import MARKS, LevelName
from riverui.web.api.models import EXAMPLE_TIME, Count, Model, Time


class DatabaseFinding(Model, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    label: str
    level: Annotated[LevelName, Meta(description="ok: nothing was found; unknown: not measured.")]
    title: Annotated[str, Meta(description="What was found, in a sentence; empty for nothing.")]
    evidence: str
    statement: Annotated[
        str, Meta(description="What fixes it, to be run by a person: SQL or a command.")
    ]


class DatabaseTable(Model, frozen=True, kw_only=True):
    """A table of River or riverui, by Postgres's statistics; null for what is not known."""

    name: str
    rows_estimated: Count | None
    dead_rows: Count
    bytes: Annotated[Count | None, Meta(description="Without indexes.")]
    index_bytes: Count | None
    vacuumed_at: Time | None


class DatabaseIndex(Model, frozen=True, kw_only=True):
    """An index of such a table."""

    table: str
    name: str
    valid: bool
    bytes: Count | None
    expected_bytes: Annotated[
        Count | None, Meta(description="Estimated, without free space; null if it cannot be.")
    ]
    scans: Count


class DatabaseAnswer(Model, frozen=True, kw_only=True):
    """What is wrong with the database, and its tables and indexes."""

    level: Annotated[LevelName, Meta(description="The level of the worst finding.")]
    headline: str
    at: Annotated[Time, Meta(description="By the server's clock.")]
    findings: Annotated[list[DatabaseFinding], Meta(description="The worst first.")]
    tables: list[DatabaseTable]
    indexes: list[DatabaseIndex]

    @classmethod
    def from_report(cls, found: DatabaseReport) -> Self:
        """Return a report as the API's model."""
        return cls(
            level=found.level.value,
            headline=found.headline,
            at=rfc3339_nano(found.at),
            findings=convert(to_builtins(found.findings), list[DatabaseFinding]),
            tables=convert(to_builtins(found.tables), list[DatabaseTable]),
            indexes=convert(to_builtins(found.indexes), list[DatabaseIndex]),
        )

    def text(self) -> str:
        """Return the findings as text, each with its evidence and its statement.

        Names from the database are escaped: they cannot move a terminal's cursor.
        """
        lines = [f"{MARKS[self.level]} {plain(self.headline)}", ""]
        for found in self.findings:
            words = " ".join(filter(None, (found.title, found.evidence)))
            lines.append(f"{MARKS[found.level]} {found.label}: {plain(words)}")
            lines += [f"    {plain(line)}" for line in found.statement.splitlines()]
        return "\n".join(lines) + "\n"

    @classmethod
    def example(cls) -> Self:
        """Return a report of an index that is missing."""
        title = "Index river_job_kind is missing."
        return cls(
            level="warn",
            headline=title,
            at=EXAMPLE_TIME,
            findings=[
                DatabaseFinding(
                    name="missing_indexes",
                    label="Missing indexes",
                    level="warn",
                    title=title,
                    evidence="A migration has created it.",
                    statement="create index concurrently river_job_kind"
                    " on public.river_job using btree (kind);",
                )
            ],
            tables=[
                DatabaseTable(
                    name="river_job",
                    rows_estimated=9_800_000,
                    dead_rows=41_203,
                    bytes=4_100_000_000,
                    index_bytes=2_900_000_000,
                    vacuumed_at=EXAMPLE_TIME,
                )
            ],
            indexes=[
                DatabaseIndex(
                    table="river_job",
                    name="river_job_pkey",
                    valid=True,
                    bytes=310_000_000,
                    expected_bytes=218_000_000,
                    scans=1_203_881,
                )
            ],
        )
