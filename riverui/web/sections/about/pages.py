"""About: versions, the database, per-browser preferences, help."""

from __future__ import annotations

import logging
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui import __version__
from riverui.actions.job_verbs import JOB_VERBS
from riverui.domain.queues import LeaderRow
from riverui.errors import DatabaseError, DatabaseUnavailable, SchemaMissing
from riverui.storage.interface import MIGRATIONS, SERVER, missing
from riverui.storage.interface.params import MigrationRow, ServerRow
from riverui.storage.migrations import migration_sql
from riverui.web.auth.access import access
from riverui.web.http import cookies
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.htmx import htmx
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import request_context
from riverui.web.http.urls import local_path, url
from riverui.web.search import columns
from riverui.web.view.facts import fact
from riverui.web.view.page_parts import Problem
from riverui.web.view.preferences import choose
from riverui.web.view.render import respond

log = logging.getLogger("riverui.web")

_BOOLEANS = {"1": True, "0": False}


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
    leader: LeaderRow | None
    missing: tuple[str, ...]
    """What this kind of database cannot do, each as a sentence or two."""
    unread: Mapping[str, str]
    """What of server, migrations and leader could not be read, and why."""
    rights: tuple[str, ...]
    self_url: str
    problem: Problem | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Help:
    """Keyboard shortcuts and the search grammar."""

    template: ClassVar[str] = "about/help.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "about/_help.html"}

    verb_keys: tuple[tuple[tuple[str], str], ...]
    """The keys of the verbs on jobs, and what they do."""


async def index(request: Request) -> Response:
    """Versions, the database, who leads."""
    driver, problem, status = dashboard(request).driver, None, 200
    facts = {
        "server": (found := await fact(driver, lambda executor: SERVER.on(executor).server_get())),
        "migrations": (
            recorded := await fact(driver, lambda executor: SERVER.on(executor).migration_list())
        ),
        "leader": (leader := await fact(driver, lambda executor: executor.leader_get())),
    }
    errors = {name: error for name, error in facts.items() if isinstance(error, DatabaseError)}
    # Here above all a person looks for what is wrong with the database.
    for error in errors.values():
        if isinstance(error, DatabaseUnavailable | SchemaMissing):
            log.warning(
                "%s", error, extra={"id": request_context(request).id, "kind": type(error).__name__}
            )
            status, told = error_page(request, error)
            problem, errors = (
                Problem(title=told.title, detail=f"{told.detail} {told.command}".strip()),
                {},
            )
            break
    server = None if isinstance(found, DatabaseError) else found
    migrations = () if isinstance(recorded, DatabaseError) else tuple(recorded)
    applied = {row.version for row in migrations if row.line == "main"}
    known = (
        migration_sql(MIGRATIONS.on(driver).migrations, "main")
        if MIGRATIONS in driver.capabilities
        else []
    )
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
                *(((driver.product, server.version),) if server else ()),
            ),
            server=server,
            migrations=migrations,
            unapplied=tuple(sorted(needed - applied)) if applied else (),
            unknown=tuple(sorted(applied - {step.version for step in known})) if known else (),
            leader=None if isinstance(leader, DatabaseError) else leader,
            missing=tuple(part.missing for part in missing(driver)),
            unread={name: error.public for name, error in errors.items()},
            rights=tuple(
                words for right, words in dashboard(request).rights.items() if held.may(right)
            ),
            self_url=url(request, "about"),
            problem=problem,
        ),
        status=status,
    )


async def help(request: Request) -> Response:  # noqa: A001 - the page's name
    """Shortcuts and the search grammar."""
    keys = tuple(
        ((verb.key,), f"{verb.label.lower()}{' (asks first)' if verb.asks else ''}")
        for verb in JOB_VERBS.values()
    )
    return respond(request, Help(verb_keys=keys))


async def preferences(request: Request) -> Response:
    """Keeps the choices that the form names; the others stay."""
    posted = await form(request)
    old = cookies.preferences(request)
    chosen: dict[str, object] = asdict(old)
    chosen |= {name: posted[name] for name in ("theme", "time") if name in posted}
    numbers = {name: posted.get(name, "") for name in ("live", "limit")}
    chosen |= {
        name: int(text) for name, text in numbers.items() if re.fullmatch(r"[0-9]{1,3}", text)
    }
    if "show_args" in posted:
        chosen["show_args"] = _BOOLEANS.get(posted["show_args"])
    if "columns" in posted:
        chosen["columns"] = columns.read(posted.getlist("columns"))
    new = choose(chosen)
    if htmx(request).request:
        response = Response(status_code=204)
        # The server draws these; the browser has done the others by itself.
        if (new.limit, new.show_args) != (old.limit, old.show_args):
            response.headers["HX-Refresh"] = "true"
    else:
        next_url = local_path(request, posted.get("next"), default=url(request, "about"))
        response = RedirectResponse(next_url, status_code=303)
    cookies.write_preferences(request, response, new)
    return response
