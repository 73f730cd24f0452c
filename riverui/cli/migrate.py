"""`riverui migrate-up | migrate-down | migrate-list | migrate-get | validate`, with the flags of
River's own CLI.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from riverui.cli.settings import choose, database_url, settings_options
from riverui.errors import ConfigError, DatabaseError

if TYPE_CHECKING:
    from riverui.storage.interface import Driver
    from riverui.storage.interface.migrations import Direction
    from riverui.storage.migrations import MigrationStep

T = TypeVar("T")

_JOBS_MIGRATION = 2
"""The migration that creates the table of jobs."""

_line = click.option(
    "--line", default="main", metavar="NAME", show_default=True, help="Migration line to use."
)
_database = settings_options("database_url", "schema")


def _steps_options(command: click.Command) -> click.Command:
    """Add the flags that migrate-up and migrate-down share."""
    for option in (
        click.option(
            "--max-steps", type=click.IntRange(min=1), metavar="N", help="Run at most N migrations."
        ),
        click.option(
            "--target-version",
            type=int,
            metavar="N",
            help="Version to stop at; 0 is before the first.",
        ),
        click.option("--dry-run", is_flag=True, help="Print what would be done, without doing it."),
        click.option("--show-sql", is_flag=True, help="Print the SQL of each migration."),
        click.option(
            "--statement-timeout",
            default="",
            metavar="TIME",
            help="Time limit of each statement, such as 2m; none by default.",
        ),
    ):
        command = option(command)
    return command


@_database
@_steps_options
@click.option(
    "--line",
    "lines",
    default=("main",),
    metavar="NAME",
    multiple=True,
    show_default=True,
    help="Migration line to use; given more than once, one after the other.",
)
@click.command("migrate-up")
@click.pass_obj
def migrate_up(environ: Mapping[str, str], /, **options: Any) -> int:
    """Create River's tables, or bring them up to date.

    Applies every missing migration, unless --max-steps or --target-version stops it sooner. With
    --line riverui it creates riverui's own tables, after River's.
    """
    return _migrate(environ, "up", **options)


@_database
@_steps_options
@_line
@click.option("--yes", is_flag=True, help="Drop tables that hold jobs without asking.")
@click.command("migrate-down")
@click.pass_obj
def migrate_down(environ: Mapping[str, str], /, yes: bool, line: str, **options: Any) -> int:
    """Roll back the newest migration. Drops what it created, with all its data.

    --max-steps or --target-version rolls back more than one. On a terminal, it asks before it drops
    tables that hold jobs.
    """
    if options["target_version"] == 0:
        options["target_version"] = -1
    return _migrate(environ, "down", asks=not yes and sys.stdin.isatty(), lines=(line,), **options)


@_database
@_line
@click.command("migrate-list")
@click.pass_obj
def migrate_list(environ: Mapping[str, str], /, line: str, **flags: Any) -> int:
    """List all migrations; a star marks the newest one applied."""
    from riverui.storage.migrations import migration_status

    status = _with_driver(environ, flags, lambda driver: migration_status(driver, line))
    current = max((version for version, _, applied in status if applied), default=0)
    for version, name, applied in status:
        note = "" if name else "(unknown to this riverui)"
        gap = " (not applied)" if not applied and version < current else ""
        click.echo(f"{'*' if version == current else ' '} {version:03} {name}{note}{gap}")
    return 0


@_database
@_line
@click.option("--all", "every", is_flag=True, help="All migrations; down ones come newest first.")
@click.option("--up", is_flag=True, help="The SQL to apply them.")
@click.option("--down", is_flag=True, help="The SQL to roll them back.")
@click.option("--version", "versions", multiple=True, metavar="N[,N…]", help="Only these versions.")
@click.option(
    "--exclude-version", "excluded", multiple=True, metavar="N[,N…]", help="All but these versions."
)
@click.command("migrate-get")
@click.pass_obj
def migrate_get(
    environ: Mapping[str, str],
    /,
    line: str,
    every: bool,
    up: bool,
    down: bool,
    versions: Sequence[str],
    excluded: Sequence[str],
    **flags: Any,
) -> int:
    """Print the SQL of migrations, to run it with another tool.

    \b
    riverui migrate-get --version 3 --up > river_3.up.sql
    riverui migrate-get --all --exclude-version 1 --up > river_all.up.sql
    """
    from riverui.storage.connect import migrations
    from riverui.storage.migrations import migration_sql

    if up == down:
        raise ConfigError("give either --up or --down")
    if every == bool(versions):
        raise ConfigError("give either --all or --version")
    chosen: Sequence[int] | Literal["all"] = "all" if every else _numbers("--version", versions)
    values = choose(flags, environ)
    steps = migration_sql(
        migrations(values.text("database_url")),
        line,
        chosen,
        "up" if up else "down",
        values.text("schema") or None,
        _numbers("--exclude-version", excluded),
    )
    click.echo("\n\n".join(_titled(step, line) for step in steps))
    return 0


@_database
@_line
@click.command("validate")
@click.pass_obj
def validate(environ: Mapping[str, str], /, line: str, **flags: Any) -> int:
    """Check that every migration is applied: exit code 0, or 1 and the missing ones."""
    from riverui.storage.migrations import validate as missing_versions

    missing = _with_driver(environ, flags, lambda driver: missing_versions(driver, line))
    if missing:
        versions = ", ".join(f"{version:03}" for version in missing)
        remedy = "riverui migrate-up" + ("" if line == "main" else f" --line {line}")
        click.echo(f"riverui: migrations not applied: {versions}; run `{remedy}`", err=True)
        return 1
    click.echo(f"Every migration of line {line} is applied.")
    return 0


COMMANDS = (migrate_up, migrate_down, migrate_list, migrate_get, validate)


def _migrate(
    environ: Mapping[str, str],
    direction: Direction,
    *,
    asks: bool = False,
    lines: Sequence[str],
    max_steps: int | None,
    target_version: int | None,
    dry_run: bool,
    show_sql: bool,
    statement_timeout: str,
    **flags: Any,
) -> int:
    from riverui.cli.terminal import ask
    from riverui.storage.migrations import migrate

    limit = _time("--statement-timeout", statement_timeout) if statement_timeout else None

    async def work(driver: Driver, line: str) -> Sequence[MigrationStep]:
        run = partial(
            migrate,
            driver,
            direction,
            line=line,
            max_steps=max_steps,
            statement_timeout=limit,
            target_version=target_version,
        )
        if asks and not dry_run and await _drops_jobs(driver, line, await run(dry_run=True)):
            ask(
                f"This drops River's tables in the database {driver.database} with all their jobs."
                " Continue?"
            )
        return await run(dry_run=dry_run)

    for line in dict.fromkeys(lines):
        steps = _with_driver(environ, flags, partial(work, line=line))
        if not steps:
            click.echo("no migrations to apply" + ("" if line == "main" else f" of line {line}"))
        _tell(line, steps, dry_run=dry_run, show_sql=show_sql)
    return 0


def _tell(line: str, steps: Sequence[MigrationStep], *, dry_run: bool, show_sql: bool) -> None:
    width = max((len(step.name) for step in steps), default=0)
    for step in steps:
        done = "would apply" if dry_run else "applied"
        took = "" if step.applied_in is None else f" [{_span(step.applied_in)}]"
        named = f"migration {step.version:03} [{step.direction}] {step.name:{width}}"
        click.echo(f"{done} {named}{took}".rstrip())
        if show_sql:
            click.echo(f"\n{_titled(step, line)}\n")


async def _drops_jobs(driver: Driver, line: str, steps: Sequence[MigrationStep]) -> bool:
    """Return whether these steps drop a table of jobs that is not empty."""
    if line != "main" or not any(step.version == _JOBS_MIGRATION for step in steps):
        return False
    from riverui.storage.interface.engine_params import JobSelectParams

    try:
        async with driver.reading() as db:
            return bool(await db.jobs.row_list(JobSelectParams(limit=1)))
    except DatabaseError:
        # Tables that are too old to be read may contain jobs.
        return True


def _with_driver(
    environ: Mapping[str, str], flags: Mapping[str, Any], work: Callable[[Driver], Awaitable[T]]
) -> T:
    """Connect, run, and close the connection."""
    import asyncio

    from riverui.storage.connect import connect

    values = choose(flags, environ)
    driver = connect(
        database_url(values, environ), schema=values.text("schema") or None, max_size=1
    )

    async def run() -> T:
        try:
            return await work(driver)
        finally:
            await driver.close()

    return asyncio.run(run())


def _time(flag: str, text: str) -> timedelta:
    from riverui.domain.time import go_duration

    try:
        found = go_duration(text)
    except ValueError:
        found = timedelta(0)
    # What Postgres takes: up to 2^31 milliseconds.
    if not timedelta(0) < found < timedelta(days=24):
        raise ConfigError(f"{flag} {text}: write it like 30s or 2m, up to 24 days")
    return found


def _numbers(flag: str, given: Sequence[str]) -> list[int]:
    words = [word.strip() for text in given for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise ConfigError(f"{flag} takes whole numbers, separated by commas")
    return [int(word) for word in words]


def _titled(step: MigrationStep, line: str) -> str:
    return f"-- River {line} migration {step.version:03} [{step.direction}]\n{step.sql.strip()}"


def _span(span: timedelta) -> str:
    return f"{span / timedelta(milliseconds=1):.1f} ms"
