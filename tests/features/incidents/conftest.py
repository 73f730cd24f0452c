"""Dashboards that watch one database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from riverui.actions.new_jobs import LateInserter
from riverui.cli.serve.dashboard import inserter
from riverui.engine.feature_list import plain_pilot
from riverui.features.incidents.watch import INCIDENTS, IncidentTimes, IncidentWatch
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions, Dashboard
from riverui.web.limits import DashboardLimits

Watches = Callable[..., IncidentWatch]


@pytest.fixture
async def watches(driver: Driver) -> AsyncIterator[Watches]:
    """Make the watch of another dashboard each time that it is called; each look reads anew."""
    boards: list[Dashboard] = []

    def begin(
        through: Driver | None = None, times: IncidentTimes | None = None, **config: Any
    ) -> IncidentWatch:
        app = build_app(
            through or driver,
            SignIn(no_auth=True),
            DashboardConfig(**config),
            pilot=plain_pilot(),
            options=AppOptions(
                inserter=LateInserter(lambda: inserter(driver)),
                limits=DashboardLimits(health_seconds=0.0, features=(times or IncidentTimes(),)),
                name=f"dashboard {len(boards)}",
            ),
        )
        board: Dashboard = app.state.dashboard
        boards.append(board)
        return board.get(INCIDENTS)

    yield begin
    for board in boards:
        await board.close()
