"""Notes: one page, one address for programs, one right, one key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import NotFound
from riverui.web.api import serializers
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.api.models import Model
from riverui.web.http.context import Section
from riverui.web.http.request_context import url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.navigation import NavEntry, Shortcut
from riverui.web.view.render import respond


@dataclass(frozen=True, kw_only=True, slots=True)
class NotesIndex:
    """The page."""

    template: ClassVar[str] = "notes/index.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    note: str
    self_url: str


async def index(request: Request) -> Response:
    """Answer with the page."""
    note = request.query_params.get("note", "<nothing>")
    return respond(request, NotesIndex(note=note, self_url=url(request, "notes.index")))


async def show(request: Request) -> Response:
    """Answer with a note that is not there."""
    raise NotFound(f"Note not found: {request.path_params['id']}.")


class Notes(Model, frozen=True, kw_only=True):
    """Notes, as programs get them."""

    data: list[str]


async def listed(request: Request) -> Response:
    """Answer a program."""
    return serializers.reply(Notes(data=["a note"]))


SECTION = Section(
    name="notes",
    navigation=NavEntry(
        label="Notes", route="notes.index", right="notes.read", icon="inbox", keys="g n"
    ),
    routes=(
        GuardedRoute("GET", "/notes", "notes.index", "notes.read", index),
        GuardedRoute("GET", "/notes/{id}", "notes.show", "notes.read", show),
    ),
    api=(
        Endpoint(
            "GET",
            "/api/notes",
            "api.notes.index",
            "notes.read",
            listed,
            Description(group="Notes", summary="All notes.", answer=Notes),
        ),
    ),
    rights={"notes.read": "see notes"},
    shortcuts=(Shortcut(keys=("n",), does="a new note"),),
)
