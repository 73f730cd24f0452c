"""The drivers under test. A new one is added to `DRIVERS`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from riverui.storage.interface import WorkingDriver
from riverui.testing import MemoryDatabase
from tests import synchronous_drivers
from tests.drivers import connect
from tests.storage.conftest import SCHEMA, schema_database_url, schema_template

__all__ = ["schema_database_url", "schema_template"]

DRIVERS = ["postgres", "sqlite"]

with_synchronous = pytest.mark.parametrize("driver_name", [*DRIVERS, *synchronous_drivers.DRIVERS])
"""Run a test by the drivers without asyncio as well: their statements are the same, but how they
insert and what a transaction is are not.
"""


@pytest.fixture(params=DRIVERS)
def driver_name(request: pytest.FixtureRequest) -> str:
    """Name each driver in turn."""
    return str(request.param)


@pytest.fixture
def driver_url(driver_name: str, request: pytest.FixtureRequest) -> str:
    """Return the address of a database with River's tables, empty for SQLite. Postgres has
    them in a schema of another name, as that is what a statement easily forgets.
    """
    if driver_name == "sqlite":
        return ""
    name = "schema_database_url" if driver_name == "postgres" else "database_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
async def driver(driver_name: str, driver_url: str) -> AsyncIterator[WorkingDriver]:
    """Yield each driver in turn, on a database with empty River tables."""
    opened: WorkingDriver
    if driver_name in synchronous_drivers.DRIVERS:
        opened = synchronous_drivers.DRIVERS[driver_name](driver_url)
    else:
        opened = connect(driver_url, schema=SCHEMA) if driver_url else MemoryDatabase()
    yield opened
    await opened.close()
