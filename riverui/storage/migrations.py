"""Runs and reads River's migrations as River's rivermigrate does: up, down, status, SQL to read,
validation. The driver lists them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from riverui.errors import MigrationError
from riverui.storage.interface import MIGRATIONS, MigrationSource, Offering
from riverui.storage.interface.migrations import Direction, MigrationTexts
from riverui.storage.interface.sql_blocks import qualify
from riverui.storage.options import check_schema

_NOTHING = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|select 1;)*", re.IGNORECASE)
"""Matches SQL that changes nothing: comments, and `select 1` as a placeholder."""

FIRST_WITH_LINE = 5
"""The version of `main` that added the column `line` to river_migration."""


class MigrationFolder:
    """A MigrationSource of files: `<line>/<version>_<name>.up.sql`, and `.down.sql` beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions: dict[str, dict[int, str]] = {}

    def lines(self) -> Sequence[str]:
        """Return the names of the lines in order."""
        return sorted(folder.name for folder in self._folder.iterdir() if folder.is_dir())

    def versions(self, line: str) -> Mapping[int, str]:
        """Return version and name, in words, of each migration of a line, by version."""
        if line not in self._versions:
            files = sorted((self._folder / line).glob("*.up.sql"))
            stems = [file.name.removesuffix(".up.sql") for file in files]
            self._versions[line] = {int(stem[:3]): stem[4:].replace("_", " ") for stem in stems}
        return self._versions[line]

    def sql(self, line: str, version: int, direction: Direction) -> str:
        """Return a migration's SQL, its schema not yet filled in."""
        name = self.versions(line)[version].replace(" ", "_")
        file = self._folder / line / f"{version:03}_{name}.{direction}.sql"
        return file.read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationStep:
    """One version of a line in one direction; `applied_in` None if it was not run."""

    version: int
    name: str
    direction: Direction
    sql: str
    applied_in: timedelta | None = None

    @property
    def changes(self) -> bool:
        """Return whether it changes anything: some versions do so only on other databases."""
        return _NOTHING.fullmatch(self.sql) is None


async def migrate(
    driver: Offering,
    direction: Direction = "up",
    *,
    line: str = "main",
    max_steps: int | None = None,
    target_version: int | None = None,
    dry_run: bool = False,
    statement_timeout: timedelta | None = None,
) -> list[MigrationStep]:
    """Apply what is pending (up) or take applied versions back (down); return the steps in order.

    Up goes all the way, down one step, unless `max_steps` or `target_version` say otherwise; the
    target is the database's version afterwards, and -1 with down removes everything. Each step is
    one transaction with its record, and `statement_timeout` limits each statement (None: no limit).
    MigrationError for an unknown line or version, and if the database rejects a step.
    """
    database = MIGRATIONS.on(driver)
    known = _versions(database.migrations, line)
    async with database.migrating() as migrations:
        applied = await migrations.versions(line)
        chosen = _choose(sorted(known), set(applied), direction, max_steps, target_version)
        steps = []
        for version in chosen:
            step = _step(database.migrations, line, version, direction, database.schema)
            if not dry_run:
                started = time.monotonic()
                async with migrations.step(statement_timeout=statement_timeout):
                    # Another process may have run it since the versions were read.
                    if (version in await migrations.versions(line)) == (direction == "up"):
                        continue
                    try:
                        await migrations.apply(step.sql)
                    except MigrationError as error:
                        raise MigrationError(
                            f"Version {version:03} ({direction}) failed and was not applied:"
                            f" {error}"
                        ) from error
                    if _is_recorded(line, version, direction):
                        await migrations.record(
                            line,
                            version,
                            applied=direction == "up",
                            has_line=_has_line(line, version, direction),
                        )
                step = replace(step, applied_in=timedelta(seconds=time.monotonic() - started))
            steps.append(step)
        return steps


async def migration_status(driver: Offering, line: str = "main") -> list[tuple[int, str, bool]]:
    """Return version, name and whether it is applied, for every known version; unknown applied ones
    have no name.
    """
    database = MIGRATIONS.on(driver)
    known = _versions(database.migrations, line)
    async with database.migrating() as migrations:
        applied = set(await migrations.versions(line))
    return [
        (version, known.get(version, ""), version in applied)
        for version in sorted(known.keys() | applied)
    ]


