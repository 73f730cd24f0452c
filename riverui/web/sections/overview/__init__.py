"""What there is, how much of it, and figures: for front ends and monitoring."""

from __future__ import annotations

from riverui.web.http.routes import GuardedRoute
from riverui.web.http.section import Section
from riverui.web.sections.overview import api, metrics

SECTION = Section(
    name="overview",
    api=(
        GuardedRoute("GET", "/api/autocomplete", "api.autocomplete", "jobs.read", api.autocomplete),
        GuardedRoute("GET", "/api/features", "api.features", "jobs.read", api.features),
        GuardedRoute("GET", "/api/states", "api.states", "jobs.read", api.states),
        GuardedRoute("GET", "/metrics", "metrics", "metrics.read", metrics.show),
    ),
    rights={"metrics.read": "read Prometheus metrics"},
)
