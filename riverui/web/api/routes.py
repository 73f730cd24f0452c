"""The addresses of the JSON API on one screen."""

from __future__ import annotations

from riverui.web.api import jobs, overview, queues
from riverui.web.routes import Entry

ROUTES = (
    Entry("GET", "/api/autocomplete", "api.autocomplete", "jobs.read", overview.autocomplete),
    Entry("GET", "/api/features", "api.features", "jobs.read", overview.features),
    Entry("GET", "/api/states", "api.states", "jobs.read", overview.states),
    Entry("GET", "/api/jobs", "api.jobs.index", "jobs.read", jobs.index),
    Entry("POST", "/api/jobs/cancel", "api.jobs.cancel", "jobs.cancel", jobs.cancel),
    Entry("POST", "/api/jobs/delete", "api.jobs.delete", "jobs.delete", jobs.delete),
    Entry("POST", "/api/jobs/retry", "api.jobs.retry", "jobs.retry", jobs.retry),
    Entry("GET", "/api/jobs/{job_id}", "api.jobs.show", "jobs.read", jobs.show),
    Entry("GET", "/api/queues", "api.queues.index", "queues.read", queues.index),
    Entry("PUT", "/api/queues/{name:path}/pause", "api.queues.pause", "queues.pause", queues.pause),
    Entry("PUT", "/api/queues/{name:path}/resume", "api.queues.resume", "queues.pause", queues.resume),
    Entry("GET", "/api/queues/{name:path}", "api.queues.show", "queues.read", queues.show),
    Entry("PATCH", "/api/queues/{name:path}", "api.queues.update", "queues.update", queues.update),
)
"""Every address of the API besides the health checks, the right that it needs, and what answers."""
