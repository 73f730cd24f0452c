"""Periodic jobs: how often each runs, its newest runs, and what was missed."""

from __future__ import annotations

from functools import partial

from riverui.features.durable_periodic.section import table as durable
from riverui.features.durable_periodic.verbs import PERIODIC_VERBS, RIGHT
from riverui.web.http.context import Section
from riverui.web.http.periodic_runs import PERIODIC_HISTORIES
from riverui.web.http.routes import GuardedRoute
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
    routes=(
        GuardedRoute("GET", "/periodic", "periodic.index", "jobs.read", index.index),
        *(
            GuardedRoute(
                "POST",
                f"/periodic/{verb.name}",
                f"periodic.{verb.name}",
                RIGHT,
                partial(durable.change, verb),
            )
            for verb in PERIODIC_VERBS.values()
        ),
    ),
    rights={RIGHT: "pause, run and reschedule durable periodic jobs"},
    api=api.ENDPOINTS,
    services=(PERIODIC_HISTORIES,),
)
