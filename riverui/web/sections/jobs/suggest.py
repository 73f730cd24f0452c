"""Suggestions for the search box."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url
from riverui.web.search.addresses import jobs_url
from riverui.web.search.suggestions import SUGGESTIONS, Option
from riverui.web.view.contributions import MAX_SOURCE, PaletteEntry
from riverui.web.view.format import STATE_ICONS
from riverui.web.view.render import respond


@dataclass(frozen=True, kw_only=True, slots=True)
class SuggestionsList:
    """The options for what is being typed."""

    template: ClassVar[str] = "jobs/_suggestions.html"
    fragments: ClassVar[Mapping[str, str]] = {"suggestions": "jobs/_suggestions.html"}

    options: tuple[Option, ...]


async def palette(request: Request, text: str) -> Sequence[PaletteEntry]:
    """Return the job with this id, lists of jobs by state, and the search for the text."""
    found = []
    if re.fullmatch(r"#?[1-9][0-9]{0,17}", text):
        job = text.removeprefix("#")
        found.append(PaletteEntry(job, url(request, "jobs.show", id=job), "layers", "job"))
    for state in JobState:
        if state.startswith(text.lower()):
            address, icon = jobs_url(request, states=[state]), STATE_ICONS[state]
            found.append(PaletteEntry(f"{state.capitalize()} jobs", address, icon, "list"))
    address = f"{url(request, 'jobs.index')}?{urlencode({'q': text})}"
    return [*found[: MAX_SOURCE - 1], PaletteEntry("Search jobs", address, "search", text)]


async def index(request: Request) -> Response:
    """Answer GET /suggest?q=…&at=… with options for the term under the caret."""
    text = request.query_params.get("q", "")
    caret = request.query_params.get("at", "")
    at = int(caret) if re.fullmatch(r"[0-9]{1,6}", caret) else len(text)
    options = await dashboard(request).get(SUGGESTIONS).get(text, min(at, len(text)))
    return respond(request, SuggestionsList(options=options))
