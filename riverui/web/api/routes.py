"""The addresses of the JSON API on one screen."""

from __future__ import annotations

from riverui.web.api import openapi, reference
from riverui.web.auth.access import SIGNED_IN
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.jobs import api as jobs, export, progress
from riverui.web.sections.operations import api as operations
from riverui.web.sections.overview import api as overview, metrics
from riverui.web.sections.queues import api as queues
from riverui.web.sections.workflows import api as pro

ROUTES = (
    GuardedRoute("GET", "/api", "api", SIGNED_IN, reference.show),
    GuardedRoute("GET", "/api/openapi.json", "api.openapi", SIGNED_IN, openapi.show),
    GuardedRoute(
        "GET", "/api/autocomplete", "api.autocomplete", "jobs.read", overview.autocomplete
    ),
    GuardedRoute("GET", "/api/features", "api.features", "jobs.read", overview.features),
    GuardedRoute("GET", "/api/states", "api.states", "jobs.read", overview.states),
    GuardedRoute("GET", "/api/jobs", "api.jobs.index", "jobs.read", jobs.index),
    GuardedRoute("GET", "/api/jobs/export", "api.jobs.export", "jobs.read", export.show),
    *jobs.VERB_ROUTES,
    GuardedRoute("GET", "/api/jobs/{job_id}", "api.jobs.show", "jobs.read", jobs.show),
    GuardedRoute(
        "GET", "/api/pro/periodic-jobs", "api.pro.periodic_jobs", "jobs.read", pro.periodic_jobs
    ),
    GuardedRoute("GET", "/api/pro/producers", "api.pro.producers", "queues.read", pro.producers),
    GuardedRoute("GET", "/api/pro/workflows", "api.pro.workflows", "jobs.read", pro.workflows),
    GuardedRoute(
        "POST",
        "/api/pro/workflows/{id:river_rest}/cancel",
        "api.pro.cancel",
        "jobs.cancel",
        pro.cancel,
    ),
    GuardedRoute(
        "POST", "/api/pro/workflows/{id:river_rest}/retry", "api.pro.retry", "jobs.retry", pro.retry
    ),
    GuardedRoute(
        "GET",
        "/api/pro/workflows/{id:river_rest}/task-signals",
        "api.pro.signals",
        "jobs.read",
        pro.signals,
    ),
    GuardedRoute(
        "GET",
        "/api/pro/workflows/{id:river_rest}/task-wait-diagnostics",
        "api.pro.diagnostics",
        "jobs.read",
        pro.diagnostics,
    ),
    GuardedRoute(
        "GET", "/api/pro/workflows/{id:river_rest}", "api.pro.workflow", "jobs.read", pro.workflow
    ),
    GuardedRoute("GET", "/metrics", "metrics", "metrics.read", metrics.show),
    GuardedRoute("GET", "/api/progress", "api.progress", "jobs.read", progress.index),
    GuardedRoute("GET", "/api/operations", "api.operations.index", "jobs.read", operations.index),
    GuardedRoute(
        "GET", "/api/operations/{id}", "api.operations.show", "jobs.read", operations.show
    ),
    GuardedRoute(
        "POST", "/api/operations/{id}/stop", "api.operations.stop", "jobs.read", operations.stop
    ),
    GuardedRoute("GET", "/api/queues", "api.queues.index", "queues.read", queues.index),
    *queues.VERB_ROUTES,
    GuardedRoute(
        "GET", "/api/queues/{name:river_rest}", "api.queues.show", "queues.read", queues.show
    ),
    GuardedRoute(
        "PATCH",
        "/api/queues/{name:river_rest}",
        "api.queues.update",
        "queues.update",
        queues.update,
    ),
)
"""Every address of the API besides the health checks, the right that it needs, and what answers."""
