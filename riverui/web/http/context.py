"""What one dashboard app holds while it runs, and what one request carries through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig

if TYPE_CHECKING:
    from itsdangerous import URLSafeTimedSerializer
    from jinja2 import Environment

    from riverui.web.auth.access import Access
    from riverui.web.http.static import StaticFiles
    from riverui.web.http.urls import Urls
    from riverui.web.live.counts import Counts
    from riverui.web.live.metrics import Metrics
    from riverui.web.live.operations import Operations
    from riverui.web.search.long_searches import Searches
    from riverui.web.search.suggestions import Suggestions
    from riverui.web.view.preferences import Preferences

VISIT = "riverui.visit"
"""The key of the ASGI scope that holds the Visit."""


@dataclass(kw_only=True, slots=True)
class Dashboard:
    """One dashboard: its database, settings and the few things its requests share."""

    config: DashboardConfig
    counts: Counts
    driver: Driver
    environment: Environment
    metrics: Metrics
    operations: Operations
    searches: Searches
    signer: URLSafeTimedSerializer
    static: StaticFiles
    suggestions: Suggestions
    urls: Urls


@dataclass(kw_only=True, slots=True)
class Visit:
    """One request: filled at the door."""

    id: str
    """Names the request in logs, in the X-Request-Id header and on error pages."""
    access: Access | None = None
    """None until the door has decided; stays None on public routes."""
    base: str = ""
    """Base path, quoted, without a trailing slash."""
    preferences: Preferences | None = None
    """What the browser's cookie says, once it was read."""
    route: str = ""
    """Name of the route that answers; empty where none does."""


def dashboard(request: HTTPConnection) -> Dashboard:
    """The dashboard that serves this request (a host may mount several)."""
    found: Dashboard = request.app.state.dashboard
    return found


def visit(request: HTTPConnection) -> Visit:
    """What the door noted about this request."""
    found: Visit = request.scope[VISIT]
    return found
