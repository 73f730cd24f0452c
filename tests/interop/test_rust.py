"""River's client for Rust and riverui on one database, and on one SQLite file."""

from __future__ import annotations

import asyncio
import fcntl
import re
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import riverui
from riverui import Client, ClientConfig, InsertOpts, QueueConfig, UniqueOpts, Workers
from tests.interop.test_sqlite import Shared, SharedWorker, all_completed, leader_of
from tests.needs import need

_HERE = Path(__file__).parent
_TARGET = _HERE.parents[1] / ".cache" / "interop" / "rust"


@pytest.fixture(scope="session")
def program() -> Path:
    """Return the Rust program; skip the tests without cargo, or where its packages are missing."""
    cargo = need("cargo")
    _TARGET.mkdir(parents=True, exist_ok=True)
    with (_TARGET / "lock").open("w") as lock:  # several test processes may come here at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [cargo, "build", "--locked", "--quiet", "--target-dir", _TARGET],
            cwd=_HERE / "rust",
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        pytest.fail(f"cargo build of tests/interop/rust failed:\n{done.stderr}", pytrace=False)
    return _TARGET / "debug" / "riverui-test"


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a migrated database."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("database_url")
        # Rust reads no user without a host, as in the URL of a socket.
        return re.sub(r"//(\w+)@/(.*)", r"///\2&user=\1", url)
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    asyncio.run(riverui.migrate(riverui.connect(url)))
    return url


@asynccontextmanager
async def rust_works(program: Path, url: str) -> AsyncIterator[None]:
    """Let a Rust client called `rust` work jobs."""
    process = await asyncio.create_subprocess_exec(program, url, "work", "rust", stdin=PIPE)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


def client_of(url: str) -> Client:
    """Return our client."""
    workers = Workers()
    workers.add(SharedWorker())
    queues = {"default": QueueConfig(max_workers=10)}
    return Client(url, ClientConfig(id="python", queues=queues, workers=workers))


async def test_rust_inserts_and_we_work(program: Path, url: str) -> None:
    process = await asyncio.create_subprocess_exec(program, url, "insert", "5")
    assert await process.wait() == 0
    async with client_of(url) as client:
        rows = await all_completed(client, 5)
    assert [row.args_dict for row in rows] == [{"n": n} for n in range(5)]
    assert {row.attempted_by for row in rows} == {("python",)}


async def test_we_insert_and_rust_works(program: Path, url: str) -> None:
    client = client_of(url)
    async with rust_works(program, url):
        once = InsertOpts(unique_opts=UniqueOpts(by_args=True))
        assert not (await client.insert(Shared(3), once)).unique_skipped_as_duplicate
        assert (await client.insert(Shared(3), once)).unique_skipped_as_duplicate
        await client.insert(Shared(-1))
        rows = await all_completed(client, 2)
    assert [row.attempted_by for row in rows] == [("rust",), ("rust", "rust")]
    assert [error.error for error in rows[1].errors] == ["-1 is negative"]


async def test_both_work_at_once_and_the_leader_goes_from_one_to_the_other(
    program: Path, url: str
) -> None:
    client = client_of(url)
    async with rust_works(program, url):
        await leader_of(client, lambda name: name == "rust")
        async with client:
            await client.insert_many([Shared(n) for n in range(400)])
            rows = await all_completed(client, 400)
            assert {row.attempt for row in rows} == {1}
            assert {name for row in rows for name in row.attempted_by} == {"python", "rust"}
    async with client:
        await leader_of(client, lambda name: name == "python")
