"""Fixtures for pytest, enabled by `pytest_plugins = ["riverui.testing"]` in a conftest.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.sync_client import SyncClient
from riverui.storage.sqlite.driver import MemoryDatabase
from riverui.testing.transaction import rolled_back

__all__ = ["river", "river_config", "river_database", "sync_river"]


@pytest.fixture
def river_config() -> ClientConfig:
    """Return the configuration of the test's clients; override it."""
    return ClientConfig()


@pytest.fixture
def river_database(river_config: ClientConfig) -> Any:
    """Return the test's database, an empty one in memory; override it with a URL or pool to use
    Postgres.
    """
    return MemoryDatabase(schema=river_config.schema)


@pytest.fixture
def sync_river(river_database: Any, river_config: ClientConfig) -> Iterator[SyncClient]:
    """Yield a SyncClient of a database in memory, or in a transaction that is rolled back."""
    if isinstance(river_database, MemoryDatabase):
        yield SyncClient(river_database, river_config)
        return
    # Needs psycopg.
    from riverui.testing import sync

    with sync.rolled_back(river_database, river_config) as client:
        yield client


try:
    import pytest_asyncio
except ImportError:

    @pytest.fixture
    def river() -> None:
        """Fail with the name of the missing package."""
        pytest.fail("The fixture “river” needs pytest-asyncio: pip install pytest-asyncio.")

else:

    @pytest_asyncio.fixture
    async def river(  # type: ignore[misc]  # instead of the one above
        river_database: Any, river_config: ClientConfig
    ) -> AsyncIterator[Client]:
        """Yield a Client of a database in memory, or in a transaction that is rolled back."""
        if isinstance(river_database, MemoryDatabase):
            client = Client(river_database, river_config)
            yield client
            await client.stop()
            return
        async with rolled_back(river_database, river_config) as client:
            yield client
