"""The drivers that the contract is held against. A new one is added to `driver` here."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from riverui.storage.interface import Driver, WorkingDriver
from riverui.testing.memory import MemoryDatabase
from tests import synchronous_drivers
from tests.contract.bare import BareDriver
from tests.drivers import connect


@pytest.fixture(params=["postgres", "bare", "memory", *synchronous_drivers.DRIVERS])
def driver_name(request: pytest.FixtureRequest) -> str:
    """Name each driver in turn."""
    return str(request.param)


@pytest.fixture
def driver_url(driver_name: str, request: pytest.FixtureRequest) -> str:
    """Return the address of a database with River's tables, empty for one in memory."""
    return "" if driver_name == "memory" else str(request.getfixturevalue("database_url"))


@pytest.fixture
async def driver(driver_name: str, driver_url: str) -> AsyncIterator[WorkingDriver]:
    """Each driver in turn, on a database with River's tables and nothing in them."""
    opened: WorkingDriver = connect(driver_url) if driver_url else MemoryDatabase()
    if driver_name == "bare":
        opened = BareDriver(opened)
    elif driver_name in synchronous_drivers.DRIVERS:
        opened = synchronous_drivers.DRIVERS[driver_name](driver_url)
    yield opened
    await opened.close()


@pytest.fixture
async def bare(database_url: str) -> AsyncIterator[BareDriver]:
    """Yield the driver without anything optional."""
    driver = BareDriver(connect(database_url))
    yield driver
    await driver.close()


@pytest.fixture(params=["bare", "memory"])
def plain(request: pytest.FixtureRequest) -> Driver:
    """Return each of the drivers that have little more than they must."""
    if request.param == "memory":
        return MemoryDatabase()
    bare: BareDriver = request.getfixturevalue("bare")
    return bare
