"""The Go programs, built once, and riverui's app on the same database as they."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from riverui import create_app
from riverui.storage.interface import Driver
from tests.interop.worker import Peer, built, go_worker, python_worker

# Its pages are no part of this repository: whoever has built them says where they are.
collect_ignore = [] if os.environ.get("RIVER_UI_SOURCE") else ["test_front_end.py"]

StartWorker = Callable[..., AbstractAsyncContextManager[Peer]]


@pytest.fixture(scope="session")
def river_cli() -> Path:
    """Return the real `river` command."""
    return built("river")


@pytest.fixture(scope="session")
def river_worker() -> Path:
    """Return the program behind `start_worker`."""
    return built("worker")


@pytest.fixture
def start_worker(river_worker: Path, database_url: str) -> StartWorker:
    """Return what starts a Go client on this test's database: given flags, and `start` to work
    jobs.
    """

    def begin(*flags: str, start: bool = True, **config: Any) -> AbstractAsyncContextManager[Peer]:
        return go_worker(river_worker, database_url, *flags, start=start, **config)

    return begin


@pytest.fixture
def start_python(database_url: str) -> StartWorker:
    """Start our client on this test's database, in a process of its own, told as Go's is."""

    def begin(*, start: bool = True, **config: Any) -> AbstractAsyncContextManager[Peer]:
        return python_worker(database_url, start=start, **config)

    return begin


@asynccontextmanager
async def page_on(driver: Driver) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a browser's stand-in on riverui's app; posts come from the same origin."""
    app = create_app(driver, no_auth=True)
    transport = httpx2.ASGITransport(app)
    headers = {"Sec-Fetch-Site": "same-origin"}
    try:
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://test", headers=headers
        ) as client:
            yield client
    finally:
        # What it has begun to read would outlive the test.
        await app.state.dashboard.close()


@pytest.fixture
async def page(driver: Driver) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield the app on this test's database."""
    async with page_on(driver) as client:
        yield client
