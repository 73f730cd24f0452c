"""Formats times, icons and addresses for the page that is being rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from riverui.web.view.format import Icons, Times


@dataclass(frozen=True, kw_only=True, slots=True)
class PageContext:
    """The functions for rendering one request's page, used by templates and tables."""

    times: Times
    """Formats times as this browser prefers."""
    icons: Icons
    url: Callable[..., str]
    """Returns the address of a route by its name and parameters."""
    linked: Callable[..., str]
    """The same, or an empty string if no section has the route."""
    static: Callable[[str], str]
    """Returns the address of a static file by its path."""
    may: Callable[[str], bool]
    """Returns whether this viewer has a right."""
    part: Callable[[str, Mapping[str, Any]], str]
    """Renders a template with hashable values alone, and caches the result: the template must not
    use `page`, `shell`, rights or times.
    """
    macros: Callable[[str], Any]
    """Returns the macros of a template by its path, such as `macros/queues.html`."""
