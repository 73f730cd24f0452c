"""The palette: what the sections offer for a typed text, as a page or in its dialog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.web.http.context import SIGNED_IN, Section, access, dashboard
from riverui.web.http.request_context import only
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.contributions import PaletteEntry
from riverui.web.view.navigation import Shortcut
from riverui.web.view.render import navigation, respond

MAX_LENGTH = 200
"""Characters of the text: longer than nearly all names."""
MAX_ENTRIES = 15
"""Entries shown: more are not read before typing on."""
_MAX_ADDRESS = 2_000
"""Characters of an entry's address, which repeats a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Palette:
    """The entries for a text."""

    template: ClassVar[str] = "palette/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"palette-list": "palette/_list.html"}

    text: str
    entries: Sequence[PaletteEntry]


async def show(request: Request) -> Response:
    """Answer GET /palette?q=… with pages, and with what sections find that the viewer may see."""
    only(request, "q")
    text = request.query_params.get("q", "").strip()
    found: list[PaletteEntry] = []
    if len(text) <= MAX_LENGTH:
        word, held = text.lower(), access(request)
        found = [
            PaletteEntry(label=entry.label, url=entry.url, icon=entry.icon, hint="page")
            for entry in navigation(request)
            if word in entry.label.lower()
        ]
        for part in dashboard(request).sections.palettes if text else ():
            if held.may(part.right):
                found += await part.find(request, text)
        found = [entry for entry in found if len(entry.url) <= _MAX_ADDRESS]
        found.sort(key=lambda entry: _rank(entry.label.lower(), word))
    return respond(request, Palette(text=text[:MAX_LENGTH], entries=found[:MAX_ENTRIES]))


def _rank(label: str, word: str) -> int:
    """Return 0 for labels that begin with the word, 1 for those that contain it, else 2."""
    return 0 if label.startswith(word) else 1 if word in label else 2


SECTION = Section(
    name="palette",
    routes=(GuardedRoute("GET", "/palette", "palette", SIGNED_IN, show),),
    shortcuts=(
        Shortcut(keys=("ctrl", "k"), does="find a page, queue, kind, job, workflow or action"),
    ),
)
