"""Periodic jobs: how often each comes, its newest runs, and what did not come."""

from __future__ import annotations

from riverui.web.http.routes import GuardedRoute
from riverui.web.http.section import Section
from riverui.web.sections.periodic import api, index
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="periodic",
    navigation=NavEntry(
        label="Periodic",
        route="periodic.index",
        right="jobs.read",
        icon="calendar-clock",
        keys="g p",
    ),
    routes=(GuardedRoute("GET", "/periodic", "periodic.index", "jobs.read", index.index),),
    api=api.ENDPOINTS,
)
