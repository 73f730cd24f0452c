"""What writes times, icons and addresses for the page that is being drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from riverui.web.view.charts import Icons
from riverui.web.view.format import Times


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """How one request's page is drawn: made once for it, used by templates and tables."""

    times: Times
    """Writes times as this browser prefers them."""
    icons: Icons
    url: Callable[..., str]
    """Returns the address of a route by its name and parameters."""
    linked: Callable[..., str]
    """The same, or an empty string if no section has the route."""
    static: Callable[[str], str]
    """Returns the address of a static file by its path."""
    may: Callable[[str], bool]
    """Says whether this viewer has a right."""
    part: Callable[[str, Mapping[str, Any]], str]
    """Returns what a template draws of hashable values and of nothing else, drawn once for them: it
    names no `page` or `shell`, and asks neither for rights nor for times.
    """
    macros: Callable[[str], Any]
    """Returns the macros of a template by its path, such as `macros/queues.html`."""
