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

from riverui.errors import ConfigError
from riverui.storage.interface import Driver
from riverui.web import assets
from riverui.web.api import routes as api
from riverui.web.auth.access import (
    PUBLIC,
    SIGNED_IN,
    Authenticate,
    BasicAuth,
    Credentials,
    SingleUser,
    everybody,
)
from riverui.web.auth.htpasswd import HtpasswdFile
from riverui.web.auth.tokens import TokenAuth, Tokens
from riverui.web.config import DashboardConfig
from riverui.web.http import problems
from riverui.web.http.context import Dashboard
from riverui.web.http.gate import Door
from riverui.web.http.health import Health
from riverui.web.http.routes import Entry, lost
from riverui.web.http.static import StaticFiles
from riverui.web.http.urls import Urls, url
from riverui.web.live.counts import Counts
from riverui.web.live.metrics import Metrics
from riverui.web.live.operations import Operations
from riverui.web.search.long_searches import Searches
from riverui.web.search.suggestions import Suggestions
from riverui.web.sections.about import pages as about
from riverui.web.sections.jobs import bulk, index as jobs, search, show as job, suggest
from riverui.web.sections.operations import pages as operations
from riverui.web.sections.queues import pages as queues
from riverui.web.sections.river_ui import pages as river_ui
from riverui.web.view import render


def route_table(health: Health, static: StaticFiles) -> tuple[Entry, ...]:
    """Every address there is, the right that it needs, and what answers."""
    return (
        Entry("GET", "/", "root", SIGNED_IN, root),
        Entry("GET", "/robots.txt", "robots", PUBLIC, robots),
        Entry("GET", "/jobs", "jobs.index", "jobs.read", jobs.index),
        Entry("GET", "/jobs/", "river_ui.jobs", "jobs.read", river_ui.jobs),
        Entry("POST", "/jobs/cancel", "jobs.cancel", "jobs.cancel", jobs.cancel),
        Entry("POST", "/jobs/delete", "jobs.delete", "jobs.delete", jobs.delete),
        Entry("POST", "/jobs/retry", "jobs.retry", "jobs.retry", jobs.retry),
        Entry("GET", "/jobs/bulk", "jobs.bulk", "jobs.read", bulk.index),
        Entry("POST", "/jobs/bulk/cancel", "jobs.bulk_cancel", "jobs.cancel", bulk.cancel),
        Entry("POST", "/jobs/bulk/delete", "jobs.bulk_delete", "jobs.delete", bulk.delete),
        Entry("POST", "/jobs/bulk/retry", "jobs.bulk_retry", "jobs.retry", bulk.retry),
        Entry("GET", "/jobs/search", "jobs.search", "jobs.read", search.step),
        Entry("GET", "/jobs/{id:int}", "jobs.show", "jobs.read", job.show),
        Entry("GET", "/jobs/{id:int}/log/{attempt}", "jobs.log", "jobs.read", job.log),
        Entry("GET", "/jobs/{id:int}/raw/{field}", "jobs.raw", "jobs.read", job.raw),
        Entry("GET", "/queues", "queues.index", "queues.read", queues.index),
        Entry("POST", "/queues/pause", "queues.pause", "queues.pause", queues.pause),
        Entry("POST", "/queues/resume", "queues.resume", "queues.pause", queues.resume),
        Entry("GET", "/queues/{name:path}", "queues.show", "queues.read", queues.show),
        Entry("GET", "/operations", "operations.index", "jobs.read", operations.index),
        Entry("GET", "/operations/{id}", "operations.show", "jobs.read", operations.show),
        Entry("POST", "/operations/{id}/stop", "operations.stop", "jobs.read", operations.stop),
        Entry("GET", "/suggest", "suggest", "jobs.read", suggest.index),
        Entry("GET", "/about", "about", "about.read", about.index),
        Entry(
            "GET", "/periodic-jobs", "river_ui.periodic_jobs", "jobs.read", river_ui.periodic_jobs
        ),
        Entry("GET", "/settings", "river_ui.settings", SIGNED_IN, river_ui.settings),
        Entry("GET", "/workflows", "river_ui.workflows", "jobs.read", river_ui.workflows),
        Entry("GET", "/workflows/{id:path}", "river_ui.workflow", "jobs.read", river_ui.workflow),
        Entry("GET", "/help", "help", SIGNED_IN, about.help),
        Entry("POST", "/preferences", "preferences", SIGNED_IN, about.preferences),
        Entry("GET", "/static/{hash}/{path:path}", "static", PUBLIC, static.show),
        Entry("GET", "/api/health-checks/{name}", "health", PUBLIC, health.show),
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
    config = config or DashboardConfig()
    health, static = Health(driver), StaticFiles(assets.STATIC)
    routes = route_table(health, static)
    counts = Counts(driver, config)
    metrics = Metrics(driver, counts, config)
    dashboard = Dashboard(
        config=config,
        counts=counts,
        driver=metrics.timed(driver),
        environment=render.environment(),
        metrics=metrics,
        operations=Operations(driver, config),
        searches=Searches(),
        signer=URLSafeTimedSerializer(
            config.secret_key or secrets.token_urlsafe(32), salt="riverui"
        ),
        static=static,
        suggestions=Suggestions(driver),
        urls=Urls(routes),
    )
    door = Middleware(
        Door,
        authenticate=_authenticate(authenticate, basic_auth, htpasswd, api_tokens, no_auth=no_auth),
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
        middleware=[door],
        exception_handlers={HTTPException: problems.answer},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # Starlette's redirect names the host; ours is a path
    app.router.default = lost
    app.state.dashboard = dashboard
    return app


async def root(request: Request) -> Response:
    """The way in: the job list."""
    return RedirectResponse(url(request, "jobs.index"), status_code=302)


async def robots(request: Request) -> Response:
    """What crawlers are told: to stay away."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


def _authenticate(
    authenticate: Authenticate | None,
    basic_auth: tuple[str, str] | None,
    htpasswd: Path | str | None,
    api_tokens: Path | str | None,
    *,
    no_auth: bool,
) -> Authenticate:
    person = _person(authenticate, basic_auth, htpasswd, no_auth=no_auth)
    if api_tokens is not None:
        return TokenAuth(Tokens(api_tokens), person)
    if person is None:
        raise ConfigError(
            "say who may use the dashboard: authenticate=…, basic_auth=…, htpasswd=…, api_tokens=…,"
            " or no_auth=True where the host app already decides"
        )
    return person


def _person(
    authenticate: Authenticate | None,
    basic_auth: tuple[str, str] | None,
    htpasswd: Path | str | None,
    *,
    no_auth: bool,
) -> Authenticate | None:
    lists: list[Credentials] = []
    if basic_auth is not None:
        if not all(basic_auth):
            raise ConfigError("basic_auth needs both a user name and a password")
        lists.append(SingleUser(*basic_auth))
    if htpasswd is not None:
        lists.append(HtpasswdFile(Path(htpasswd)))
    if (authenticate is not None) + bool(lists) + no_auth > 1:
        raise ConfigError(
            "authenticate, no_auth, and basic_auth or htpasswd exclude each other: choose one"
        )
    if authenticate is not None:
        return authenticate
    if lists:
        return BasicAuth(*lists)
    return everybody if no_auth else None
