"""Fixtures for isolated jobs: clients with few processes, and files to synchronize with jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.engine.client import Client
from riverui.engine.work.processes.job_processes import JobProcesses
from tests.engine.conftest import Playground
from tests.engine.processes import jobs
from tests.engine.processes.jobs import Act


class IsolatedPlayground(Playground):
    """A client whose jobs run in processes of their own."""

    folder: Path

    async def start(self, **settings: Any) -> Client:
        """Start and return a client, by default with one process."""
        return await super().start(**{"isolation_processes": 1, **settings})

    def isolated(self, **settings: Any) -> None:
        """Register `jobs.act` with these settings."""
        self.workers.work(Act, isolation="process", **settings)(jobs.act)

    async def act(self, what: str, value: Any = None, **columns: Any) -> int:
        """Insert a job that calls a function of `jobs`, and return its id."""
        args = {"what": what, "folder": str(self.folder), "value": value}
        return await self.insert(Act(**args), **columns)

    async def acted(self, what: str, value: Any = None, **columns: Any) -> DictRow:
        """Return a job's row after one attempt."""
        if not self.workers.kinds:
            self.isolated()
        if not self._clients:
            await self.start()
        job_id = await self.act(what, value, **columns)
        await self.event(job_id)
        return await self.row(job_id)

    async def noted(self, name: str) -> Any:
        """Return what a job has noted, once it has."""
        path = self.folder / name
        await self.until(path.exists)
        return json.loads(path.read_text())

    def release(self, name: str) -> None:
        """Release jobs that wait for this."""
        (self.folder / name).touch()

    @property
    def processes(self) -> JobProcesses:
        """Those of the client started last."""
        runtime = self.client.runtime
        assert runtime is not None
        return runtime.runner.processes()


@pytest.fixture
async def apart(
    connection: AsyncConnection[DictRow], database_url: str, tmp_path: Path
) -> AsyncIterator[IsolatedPlayground]:
    """Yield a client to play with, whose jobs are isolated."""
    playground = IsolatedPlayground(connection, database_url)
    playground.folder = tmp_path
    yield playground
    await playground.close()
