"""The dashboard as an ASGI app, put together from its sections."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import cast

from itsdangerous import URLSafeTimedSerializer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from riverui.actions.health import health_report
from riverui.actions.new_jobs import JobInserter
from riverui.actions.pilot import JobPilot
from riverui.errors import DatabaseError
from riverui.features.error_groups.reader import ErrorGroups
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.reader.totals import EndedTotals
from riverui.features.marks.reader import Marks
from riverui.features.operations.runner import Operations
from riverui.features.workflows.waits.expressions import Expressions
from riverui.storage.interface import Driver
from riverui.web import assets
from riverui.web.api import routes as api
from riverui.web.api.time_limits import ApiTimeLimits
from riverui.web.auth.access import PUBLIC
from riverui.web.auth.rights import RIGHTS
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http import problems
from riverui.web.http.admission import Admission
from riverui.web.http.context import Dashboard
from riverui.web.http.cookies import preferences_reader
from riverui.web.http.gate import GateMiddleware
from riverui.web.http.health import HealthChecks
from riverui.web.http.own_changes import OwnChanges
from riverui.web.http.paths import Urls
from riverui.web.http.probe import Probe
from riverui.web.http.routes import GuardedRoute, GuardedRouter, check_rights, not_found
from riverui.web.http.static import StaticFiles
from riverui.web.limits import DashboardLimits
from riverui.web.live.counts import Counts
from riverui.web.live.kept_reading import KeptReading
from riverui.web.live.measured_driver import MeasuredDriver
from riverui.web.live.metrics import Metrics
from riverui.web.live.own_table import OwnTableWatch
from riverui.web.live.periodic_runs import read_histories
from riverui.web.live.read_replica import ReadReplica
from riverui.web.live.refreshes import Refreshes
from riverui.web.process_name import process_name
from riverui.web.search.long_searches import Searches
from riverui.web.search.suggestions import Suggestions
from riverui.web.sections import JOB_CARDS, SECTIONS, TEMPLATE_GLOBALS
from riverui.web.view import render
from riverui.web.view.kept_parts import KeptParts
from riverui.web.view.navigation import Shortcut


def route_table(health: HealthChecks, static: StaticFiles) -> tuple[GuardedRoute, ...]:
    """Return every address there is, in the order in which they are tried. Raises ValueError where
    one needs a right that no section brings.
    """
    table = (
        GuardedRoute("GET", "/robots.txt", "robots", PUBLIC, robots),
        *(route for section in SECTIONS for route in section.routes),
        GuardedRoute("GET", "/static/{hash}/{path:river_rest}", "static", PUBLIC, static.show),
        # The reference of the API tells its addresses in this order.
        api.health(health.show),
        *api.ROUTES,
        *(route for section in SECTIONS for route in section.api),
    )
    check_rights(table, RIGHTS)
    return table


def build_app(
    driver: Driver,
    sign_in: SignIn,
    config: DashboardConfig | None = None,
    *,
    hosts: frozenset[str] | None = None,
    close_driver: bool = False,
    standby: Driver | None = None,
    close_standby: bool = False,
    inserter: JobInserter | None = None,
    pilot: JobPilot,
    first_request: Callable[[], None] | None = None,
    limits: DashboardLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
    name: str = "",
    standalone: bool = False,
    workers: int = 1,
) -> Starlette:
    """Return the dashboard of one database, to be served alone or mounted anywhere (it needs no
    lifespan).

    `hosts` are the only host names answered to, when given. Where a lifespan does reach the app,
    its end stops what runs in the background, and closes the driver if `close_driver`. What pages
    show is read from `standby` where there is one (`close_standby` closes it too). `inserter`
    inserts jobs; without one nobody can. `pilot` carries out the verbs on jobs: a client's, or
    `plain_pilot()`. `first_request` is called at the first request. `clock` returns seconds, for
    the age of counts, figures and live regions. `name` is that of this process, by which other
    dashboards of the database know it, `standalone` says that `riverui serve` runs it, and
    `workers` how many answer on the same port. Raises ConfigError for a `sign_in` that lets nobody
    in or cannot be used.
    """
    config, limits = config or DashboardConfig(), limits or DashboardLimits()
    name = name or process_name()
    health = HealthChecks(Probe(driver, timeout=limits.probe_seconds))
    static = StaticFiles(assets.STATIC)
    routes = route_table(health, static)
    replica = None
    reads = steady = driver
    if standby is not None:
        replica = ReadReplica(driver, standby, limits.replica_times, clock=clock)
        reads, steady = cast("Driver", replica), replica.steady
    counts = Counts(reads, config, limits.counts, clock=clock)
    ended = EndedTotals()
    figures = FigureReader(
        steady,
        config,
        limits.figures,
        primary=driver,
        totals=ended,
        lag=timedelta if replica is None else replica.figure_lag,
        clock=clock,
    )
    marks = Marks(reads, clock=clock)
    metrics = Metrics(reads, counts, config, ended, figures.collector.look, replica)
    signer = URLSafeTimedSerializer(config.secret_key or secrets.token_urlsafe(32), salt="riverui")
    dashboard = Dashboard(
        admission=Admission(limits.admission),
        api_time_limits=ApiTimeLimits(config, long_lists=limits.long_api_lists),
        config=config,
        counts=counts,
        driver=MeasuredDriver(reads, metrics.transacted),
        environment=render.environment(TEMPLATE_GLOBALS),
        error_groups=ErrorGroups(reads, config, limits.errors, clock=clock),
        expressions=Expressions(),
        figures=figures,
        health=KeptReading(
            partial(health_report, driver, figures, usual=figures, marks=marks),
            seconds=limits.health_seconds,
            clock=clock,
        ),
        job_cards=JOB_CARDS,
        limits=limits,
        marks=marks,
        metrics=metrics,
        name=name,
        inserter=inserter,
        navigation={item.name: item.navigation for item in SECTIONS if item.navigation},
        operations=Operations(driver, config, name=name, pilot=pilot, limits=limits.operations),
        own_tables=OwnTableWatch(reads, clock=clock),
        parts=KeptParts(),
        periodic=KeptReading(
            partial(read_histories, reads), seconds=limits.periodic_seconds, clock=clock
        ),
        pilot=pilot,
        read_preferences=preferences_reader(signer),
        refreshes=Refreshes(limits.refreshes, clock=clock),
        replica=replica,
        rights=RIGHTS,
        searches=Searches(),
        shortcuts=tuple(_shortcuts()),
        signer=signer,
        static=static,
        suggestions=Suggestions(reads),
        urls=Urls(routes),
        workers=workers,
    )
    gate = Middleware(
        GateMiddleware,
        admission=dashboard.admission,
        answer_seconds=max(limits.answer_seconds, 2 * config.page_timeout.total_seconds()),
        authenticate=sign_in.decider(),
        config=config,
        first_request=first_request,
        hosts=hosts,
        metrics=metrics,
        refreshes=dashboard.refreshes,
        routes=routes,
        standalone=standalone,
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        dashboard.operations.watch()
        figures.watch()
        loading = asyncio.create_task(render.load_templates(dashboard.environment))
        asking = asyncio.create_task(_ask_tables(dashboard))
        try:
            yield
        finally:
            loading.cancel()
            asking.cancel()
            await dashboard.close()
            if close_driver:
                await driver.close()
            if standby is not None and close_standby:
                await standby.close()

    before = [Middleware(OwnChanges, replica=replica, signer=signer)] if replica else []
    app = Starlette(middleware=[*before, gate], exception_handlers={HTTPException: problems.answer})
    app.router = GuardedRouter(
        routes,
        default=not_found,
        lifespan=lifespan,
        redirect_slashes=False,  # Starlette's redirect names the host; ours is a path
    )
    app.state.dashboard = dashboard
    return app


async def _ask_tables(dashboard: Dashboard) -> None:
    """Ask whether the tables of riverui are there, for the navigation, until there is an answer."""
    while True:
        try:
            await dashboard.own_tables.there()
            return
        except DatabaseError:
            await asyncio.sleep(dashboard.limits.tables_seconds)


async def robots(request: Request) -> Response:
    """Tell crawlers to stay away."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


def _shortcuts() -> Iterator[Shortcut]:
    """Yield the lines of the help page: each section's own, then the keys that lead to it."""
    for section in SECTIONS:
        yield from section.shortcuts
        if section.navigation and section.navigation.keys:
            entry = section.navigation
            yield Shortcut(keys=tuple(entry.keys.split()), does=entry.label.lower())
