"""What htmx 4 says about a request in its headers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from starlette.requests import HTTPConnection

VARY = "HX-Request, HX-Target"
"""Caches must know which headers decide between the page and a fragment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Htmx:
    """The htmx headers of a request; everything is empty for an ordinary browser request."""

    request: bool
    """Whether htmx wants a part of a page (not the whole page that going back in history
    restores).
    """
    target: str
    """Id of the element that the answer replaces."""
    current_path: str
    """Path of the page that the browser shows."""


def htmx(request: HTTPConnection) -> Htmx:
    """Return the values of the HX-* headers."""
    headers = request.headers
    asked = (
        headers.get("hx-request") == "true" and headers.get("hx-history-restore-request") != "true"
    )
    # htmx 4 names elements as `tag#id`, the id percent-encoded.
    target = unquote(headers.get("hx-target", "").partition("#")[2])
    try:
        current_path = urlsplit(headers.get("hx-current-url", "")).path
    except ValueError:
        current_path = ""
    return Htmx(request=asked, target=target if asked else "", current_path=current_path)
