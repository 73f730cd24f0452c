"""The page About: versions, the database, and the leader."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui import __version__
from riverui.domain.queues import LeaderRow
from riverui.errors import DatabaseError, DatabaseUnavailable, SchemaMissing
from riverui.storage.interface.migrations import MigrationRow
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
    leader: LeaderRow | None
    unread: Mapping[str, str]
    """Which of server, migrations and leader could not be read, and why."""
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
            problem, errors = Problem(title=page.title, detail=page.detail), {}
            break
    server = None if isinstance(found, DatabaseError) else found
    migrations = () if isinstance(recorded, DatabaseError) else tuple(recorded)
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
            leader=None if isinstance(leader, DatabaseError) else leader,
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


def _process(board: Dashboard) -> str:
    """Return the name of this process, and how many processes serve its port."""
    return board.name if board.workers == 1 else f"{board.name} (one of {board.workers})"
