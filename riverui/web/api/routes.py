"""The addresses of the JSON API on one screen."""

from __future__ import annotations

from riverui.web.access import SIGNED_IN
from riverui.web.api import export, jobs, openapi, operations, overview, progress, queues, reference
from riverui.web.routes import Entry

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
    Entry("GET", "/api/progress", "api.progress", "jobs.read", progress.index),
    Entry("GET", "/api/operations", "api.operations.index", "jobs.read", operations.index),
    Entry("GET", "/api/operations/{id}", "api.operations.show", "jobs.read", operations.show),
    Entry("POST", "/api/operations/{id}/stop", "api.operations.stop", "jobs.read", operations.stop),
    Entry("GET", "/api/queues", "api.queues.index", "queues.read", queues.index),
    Entry("PUT", "/api/queues/{name:path}/pause", "api.queues.pause", "queues.pause", queues.pause),
    Entry("PUT", "/api/queues/{name:path}/resume", "api.queues.resume", "queues.pause", queues.resume),
    Entry("GET", "/api/queues/{name:path}", "api.queues.show", "queues.read", queues.show),
    Entry("PATCH", "/api/queues/{name:path}", "api.queues.update", "queues.update", queues.update),
)
"""Every address of the API besides the health checks, the right that it needs, and what answers."""
