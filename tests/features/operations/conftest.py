"""Dashboards of one database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from riverui.engine.feature_list import plain_pilot
from riverui.features.operations.run import OperationLimits
from riverui.features.operations.runner import Operations
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.operations import without_tables
from tests.web.api.conftest import api
from tests.web.conftest import app, client, dashboard_limits, htmx, reader

__all__ = ["api", "app", "client", "dashboard_limits", "htmx", "reader"]

Begin = Callable[..., Operations]
QUICK: dict[str, Any] = {
    "pause": timedelta(0),
    "term": timedelta(seconds=1),
    "renew": timedelta(milliseconds=200),
    "look": timedelta(milliseconds=50),
    "table_check": timedelta(0),
}


@pytest.fixture(params=["table", "process"])
def kept(request: pytest.FixtureRequest) -> str:
    """Return where operations are kept."""
    return str(request.param)


@pytest.fixture
def driver(driver: Driver, own_tables: None) -> Driver:
    """Return a driver of a database with riverui's own tables."""
    return driver


@pytest.fixture
def keeping(driver: Driver, kept: str) -> Driver:
    """Return a driver that keeps operations there."""
    return driver if kept == "table" else without_tables(driver)


@pytest.fixture
async def dashboards(driver: Driver) -> AsyncIterator[Begin]:
    """Make the operations of another dashboard each time that it is called."""
    made: list[Operations] = []

    def begin(
        through: Any = None,
        *,
        name: str = "",
        config: DashboardConfig | None = None,
        limits: dict[str, Any] | None = None,
        **options: Any,
    ) -> Operations:
        made.append(
            Operations(
                through or driver,
                config or DashboardConfig(),
                name=name or f"dashboard {len(made) + 1}",
                limits=OperationLimits(**QUICK | (limits or {})),
                **{"pilot": plain_pilot(), **options},
            )
        )
        return made[-1]

    yield begin
    for operations in made:
        await operations.close()
