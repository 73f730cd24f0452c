"""Workflows: their pages, and River Pro's part of the API."""

from __future__ import annotations

from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section import (
    api,
    graph,
    index,
    palette,
    show,
    signals,
    signals_api,
    verbs,
    words,
)
from riverui.features.workflows.section.job_cards import started_workflows, workflow_card
from riverui.features.workflows.section.own_waits import EXPRESSIONS
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.contributions import JobCard, PaletteSource
from riverui.web.view.navigation import NavEntry

SECTION = Section(
    name="workflows",
    navigation=NavEntry(
        label="Workflows",
        route="workflows.index",
        right="jobs.read",
        icon="workflow",
        store=WorkflowPageStore,
        keys="g f",
    ),
    routes=(
        GuardedRoute("GET", "/workflows", "workflows.index", "jobs.read", index.index),
        *signals.ROUTES,
        GuardedRoute(
            "GET", "/workflows/{id:river_queue}", "workflows.show", "jobs.read", show.show
        ),
        *verbs.ROUTES,
    ),
    api=api.ENDPOINTS,
    rights={signals_api.RIGHT: "send signals to workflows"},
    services=(EXPRESSIONS,),
    palette=PaletteSource(right="jobs.read", find=palette.find),
    job_cards=(
        JobCard(template="workflows/_job_started.html", read=started_workflows),
        JobCard(template="workflows/_job_task.html", read=workflow_card),
    ),
    template_globals={"task_icons": words.TASK_ICONS, "workflow_graph": graph.drawn},
)
