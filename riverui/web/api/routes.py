"""The addresses of the JSON API on one screen."""

from __future__ import annotations

from riverui.web.api import openapi, reference
from riverui.web.auth.access import SIGNED_IN
from riverui.web.http.routes import Entry
from riverui.web.live import metrics
from riverui.web.sections.jobs import api as jobs, export, progress
from riverui.web.sections.operations import api as operations
from riverui.web.sections.overview import api as overview
from riverui.web.sections.queues import api as queues
from riverui.web.sections.workflows import api as pro

ROUTES = (
    Entry("GET", "/api", "api", SIGNED_IN, reference.show),
    Entry("GET", "/api/openapi.json", "api.openapi", SIGNED_IN, openapi.show),
    Entry("GET", "/api/autocomplete", "api.autocomplete", "jobs.read", overview.autocomplete),
    Entry("GET", "/api/features", "api.features", "jobs.read", overview.features),
    Entry("GET", "/api/states", "api.states", "jobs.read", overview.states),
    Entry("GET", "/api/jobs", "api.jobs.index", "jobs.read", jobs.index),
    Entry("GET", "/api/jobs/export", "api.jobs.export", "jobs.read", export.show),
    Entry("POST", "/api/jobs/cancel", "api.jobs.cancel", "jobs.cancel", jobs.cancel),
    Entry("POST", "/api/jobs/delete", "api.jobs.delete", "jobs.delete", jobs.delete),
    Entry("POST", "/api/jobs/retry", "api.jobs.retry", "jobs.retry", jobs.retry),
    Entry("GET", "/api/jobs/{job_id}", "api.jobs.show", "jobs.read", jobs.show),
    Entry("GET", "/api/pro/periodic-jobs", "api.pro.periodic_jobs", "jobs.read", pro.periodic_jobs),
    Entry("GET", "/api/pro/producers", "api.pro.producers", "queues.read", pro.producers),
    Entry("GET", "/api/pro/workflows", "api.pro.workflows", "jobs.read", pro.workflows),
    Entry(
        "POST", "/api/pro/workflows/{id:path}/cancel", "api.pro.cancel", "jobs.cancel", pro.cancel
    ),
    Entry("POST", "/api/pro/workflows/{id:path}/retry", "api.pro.retry", "jobs.retry", pro.retry),
    Entry(
        "GET",
        "/api/pro/workflows/{id:path}/task-signals",
        "api.pro.signals",
        "jobs.read",
        pro.signals,
    ),
    Entry(
        "GET",
        "/api/pro/workflows/{id:path}/task-wait-diagnostics",
        "api.pro.diagnostics",
        "jobs.read",
        pro.diagnostics,
    ),
    Entry("GET", "/api/pro/workflows/{id:path}", "api.pro.workflow", "jobs.read", pro.workflow),
    Entry("GET", "/metrics", "metrics", "metrics.read", metrics.show),
    Entry("GET", "/api/progress", "api.progress", "jobs.read", progress.index),
    Entry("GET", "/api/operations", "api.operations.index", "jobs.read", operations.index),
    Entry("GET", "/api/operations/{id}", "api.operations.show", "jobs.read", operations.show),
    Entry("POST", "/api/operations/{id}/stop", "api.operations.stop", "jobs.read", operations.stop),
    Entry("GET", "/api/queues", "api.queues.index", "queues.read", queues.index),
    Entry("PUT", "/api/queues/{name:path}/pause", "api.queues.pause", "queues.pause", queues.pause),
    Entry(
        "PUT", "/api/queues/{name:path}/resume", "api.queues.resume", "queues.pause", queues.resume
    ),
    Entry("GET", "/api/queues/{name:path}", "api.queues.show", "queues.read", queues.show),
    Entry("PATCH", "/api/queues/{name:path}", "api.queues.update", "queues.update", queues.update),
)
"""Every address of the API besides the health checks, the right that it needs, and what answers."""
