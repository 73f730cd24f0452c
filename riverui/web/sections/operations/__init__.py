"""Operations: actions on all jobs that match a search."""

from __future__ import annotations

from riverui.web.http.routes import GuardedRoute
from riverui.web.http.section import Section
from riverui.web.sections.operations import api, index
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="operations",
    navigation=NavEntry(
        label="Operations", route="operations.index", right="jobs.read", icon="list-checks"
    ),
    # To stop one needs the right to its verb besides, which only the handler knows.
    routes=(
        GuardedRoute("GET", "/operations", "operations.index", "jobs.read", index.index),
        GuardedRoute("GET", "/operations/{id}", "operations.show", "jobs.read", index.show),
        GuardedRoute("POST", "/operations/{id}/stop", "operations.stop", "jobs.read", index.stop),
    ),
    api=api.ENDPOINTS,
)
