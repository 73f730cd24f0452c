"""What htmx 4 says about a request in its headers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from starlette.requests import HTTPConnection

VARY = "HX-Request, HX-Target"
"""One address, two sizes: caches must know what the size hangs on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Htmx:
    """A request's htmx side; everything is empty for a browser that asks by itself."""

    request: bool
    """htmx asks, and wants a part of a page (not the whole page that going back in history
    restores).
    """
    target: str
    """Id of the element that the answer goes into."""
    current_path: str
    """Path of the page that the person sees."""


def htmx(request: HTTPConnection) -> Htmx:
    """Return what the HX-* headers say."""
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
