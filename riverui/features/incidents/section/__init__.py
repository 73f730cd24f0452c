"""Incidents: problems with a beginning and an end, and the timeline of what happened."""

from __future__ import annotations

from riverui.features.incidents.section import api, pages, timeline
from riverui.features.incidents.section.pages import RIGHT
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="incidents",
    navigation=NavEntry(
        label="Incidents",
        route="incidents.index",
        right="figures.read",
        icon="triangle-alert",
        keys="g i",
    ),
    routes=(
        GuardedRoute("GET", "/incidents", "incidents.index", "figures.read", pages.index),
        GuardedRoute("GET", "/incidents/{id}", "incidents.show", "figures.read", pages.show),
        GuardedRoute("POST", "/incidents/{id}/note", "incidents.note", RIGHT, pages.note),
        GuardedRoute("GET", "/timeline", "timeline", "figures.read", timeline.index),
    ),
    api=(*api.ENDPOINTS, timeline.ENDPOINT),
    services=(INCIDENTS,),
    events=timeline.incident_events,
    rights={RIGHT: "write notes on incidents"},
)
