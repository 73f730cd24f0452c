"""The page of the database and its part of the API: what is wrong with it, and what fixes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.features.database.answer import DatabaseAnswer
from riverui.features.database.domain.facts import DatabaseReport
from riverui.features.database.domain.report import report
from riverui.features.database.reader import database_facts
from riverui.storage.interface import SQL
from riverui.web.api import serializers
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.http.context import Section, access, dashboard
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.contributions import PaletteEntry, PaletteSource
from riverui.web.view.render import respond

_RIGHT = "about.read"
"""The right to see the server's settings is also that to see its state."""
_WORDS = ("database", "doctor", "indexes", "migrations", "postgres", "tables", "vacuum")
"""What people type to find the page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseShow:
    """The findings, the tables and the indexes."""

    template: ClassVar[str] = "database/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"database": "database/_database.html"}

    report: DatabaseReport
    deletes_figures: bool
    """Whether the viewer may delete stored figures, and their table exists."""
    self_url: str


async def show(request: Request) -> Response:
    """Answer with the page of the database."""
    only(request)
    found = await _report(request)
    return respond(
        request,
        DatabaseShow(
            report=found,
            deletes_figures=access(request).may("figures.manage")
            and "riverui_rollup" in (table.name for table in found.tables),
            self_url=url(request, "database.index"),
        ),
    )


async def show_api(request: Request) -> Response:
    """Answer with the same as JSON."""
    return serializers.reply(DatabaseAnswer.from_report(await _report(request)))


async def _report(request: Request) -> DatabaseReport:
    # A standby has statistics of its own, and none of vacuum.
    return report(await database_facts(dashboard(request).primary))


async def _find(request: Request, text: str) -> Sequence[PaletteEntry]:
    """Return the page for the palette."""
    if SQL not in dashboard(request).driver.capabilities:
        return ()
    if not any(word.startswith(text.lower()) for word in _WORDS):
        return ()
    address = url(request, "database.index")
    return [PaletteEntry(label="Database", url=address, icon="database", hint="page")]


SECTION = Section(
    name="database",
    routes=(GuardedRoute("GET", "/database", "database.index", _RIGHT, show),),
    api=(
        Endpoint(
            "GET",
            "/api/database",
            "api.database",
            _RIGHT,
            show_api,
            Description(
                group="Overview",
                summary="What is wrong with the database, and what fixes it; its tables and"
                " indexes.",
                answer=DatabaseAnswer,
                fails=(501,),
                extension=True,
            ),
        ),
    ),
    palette=PaletteSource(right=_RIGHT, find=_find),
)
