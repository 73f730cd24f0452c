"""Go River and riverui on one SQLite file: the same schema, and the same jobs, also at once."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import riverui
from riverui import Client, ClientConfig, InsertOpts, Job, QueueConfig, UniqueOpts, Worker, Workers
from riverui.domain.jobs import JobRow, JobState
from tests.interop.worker import built

Go = Callable[..., Coroutine[Any, Any, None]]

_PATIENCE = 60
"""Seconds until a program must have done its work on a busy machine."""


@dataclass
class Shared:
    """The args of the jobs that both sides work."""

    kind: ClassVar[str] = "shared"
    n: int


class SharedWorker(Worker[Shared]):
    async def work(self, job: Job[Shared]) -> None:
        if job.args.n < 0 and job.attempt == 1:
            raise ValueError(job.args.n)


@pytest.fixture(scope="session")
def program() -> Path:
    """Return the Go program."""
    return built("sqlite")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of the test's jobs, which does not exist yet."""
    return tmp_path / "jobs.db"


@pytest.fixture
def go(program: Path, file: Path) -> Go:
    """Return how to run a command of the Go program on that file."""

    async def run(*command: object) -> None:
        process = await asyncio.create_subprocess_exec(program, file, *map(str, command))
        assert await process.wait() == 0, command

    return run


@asynccontextmanager
async def go_works(program: Path, file: Path) -> AsyncIterator[Process]:
    """Let a Go client work jobs."""
    process = await asyncio.create_subprocess_exec(
        program, file, "work", "10", stdin=PIPE, stdout=PIPE
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def client_of(file: Path) -> Client:
    """Return our client."""
    workers = Workers()
    workers.add(SharedWorker())
    queues = {"default": QueueConfig(max_workers=10)}
    return Client(f"sqlite:///{file}", ClientConfig(queues=queues, workers=workers))


def schema_of(file: Path) -> dict[str, str]:
    """Return the definitions of all tables and indexes by name, without comments and layout."""
    with sqlite3.connect(file) as connection:
        rows = connection.execute("select name, sql from sqlite_master where sql is not null")
        return {
            name: re.sub(r"[\s\"]+", "", re.sub(r"--[^\n]*", "", sql)).lower() for name, sql in rows
        }


async def rows_of(client: Client) -> list[JobRow]:
    """Return all jobs."""
    return list((await client.job_list(riverui.JobListParams(first=10_000))).jobs)


async def all_completed(client: Client, count: int) -> list[JobRow]:
    """Return the jobs, once all of them are completed."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            rows = await rows_of(client)
            if sum(row.state is JobState.COMPLETED for row in rows) == count:
                return rows
            await asyncio.sleep(0.05)


async def test_the_schema_is_the_same(go: Go, file: Path, tmp_path: Path) -> None:
    await go("migrate")
    ours = tmp_path / "ours.db"
    await riverui.migrate(riverui.connect(f"sqlite:///{ours}"))
    assert schema_of(ours) == schema_of(file)
    assert await riverui.migrate(riverui.connect(f"sqlite:///{file}")) == []


async def test_go_inserts_and_we_work(go: Go, file: Path) -> None:
    client = client_of(file)
    await riverui.migrate(client.driver)
    await go("insert", 5)
    await go("insert_many", 5)
    async with client:
        rows = await all_completed(client, 10)
    assert [row.args_dict for row in rows] == [{"n": n} for n in range(5)] * 2
    for row in rows:
        assert row.tags == ("from-go",)
        assert row.metadata_dict["by"] == 'gö"\n'


async def test_we_insert_and_go_works(go: Go, program: Path, file: Path) -> None:
    await go("migrate")
    client = client_of(file)
    async with go_works(program, file):
        soon = InsertOpts(tags=["from-python"], metadata={"by": 'pÿ"\n'})
        await client.insert_many([Shared(1), Shared(2)])
        await client.insert(Shared(-1), soon)
        once = InsertOpts(unique_opts=UniqueOpts(by_args=True))
        assert not (await client.insert(Shared(3), once)).unique_skipped_as_duplicate
        assert (await client.insert(Shared(3), once)).unique_skipped_as_duplicate
        rows = await all_completed(client, 4)
    failed = rows[2]
    assert (failed.attempt, failed.tags) == (2, ("from-python",))
    assert [error.error for error in failed.errors] == ["-1 is negative"]
    assert len(failed.attempted_by) == 2
    assert failed.metadata_dict["by"] == 'pÿ"\n'


async def test_both_work_at_once(program: Path, file: Path) -> None:
    client = client_of(file)
    await riverui.migrate(client.driver)
    await client.insert_many([Shared(n) for n in range(600)])
    async with go_works(program, file) as process, client:
        for n in range(200):
            await client.insert(Shared(n))
        rows = await all_completed(client, 800)
        # A pause by one is heard by the other.
        await client.queue_pause("default")
        # Nothing tells when Go has read that, which it does every 50 ms.
        await asyncio.sleep(0.5)
        paused = await client.insert(Shared(1))
        await asyncio.sleep(0.5)
        assert (await client.job_get(paused.job.id)).state is JobState.AVAILABLE
        await client.queue_resume("default")
        await all_completed(client, 801)
    # Each was worked once, and both had their share.
    assert {row.attempt for row in rows} == {1}
    by = {name for row in rows for name in row.attempted_by}
    assert len(by) == 2, by
    assert process.returncode == 0


async def test_the_leader_goes_from_one_to_the_other(go: Go, program: Path, file: Path) -> None:
    await go("migrate")
    client = client_of(file)
    async with go_works(program, file):
        await leader_of(client, lambda name: name is not None)
    async with client:
        await leader_of(client, lambda name: name == client.id)


async def leader_of(client: Client, fits: Callable[[str | None], bool]) -> None:
    """Wait until the leader is one that fits."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            async with client.driver.reading() as executor:
                row = await executor.leader.get()
            if fits(row.leader_id if row else None):
                return
            await asyncio.sleep(0.05)
