"""What one request carries through the dashboard, from the gate to the templates."""

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
    """One request: filled by the gate."""

    id: str
    """Names the request in logs, in the X-Request-Id header and on error pages."""
    answer_by: float = float("inf")
    """When (of time.monotonic) an answer has to have begun."""
    access: Viewer | None = None
    """None until the gate has decided; stays None on public routes."""
    base: str = ""
    """Base path, quoted, without a trailing slash."""
    by_itself: bool = False
    """Whether a live region asked, which does so all the time."""
    preferences: Preferences | None = None
    """What the browser's cookie says, once it was read."""
    route: str = ""
    """Name of the route that answers; empty where none does."""
    shared: bool = False
    """Whether the answer is for all who ask for the same; who draws what is one viewer's own takes
    it back.
    """
    urls: Urls = field(default_factory=lambda: Urls(()))
    """Addresses of the app that answers."""


def request_context(request: HTTPConnection) -> RequestContext:
    """Return what the gate noted about this request."""
    found: RequestContext = request.scope[CONTEXT]
    return found
