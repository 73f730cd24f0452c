"""The dashboard as an ASGI app, assembled from its sections."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

from itsdangerous import URLSafeTimedSerializer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from riverui.actions.pilot import JobPilot
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.reader.totals import EndedTotals
from riverui.storage.interface import Driver
from riverui.web.api import routes as api
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http import health, problems, static
from riverui.web.http.context import PUBLIC, AppOptions, Dashboard, Sections, Service
from riverui.web.http.counts import Counts
from riverui.web.http.gate import ADMISSION, REFRESHES, GateMiddleware
from riverui.web.http.metrics import MeasuredDriver, Metrics
from riverui.web.http.own_changes import OwnChanges
from riverui.web.http.own_table import OwnTableWatch
from riverui.web.http.read_replica import ReadReplica
from riverui.web.http.routes import GuardedRoute, GuardedRouter, guarded, not_found
from riverui.web.limits import DashboardLimits
from riverui.web.process_name import process_name
from riverui.web.sections import SECTIONS
from riverui.web.view import render

_WRITER = Service(make=lambda board: board.figures, start=FigureReader.watch)
"""Stores figures in the background. It is closed with `Dashboard.figures`."""
SERVICES: tuple[Service[Any], ...] = (
    ADMISSION,
    REFRESHES,
    health.PROBE,
    static.STATIC,
    render.TEMPLATES,
    _WRITER,
)
"""Services that belong to no section."""


def build_app(
    driver: Driver,
    sign_in: SignIn,
    config: DashboardConfig | None = None,
    *,
    pilot: JobPilot,
    options: AppOptions | None = None,
) -> Starlette:
    """Return the dashboard of one database, to be served alone or mounted in another app.

    It needs no lifespan; if the server runs one, its end stops the background tasks. `pilot`
    carries out the verbs on jobs: a client's, or `plain_pilot()`. Raise ConfigError if `sign_in`
    admits no one or is invalid.
    """
    options = options or AppOptions()
    board = make_dashboard(driver, config or DashboardConfig(), pilot, options)
    for service in (*SERVICES, *board.sections.services):
        board.get(service)
    routes, authenticate = route_table(board.sections), sign_in.decider()
    gate = Middleware(GateMiddleware, board, routes, authenticate=authenticate, options=options)
    middleware = [gate]
    if board.replica is not None:
        middleware.insert(0, Middleware(OwnChanges, replica=board.replica, signer=board.signer))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        board.start()
        try:
            yield
        finally:
            await board.close()
            if options.close_driver:
                await driver.close()
            if options.standby is not None and options.close_standby:
                await options.standby.close()

    app = Starlette(middleware=middleware, exception_handlers={HTTPException: problems.answer})
    # Starlette's redirect of slashes names the host; not_found redirects to a path.
    app.router = GuardedRouter(routes, default=not_found, lifespan=lifespan, redirect_slashes=False)
    app.state.dashboard = board
    return app


def make_dashboard(
    driver: Driver, config: DashboardConfig, pilot: JobPilot, options: AppOptions
) -> Dashboard:
    """Return the state of a dashboard, without its services."""
    clock, limits = options.clock, options.limits or DashboardLimits()
    replica, reads, steady = None, driver, driver
    if options.standby is not None:
        replica = ReadReplica(driver, options.standby, limits.replica_times, clock=clock)
        reads, steady = cast("Driver", replica), replica.steady
    counts, ended = Counts(reads, config, limits.counts, clock=clock), EndedTotals()
    figures = FigureReader(
        steady,
        config,
        limits.figures,
        primary=driver,
        totals=ended,
        lag=timedelta if replica is None else replica.figure_lag,
        clock=clock,
    )
    metrics = Metrics(reads, counts, config, ended, figures.collector.look, replica)
    return Dashboard(
        clock=clock,
        config=config,
        counts=counts,
        driver=MeasuredDriver(reads, metrics.transacted),
        figures=figures,
        inserter=options.inserter,
        limits=limits,
        metrics=metrics,
        name=options.name or process_name(),
        own_tables=OwnTableWatch(reads, clock=clock),
        pilot=pilot,
        primary=driver,
        reads=reads,
        replica=replica,
        sections=options.sections or SECTIONS,
        signer=URLSafeTimedSerializer(config.secret_key or secrets.token_urlsafe(32), "riverui"),
        workers=options.workers,
    )


def route_table(sections: Sections = SECTIONS) -> tuple[GuardedRoute, ...]:
    """Return all routes in the order in which they are matched. Raise ValueError for one that needs
    a right that no section declares.
    """
    table = (
        GuardedRoute("GET", "/robots.txt", "robots", PUBLIC, robots),
        *(route for section in sections for route in section.routes),
        GuardedRoute("GET", "/static/{hash}/{path:river_rest}", "static", PUBLIC, static.show),
        # The API reference lists endpoints in this order.
        *api.ROUTES,
        *(route for section in sections for route in section.api),
    )
    return guarded(table, sections.rights)


async def robots(request: Request) -> Response:
    """Ask crawlers to stay away."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")
