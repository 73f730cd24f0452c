"""Redirects from River UI's page addresses to the nearest pages of riverui."""

from __future__ import annotations

from riverui.web.http.context import SIGNED_IN, Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.river_ui import redirects

SECTION = Section(
    name="river_ui",
    routes=(
        GuardedRoute("GET", "/jobs/", "river_ui.jobs", "jobs.read", redirects.jobs),
        GuardedRoute(
            "GET", "/periodic-jobs", "river_ui.periodic_jobs", "jobs.read", redirects.periodic_jobs
        ),
        GuardedRoute("GET", "/settings", "river_ui.settings", SIGNED_IN, redirects.settings),
    ),
)
