"""The drivers that the contract is held against. A new one is added to `driver` here."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from riverui.storage.interface import WorkingDriver
from tests.contract.bare import BareDriver
from tests.drivers import connect


@pytest.fixture(params=["postgres", "bare"])
async def driver(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[WorkingDriver]:
    """Each driver in turn, on a database with River's tables and nothing in them."""
    opened: WorkingDriver = connect(database_url)
    if request.param == "bare":
        opened = BareDriver(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def bare(database_url: str) -> AsyncIterator[BareDriver]:
    """Yield the driver without anything optional."""
    driver = BareDriver(connect(database_url))
    yield driver
    await driver.close()
