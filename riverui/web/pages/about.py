"""About: versions, the database, per-browser preferences, help."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui import __version__
from riverui.domain.queues import LeaderRow
from riverui.errors import DatabaseError
from riverui.storage.migrate import migration_sql
from riverui.storage.params import MigrationRow, ServerRow
from riverui.web import preferences as kept
from riverui.web.access import RIGHTS, access
from riverui.web.dashboard import dashboard
from riverui.web.forms import form
from riverui.web.htmx import htmx
from riverui.web.pages.jobs import Problem
from riverui.web.problems import error_page
from riverui.web.render import respond
from riverui.web.urls import local_path, url

_BOOLEANS = {"1": True, "0": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """Versions, schema, leader, server settings; the preferences form."""

    template: ClassVar[str] = "about/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"about": "about/_about.html"}

    versions: tuple[tuple[str, str], ...]
    """riverui, Python, Starlette, psycopg, PostgreSQL."""
    server: ServerRow | None
    migrations: tuple[MigrationRow, ...]
    unapplied: tuple[int, ...]
    """Versions of line main that riverui knows and the database lacks."""
    unknown: tuple[int, ...]
    """Versions of line main that the database has and riverui does not know."""
    leader: LeaderRow | None
    rights: tuple[str, ...]
    self_url: str
    problem: Problem | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Help:
    """Keyboard shortcuts and the search grammar."""

    template: ClassVar[str] = "about/help.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "about/_help.html"}


async def index(request: Request) -> Response:
    """Versions, the database, who leads."""
    server, leader, problem, status = None, None, None, 200
    migrations: Sequence[MigrationRow] = ()
    try:
        async with dashboard(request).driver.reading() as executor:
            server = await executor.server_get()
            migrations = await executor.migration_list()
            leader = await executor.leader_get()
    except DatabaseError as error:
        # Here above all a person looks for what is wrong with the database.
        status, told = error_page(request, error)
        problem = Problem(title=told.title, detail=f"{told.detail} {told.command}".strip())
    applied = {row.version for row in migrations if row.line == "main"}
    known = {step.version for step in migration_sql("main")}
    held = access(request)
    return respond(
        request,
        About(
            versions=(
                ("riverui", __version__),
                ("Python", platform.python_version()),
                ("Starlette", version("starlette")),
                ("psycopg", version("psycopg")),
                *((("PostgreSQL", server.version),) if server else ()),
            ),
            server=server,
            migrations=tuple(migrations),
            unapplied=tuple(sorted(known - applied)) if applied else (),
            unknown=tuple(sorted(applied - known)),
            leader=leader,
            rights=tuple(words for right, words in RIGHTS.items() if held.may(right)),
            self_url=url(request, "about"),
            problem=problem,
        ),
        status=status,
    )


async def help(request: Request) -> Response:  # noqa: A001 - the page's name
    """Shortcuts and the search grammar."""
    return respond(request, Help())


async def preferences(request: Request) -> Response:
    """Keeps the choices that the form names; the others stay."""
    posted = await form(request)
    old = kept.preferences(request)
    chosen: dict[str, object] = asdict(old)
    chosen |= {name: posted[name] for name in ("theme", "time") if name in posted}
    numbers = {name: posted.get(name, "") for name in ("live", "limit")}
    chosen |= {name: int(text) for name, text in numbers.items() if re.fullmatch(r"[0-9]{1,3}", text)}
    if "show_args" in posted:
        chosen["show_args"] = _BOOLEANS.get(posted["show_args"])
    new = kept.choose(chosen)
    if htmx(request).request:
        response = Response(status_code=204)
        # The server draws these; the browser has done the others by itself.
        if (new.limit, new.show_args) != (old.limit, old.show_args):
            response.headers["HX-Refresh"] = "true"
    else:
        next_url = local_path(request, posted.get("next"), default=url(request, "about"))
        response = RedirectResponse(next_url, status_code=303)
    kept.write_preferences(request, response, new)
    return response
