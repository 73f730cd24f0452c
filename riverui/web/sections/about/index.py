"""The page About: versions, the database, and the leader."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui import __version__
from riverui.domain.queues import LeaderRow
from riverui.errors import DatabaseError, DatabaseUnavailable, SchemaMissing
from riverui.storage.interface import MIGRATIONS, SQL, Driver, MigrationSource, missing
from riverui.storage.interface.migrations import MigrationRow
from riverui.storage.migrations import migration_sql
from riverui.storage.stores.own_tables import OwnTableSize, OwnTableStore
from riverui.storage.stores.server import ServerRow, ServerStore
from riverui.web.http.context import Dashboard, access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import request_context, url
from riverui.web.view.facts import fact
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond

log = logging.getLogger("riverui.web")


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """Versions, schema, leader, server settings; the preferences form."""

    template: ClassVar[str] = "about/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"about": "about/_about.html"}

    versions: tuple[tuple[str, str], ...]
    """riverui, Python, Starlette, the driver's library, the database."""
    server: ServerRow | None
    migrations: tuple[MigrationRow, ...]
    unapplied: tuple[int, ...]
    """Versions of line main that riverui knows and that would change something in the database."""
    unknown: tuple[int, ...]
    """Versions of line main that the database has and riverui does not know."""
    behind: tuple[tuple[str, tuple[int, ...]], ...]
    """Other lines that the database has, and the versions of each that riverui knows and the
    database lacks.
    """
    leader: LeaderRow | None
    tables: tuple[OwnTableSize, ...]
    """riverui's own tables that exist in the database."""
    deletes_figures: bool
    """Whether the viewer may delete stored figures, and their table exists."""
    missing: tuple[str, ...]
    """Features that this kind of database lacks, each in a sentence or two."""
    unread: Mapping[str, str]
    """Which of server, migrations, tables and leader could not be read, and why."""
    rights: tuple[str, ...]
    self_url: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Answer with the page About; parts that cannot be read from the database are left out."""
    driver, problem, status = dashboard(request).driver, None, 200
    facts = {
        "server": (
            found := await fact(driver, lambda executor: ServerStore(executor).server_get())
        ),
        "migrations": (
            recorded := await fact(driver, lambda executor: ServerStore(executor).migration_list())
        ),
        "tables": (tables := await _tables(driver)),
        "leader": (leader := await fact(driver, lambda executor: executor.leader.get())),
    }
    errors = {name: error for name, error in facts.items() if isinstance(error, DatabaseError)}
    # People look on this page for what is wrong with the database.
    for error in errors.values():
        if isinstance(error, DatabaseUnavailable | SchemaMissing):
            log.warning(
                "%s", error, extra={"id": request_context(request).id, "kind": type(error).__name__}
            )
            status, page = error_page(request, error)
            problem, errors = (
                Problem(title=page.title, detail=f"{page.detail} {page.command}".strip()),
                {},
            )
            break
    server = None if isinstance(found, DatabaseError) else found
    migrations = () if isinstance(recorded, DatabaseError) else tuple(recorded)
    applied = {row.version for row in migrations if row.line == "main"}
    source = MIGRATIONS.on(driver).migrations if MIGRATIONS in driver.capabilities else None
    known = migration_sql(source, "main") if source else []
    needed = {step.version for step in known if step.changes}
    held = access(request)
    return respond(
        request,
        About(
            versions=(
                ("riverui", __version__),
                ("Python", platform.python_version()),
                ("Starlette", version("starlette")),
                driver.library,
                ("Process", _process(dashboard(request))),
                *(((driver.product, server.version),) if server else ()),
            ),
            server=server,
            migrations=migrations,
            unapplied=tuple(sorted(needed - applied)) if applied else (),
            unknown=tuple(sorted(applied - {step.version for step in known})) if known else (),
            behind=_behind(source, migrations) if source else (),
            leader=None if isinstance(leader, DatabaseError) else leader,
            tables=() if isinstance(tables, DatabaseError) else tuple(tables),
            deletes_figures=held.may("figures.manage")
            and not isinstance(tables, DatabaseError)
            and "riverui_rollup" in (table.name for table in tables),
            missing=tuple(part.missing for part in missing(driver)),
            unread={name: error.public for name, error in errors.items()},
            rights=tuple(
                words
                for right, words in dashboard(request).sections.rights.items()
                if held.may(right)
            ),
            self_url=url(request, "about"),
            problem=problem,
        ),
        status=status,
    )


async def _tables(driver: Driver) -> Sequence[OwnTableSize] | DatabaseError:
    if SQL not in driver.capabilities:
        return ()
    return await fact(driver, lambda executor: OwnTableStore(executor).own_table_size_list())


def _process(board: Dashboard) -> str:
    """Return the name of this process, and how many processes serve its port."""
    return board.name if board.workers == 1 else f"{board.name} (one of {board.workers})"


def _behind(
    source: MigrationSource, migrations: Sequence[MigrationRow]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the missing versions of each line, except main, that the database has."""
    found = []
    for line in dict.fromkeys(row.line for row in migrations if row.line != "main"):
        if line in source.lines():
            applied = {row.version for row in migrations if row.line == line}
            if lacking := tuple(sorted(source.versions(line).keys() - applied)):
                found.append((line, lacking))
    return tuple(found)
