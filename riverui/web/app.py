"""The dashboard as an ASGI app: the whole route table on one screen."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from itsdangerous import URLSafeTimedSerializer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from riverui.storage.interface import Driver
from riverui.web import assets
from riverui.web.api import routes as api
from riverui.web.auth.access import PUBLIC, SIGNED_IN
from riverui.web.auth.rights import RIGHTS, Authenticate
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http import problems
from riverui.web.http.context import Dashboard
from riverui.web.http.gate import GateMiddleware
from riverui.web.http.health import Health
from riverui.web.http.paths import Urls
from riverui.web.http.routes import GuardedRoute, check_rights, not_found
from riverui.web.http.static import StaticFiles
from riverui.web.http.urls import url
from riverui.web.live.counts import Counts
from riverui.web.live.metrics import Metrics
from riverui.web.live.operations import Operations
from riverui.web.search.long_searches import Searches
from riverui.web.search.suggestions import Suggestions
from riverui.web.sections.about import pages as about
from riverui.web.sections.jobs import bulk, chosen, index as jobs, search, show as job, suggest
from riverui.web.sections.operations import pages as operations
from riverui.web.sections.queues import pages as queues
from riverui.web.sections.river_ui import pages as river_ui
from riverui.web.view import render


def route_table(health: Health, static: StaticFiles) -> tuple[GuardedRoute, ...]:
    """Every address there is, the right that it needs, and what answers."""
    return (
        GuardedRoute("GET", "/", "root", SIGNED_IN, root),
        GuardedRoute("GET", "/robots.txt", "robots", PUBLIC, robots),
        GuardedRoute("GET", "/jobs", "jobs.index", "jobs.read", jobs.index),
        GuardedRoute("GET", "/jobs/", "river_ui.jobs", "jobs.read", river_ui.jobs),
        *chosen.ROUTES,
        *bulk.ROUTES,
        GuardedRoute("GET", "/jobs/search", "jobs.search", "jobs.read", search.step),
        GuardedRoute("GET", "/jobs/{id:river_bigint}", "jobs.show", "jobs.read", job.show),
        GuardedRoute(
            "GET", "/jobs/{id:river_bigint}/log/{attempt}", "jobs.log", "jobs.read", job.log
        ),
        GuardedRoute(
            "GET", "/jobs/{id:river_bigint}/raw/{field}", "jobs.raw", "jobs.read", job.raw
        ),
        GuardedRoute("GET", "/queues", "queues.index", "queues.read", queues.index),
        *queues.VERB_ROUTES,
        GuardedRoute(
            "GET", "/queues/{name:river_queue}", "queues.show", "queues.read", queues.show
        ),
        GuardedRoute("GET", "/operations", "operations.index", "jobs.read", operations.index),
        GuardedRoute("GET", "/operations/{id}", "operations.show", "jobs.read", operations.show),
        GuardedRoute(
            "POST", "/operations/{id}/stop", "operations.stop", "jobs.read", operations.stop
        ),
        GuardedRoute("GET", "/suggest", "suggest", "jobs.read", suggest.index),
        GuardedRoute("GET", "/about", "about", "about.read", about.index),
        GuardedRoute(
            "GET", "/periodic-jobs", "river_ui.periodic_jobs", "jobs.read", river_ui.periodic_jobs
        ),
        GuardedRoute("GET", "/settings", "river_ui.settings", SIGNED_IN, river_ui.settings),
        GuardedRoute("GET", "/workflows", "river_ui.workflows", "jobs.read", river_ui.workflows),
        GuardedRoute(
            "GET", "/workflows/{id:river_rest}", "river_ui.workflow", "jobs.read", river_ui.workflow
        ),
        GuardedRoute("GET", "/help", "help", SIGNED_IN, about.help),
        GuardedRoute("POST", "/preferences", "preferences", SIGNED_IN, about.preferences),
        GuardedRoute("GET", "/static/{hash}/{path:river_rest}", "static", PUBLIC, static.show),
        GuardedRoute("GET", "/api/health-checks/{name}", "health", PUBLIC, health.show),
        *api.ROUTES,
    )


def create_app(
    driver: Driver,
    *,
    config: DashboardConfig | None = None,
    authenticate: Authenticate | None = None,
    basic_auth: tuple[str, str] | None = None,
    htpasswd: Path | str | None = None,
    api_tokens: Path | str | None = None,
    no_auth: bool = False,
    hosts: frozenset[str] | None = None,
    close_driver: bool = False,
) -> Starlette:
    """The dashboard of one database, to be served alone or mounted anywhere (it needs no lifespan).

    Who may use it has to be said: `authenticate`, or `basic_auth` and `htpasswd`, or `no_auth`
    where the host app or the network already decides. `api_tokens` (lines as `riverui token` prints
    them, or the Path of a file of them) let in programs besides, or alone. `hosts` are the only
    host names answered to, when given. Where a lifespan does reach the app, its end stops what runs
    in the background, and closes the driver if `close_driver`. ConfigError tells what cannot be
    used.
    """
    sign_in = SignIn(
        authenticate=authenticate,
        basic_auth=basic_auth,
        htpasswd=htpasswd,
        api_tokens=api_tokens,
        no_auth=no_auth,
    )
    config = config or DashboardConfig()
    health, static = Health(driver), StaticFiles(assets.STATIC)
    routes = route_table(health, static)
    check_rights(routes, RIGHTS)
    counts = Counts(driver, config)
    metrics = Metrics(driver, counts, config)
    dashboard = Dashboard(
        config=config,
        counts=counts,
        driver=metrics.timed(driver),
        environment=render.environment(),
        metrics=metrics,
        operations=Operations(driver, config),
        rights=RIGHTS,
        searches=Searches(),
        signer=URLSafeTimedSerializer(
            config.secret_key or secrets.token_urlsafe(32), salt="riverui"
        ),
        static=static,
        suggestions=Suggestions(driver),
        urls=Urls(routes),
    )
    gate = Middleware(
        GateMiddleware,
        authenticate=sign_in.decider(),
        config=config,
        hosts=hosts,
        metrics=metrics,
        routes=routes,
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await dashboard.operations.close()
            await dashboard.counts.close()
            if close_driver:
                await driver.close()

    app = Starlette(
        routes=routes,
        middleware=[gate],
        exception_handlers={HTTPException: problems.answer},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # Starlette's redirect names the host; ours is a path
    app.router.default = not_found
    app.state.dashboard = dashboard
    return app


async def root(request: Request) -> Response:
    """The way in: the job list."""
    return RedirectResponse(url(request, "jobs.index"), status_code=302)


async def robots(request: Request) -> Response:
    """What crawlers are told: to stay away."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")
