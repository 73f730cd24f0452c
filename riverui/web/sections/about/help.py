"""Help: keyboard shortcuts and the search grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.web.http.context import dashboard
from riverui.web.view.navigation import Shortcut
from riverui.web.view.render import respond


@dataclass(frozen=True, kw_only=True, slots=True)
class Help:
    """Keyboard shortcuts and the search grammar."""

    template: ClassVar[str] = "about/help.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "about/_help.html"}

    shortcuts: Sequence[Shortcut]


async def show(request: Request) -> Response:
    """Answer with the help, as a page or in the dialog."""
    return respond(request, Help(shortcuts=dashboard(request).sections.shortcuts()))
