"""The state of one request, from the gate to the templates."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from riverui.web.auth.viewer import Viewer
from riverui.web.http.paths import Urls
from riverui.web.view.preferences import Preferences

CONTEXT = "riverui.context"
"""The key of the ASGI scope that holds the RequestContext."""


@dataclass(kw_only=True, slots=True)
class RequestContext:
    """The state of one request, set by the gate."""

    id: str
    """The request's id in logs, in the X-Request-Id header and on error pages."""
    answer_by: float = float("inf")
    """Deadline (of time.monotonic) by which a response has to begin."""
    access: Viewer | None = None
    """None until the gate has decided; stays None on public routes."""
    base: str = ""
    """Base path, quoted, without a trailing slash."""
    by_itself: bool = False
    """Whether this is a refresh of a live region."""
    preferences: Preferences | None = None
    """The preferences in the browser's cookie, once read."""
    route: str = ""
    """Name of the route that answers; empty if none matches."""
    shared: bool = False
    """Whether the response may be shared by all requests for the same view; code that renders
    something specific to one viewer resets it.
    """
    urls: Urls = field(default_factory=lambda: Urls(()))
    """Paths of the app that answers."""


def request_context(request: HTTPConnection) -> RequestContext:
    """Return the context that the gate attached to this request."""
    found: RequestContext = request.scope[CONTEXT]
    return found
