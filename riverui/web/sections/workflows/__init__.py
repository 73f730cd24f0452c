"""River Pro's workflows, periodic jobs and producers."""

from __future__ import annotations

from riverui.web.http.routes import GuardedRoute
from riverui.web.http.section import Section
from riverui.web.sections.workflows import api

_WORKFLOW = "/api/pro/workflows/{id:river_rest}"

SECTION = Section(
    name="workflows",
    api=(
        GuardedRoute(
            "GET", "/api/pro/periodic-jobs", "api.pro.periodic_jobs", "jobs.read", api.periodic_jobs
        ),
        GuardedRoute(
            "GET", "/api/pro/producers", "api.pro.producers", "queues.read", api.producers
        ),
        GuardedRoute("GET", "/api/pro/workflows", "api.pro.workflows", "jobs.read", api.workflows),
        GuardedRoute("POST", f"{_WORKFLOW}/cancel", "api.pro.cancel", "jobs.cancel", api.cancel),
        GuardedRoute("POST", f"{_WORKFLOW}/retry", "api.pro.retry", "jobs.retry", api.retry),
        GuardedRoute(
            "GET", f"{_WORKFLOW}/task-signals", "api.pro.signals", "jobs.read", api.signals
        ),
        GuardedRoute(
            "GET",
            f"{_WORKFLOW}/task-wait-diagnostics",
            "api.pro.diagnostics",
            "jobs.read",
            api.diagnostics,
        ),
        GuardedRoute("GET", _WORKFLOW, "api.pro.workflow", "jobs.read", api.workflow),
    ),
)
