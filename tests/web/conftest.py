"""A dashboard on a database of its own, and a browser for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from httpx2 import AsyncClient
from starlette.applications import Starlette

from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.rights import READ_ONLY, Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests.web.stand_ins import browser, dashboard


@pytest.fixture
def dashboard_limits() -> DashboardLimits:
    """Give the dashboard's limits; a test parametrizes them where it needs others."""
    return DashboardLimits()


@pytest.fixture
async def app(driver: Driver, dashboard_limits: DashboardLimits) -> AsyncIterator[Starlette]:
    """Yield the dashboard, open to everybody."""
    app = build_app(
        driver,
        SignIn(no_auth=True),
        pilot=plain_pilot(),
        options=AppOptions(limits=dashboard_limits),
    )
    # A test may put others in their place, and what had them before goes on with these.
    figures = app.state.dashboard.figures
    yield app
    await app.state.dashboard.close()
    await figures.close()


@pytest.fixture
async def client(app: Starlette) -> AsyncIterator[AsyncClient]:
    """Yield a browser without scripts."""
    async with browser(app) as client:
        yield client


@pytest.fixture
async def reader(driver: Driver) -> AsyncIterator[AsyncClient]:
    """Yield the browser of someone who may only look."""
    async with dashboard(driver, access=Access(user="ada", rights=READ_ONLY)) as client:
        yield client


@pytest.fixture
def htmx() -> Callable[..., dict[str, str]]:
    """Return the headers as htmx sends them: for which element, from which page."""

    def headers(target: str = "", current: str = "/jobs") -> dict[str, str]:
        found = {"HX-Request": "true", "HX-Current-URL": f"http://river.test{current}"}
        return found | ({"HX-Target": f"div#{target}"} if target else {})

    return headers
