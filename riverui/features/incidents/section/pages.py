"""The pages of incidents: the list, and one with what happened, what to do, and a note."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from itertools import groupby
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.time import FIRST
from riverui.errors import BadRequest, NotFound
from riverui.features.incidents.domain import Incident
from riverui.features.incidents.section.incident_view import IncidentView, incident_view
from riverui.features.incidents.section.timeline import incident_timeline
from riverui.features.incidents.store import MAX_USER, TOP, Place
from riverui.features.incidents.watch import INCIDENTS
from riverui.storage.tables import REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import only, url
from riverui.web.view.contributions import Event
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

RIGHT = "incidents.write"
MAX_NOTE = 4_000
"""Most characters of a note."""
_ROWS = 50
"""Closed incidents per page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentsIndex:
    """Incidents: the open ones, then the closed ones by day."""

    template: ClassVar[str] = "incidents/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"incidents-list": "incidents/_list.html"}

    open: Sequence[Incident]
    """Empty on all pages but the first."""
    days: tuple[tuple[date, tuple[Incident, ...]], ...]
    """Closed incidents by the day in UTC on which they began."""
    shared: bool
    """Whether all dashboards of the database share them."""
    remedy: str
    """The command that creates it."""
    self_url: str
    first_url: str
    """The first page; empty if this is it."""
    older_url: str
    """The next page; empty if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentsShow:
    """One incident."""

    template: ClassVar[str] = "incidents/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"incident": "incidents/_incident.html"}

    view: IncidentView
    events: Sequence[Event]
    """What happened around it, the oldest first."""
    self_url: str
    max_note: int = MAX_NOTE


async def index(request: Request) -> Response:
    """Show a page of incidents."""
    only(request, "before")
    watch, before = dashboard(request).get(INCIDENTS), request.query_params.get("before") or None
    opened, place = await watch.open(), TOP
    if before is not None:
        last = await find(request, before)
        place = Place(last.opened_at, last.id)
    async with await watch.store() as store:
        found = await store.incident_list(since=FIRST, limit=_ROWS + 1, before=place)
    shown = found[:_ROWS]
    closed = [incident for incident in shown if incident.closed_at is not None]
    here = url(request, "incidents.index")
    older = f"{here}?{urlencode({'before': shown[-1].id})}" if len(found) > _ROWS else ""
    days = groupby(closed, key=lambda incident: incident.opened_at.astimezone(UTC).date())
    return respond(
        request,
        IncidentsIndex(
            open=() if before else opened.incidents,
            days=tuple((day, tuple(incidents)) for day, incidents in days),
            shared=opened.shared,
            remedy=REMEDY,
            self_url=f"{here}?{urlencode({'before': before})}" if before else here,
            first_url=here if before else "",
            older_url=older,
        ),
    )


async def show(request: Request) -> Response:
    """Show one incident."""
    only(request)
    incident = await find(request, request.path_params["id"])
    view = await incident_view(request, incident)
    events = await incident_timeline(request, incident)
    return respond(request, IncidentsShow(view=view, events=events, self_url=view.url))


async def note(request: Request) -> Response:
    """Replace the note of an incident."""
    posted = await form(request)
    if "note" not in posted:
        raise BadRequest("Write a note.")
    found = await write_note(request, request.path_params["id"], posted["note"])
    here, notice = url(request, "incidents.show", id=found.id), Notice(level="info", title="Saved")
    return done(request, notice, next=here, changed="incidents")


async def write_note(request: Request, id: str, text: str) -> Incident:
    """Replace the note of an incident and return it; raise NotFound if it is unknown, BadRequest
    for a note that is too long.
    """
    board, user, text = dashboard(request), access(request).user, text.strip()
    if len(text) > MAX_NOTE:
        raise BadRequest(f"A note has at most {MAX_NOTE:,} characters.")
    watch = board.get(INCIDENTS)
    async with await watch.store(board.driver.transaction) as store:
        found = await store.incident_note(id, text, user=user[:MAX_USER])
    if found is None:
        raise NotFound("There is no such incident.")
    watch.expire()
    log.info("note on incident %s by %r", id, user)
    return found


async def find(request: Request, id: str) -> Incident:
    """Return an incident; raise NotFound if it is unknown."""
    async with await dashboard(request).get(INCIDENTS).store() as store:
        found = await store.incident_get(id)
    if found is None:
        raise NotFound("There is no such incident: those that ended are kept for 400 days.")
    return found