def migration_sql(
    migrations: MigrationSource,
    line: str = "main",
    versions: Sequence[int] | Literal["all"] = "all",
    direction: Direction = "up",
    schema: str | None = None,
    exclude: Sequence[int] = (),
) -> list[MigrationStep]:
    """Return the SQL of these versions, in the order given; all of them in the order in which they
    would run.
    """
    known = _versions(migrations, line)
    if versions == "all":
        chosen = sorted(known, reverse=direction == "down")
    else:
        chosen = [_known(version, known) for version in versions]
    schema = check_schema(schema)
    return [
        _step(migrations, line, version, direction, schema)
        for version in chosen
        if version not in exclude
    ]


def migration_scripts(
    migrations: MigrationSource,
    texts: MigrationTexts,
    versions: Sequence[int],
    direction: Direction = "up",
    *,
    line: str = "main",
    schema: str | None = None,
) -> list[str]:
    """Return for each of these versions the SQL that runs it and records that it was run."""
    return [
        step.sql.strip()
        + (
            "\n\n"
            + texts.record(
                line,
                step.version,
                applied=direction == "up",
                has_line=_has_line(line, step.version, direction),
            )
            + ";"
            if _is_recorded(line, step.version, direction)
            else ""
        )
        for step in migration_sql(migrations, line, versions, direction, schema)
    ]


async def validate(
    driver: Offering, line: str = "main", target_version: int | None = None
) -> list[int]:
    """Return the versions that are not applied, up to the target if there is one."""
    database = MIGRATIONS.on(driver)
    known = _versions(database.migrations, line)
    if target_version is not None and target_version > 0:
        _known(target_version, known)
    async with database.migrating() as migrations:
        applied = set(await migrations.versions(line))
    last = target_version if target_version is not None and target_version > 0 else max(known)
    return [version for version in sorted(known) if version not in applied and version <= last]


def _choose(
    known: list[int],
    applied: set[int],
    direction: Direction,
    max_steps: int | None,
    target_version: int | None,
) -> list[int]:
    """Return the versions to run, in order."""
    if direction == "up":
        pending = [version for version in known if version not in applied]
    else:
        pending = [version for version in reversed(known) if version in applied]
    steps = max_steps or (1 if direction == "down" and not target_version else 0)
    chosen = pending[: max(steps, 0)] if steps else pending
    if target_version is None or target_version <= 0:
        return chosen
    _known(target_version, dict.fromkeys(known, ""))
    if target_version in chosen:
        at = chosen.index(target_version)
        return chosen[: at + 1] if direction == "up" else chosen[:at]
    if direction == "down":
        raise MigrationError(
            f"Version {target_version} is not among those that would be rolled back."
        )
    return chosen if target_version in pending else []


def _is_recorded(line: str, version: int, direction: Direction) -> bool:
    """Return whether the step is recorded: the last step down has dropped the record."""
    return not (direction == "down" and line == "main" and version == 1)


def _has_line(line: str, version: int, direction: Direction) -> bool:
    """Return whether the record has the column `line` after the step."""
    return line != "main" or version >= FIRST_WITH_LINE + (direction == "down")


def _known(version: int, known: Mapping[int, str]) -> int:
    if version not in known:
        there = ", ".join(str(v) for v in sorted(known))
        raise MigrationError(f"Migration {version} not found; the migrations are {there}.")
    return version


def _step(
    migrations: MigrationSource,
    line: str,
    version: int,
    direction: Direction,
    schema: str | None,
) -> MigrationStep:
    name = _versions(migrations, line)[version]
    sql = qualify(migrations.sql(line, version, direction), schema)
    return MigrationStep(version=version, name=name, direction=direction, sql=sql)


def _versions(migrations: MigrationSource, line: str) -> Mapping[int, str]:
    """Return the migrations of a line; MigrationError if there is no such line."""
    lines = migrations.lines()
    if line not in lines:
        close = get_close_matches(line, lines)
        hint = f"did you mean “{close[0]}”?" if close else f"there is {' and '.join(lines)}."
        raise MigrationError(f"Migration line “{line}” not found: {hint}")
    return migrations.versions(line)
