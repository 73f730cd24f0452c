"""Suggestions for the search box."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.web.http.context import Service, dashboard
from riverui.web.search.suggestions import Option, Suggestions
from riverui.web.view.render import respond

SUGGESTIONS = Service(make=lambda board: Suggestions(board.reads))


@dataclass(frozen=True, kw_only=True, slots=True)
class SuggestionsList:
    """The options for what is being typed."""

    template: ClassVar[str] = "jobs/_suggestions.html"
    fragments: ClassVar[Mapping[str, str]] = {"suggestions": "jobs/_suggestions.html"}

    options: tuple[Option, ...]


async def index(request: Request) -> Response:
    """Answer GET /suggest?q=…&at=… with options for the term under the caret."""
    text = request.query_params.get("q", "")
    caret = request.query_params.get("at", "")
    at = int(caret) if re.fullmatch(r"[0-9]{1,6}", caret) else len(text)
    options = await dashboard(request).get(SUGGESTIONS).get(text, min(at, len(text)))
    return respond(request, SuggestionsList(options=options))
