"""The overview: the front page, and the API's counts, names, health report and metrics."""

from __future__ import annotations

from riverui.web.http.context import SIGNED_IN, Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.overview import api, events, health, index, metrics, overview_api
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="overview",
    navigation=NavEntry(
        label="Overview",
        route="root",
        right="figures.read",
        icon="activity",
        keys="g o",
        phone=True,
    ),
    routes=(
        # Viewers without the right to figures are redirected to the list of jobs.
        GuardedRoute("GET", "/", "root", SIGNED_IN, index.index),
    ),
    events=events.events,
    api=(*api.ENDPOINTS, health.ENDPOINT, overview_api.ENDPOINT, metrics.ENDPOINT),
    rights={
        "metrics.read": "read Prometheus metrics",
    },
)
