"""A server of this folder's own, to be stopped and crashed, and clients on it in their own
processes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from tests.faults.server import Server
from tests.interop.worker import Peer, python_worker


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Yield a running server; each test leaves it running."""
    binaries = os.environ.get("RIVERUI_PG_BIN")
    with Server.started(Path(binaries) if binaries else None) as started:
        yield started


@pytest.fixture
async def database(server: Server) -> AsyncIterator[AsyncConnection[DictRow]]:
    """Yield a connection for looking on, to tables that are empty."""
    async with await AsyncConnection.connect(
        server.url, autocommit=True, row_factory=dict_row
    ) as connection:
        await connection.execute("truncate river_job, river_queue, river_leader")
        yield connection


class Begin:
    """Starts clients of ours; all end with the test."""

    def __init__(self, stack: AsyncExitStack, server: Server) -> None:
        self._stack = stack
        self._url = server.url

    async def __call__(self, *, start: bool = True, url: str | None = None, **config: Any) -> Peer:
        return await self._stack.enter_async_context(
            python_worker(url or self._url, start=start, **config)
        )


@pytest.fixture
async def begin(database: AsyncConnection[DictRow], server: Server) -> AsyncIterator[Begin]:
    """Yield what begins a client at work on the empty tables, told by keywords."""
    async with AsyncExitStack() as stack:
        yield Begin(stack, server)
