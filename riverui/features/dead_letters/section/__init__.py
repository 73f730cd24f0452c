"""Dead letters: jobs that were kept after their retention or their deletion."""

from __future__ import annotations

from riverui.actions.job_verbs import DELETE, RETRY
from riverui.features.dead_letters.section import (
    api,
    bulk,
    index,
    kept_jobs,
    pro_api,
    redirects,
    show,
    verbs,
)
from riverui.web.http.context import Section
from riverui.web.http.routes import GuardedRoute

SECTION = Section(
    name="dead_letters",
    routes=(
        GuardedRoute("GET", "/dead-letters", "dead_letters.index", "jobs.read", index.index),
        *bulk.ROUTES,
        *kept_jobs.ROUTES,
        *redirects.ROUTES,
        GuardedRoute(
            "GET", "/dead-letters/{id:river_bigint}", "dead_letters.show", "jobs.read", show.show
        ),
        GuardedRoute(
            "GET",
            "/dead-letters/{id:river_bigint}/raw/{field}",
            "dead_letters.raw",
            "jobs.read",
            show.raw,
        ),
        GuardedRoute("POST", "/dead-letters/retry", "dead_letters.retry", RETRY.right, verbs.retry),
        GuardedRoute(
            "POST", "/dead-letters/delete", "dead_letters.delete", DELETE.right, verbs.delete
        ),
    ),
    api=(*api.ENDPOINTS, *pro_api.ENDPOINTS),
    job_keeping=kept_jobs.KEEPING,
)
