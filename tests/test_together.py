"""Engine and dashboard in one ASGI app, as `docs/dashboard/embedding.md` tells it, served by a real
server.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import psycopg
import pytest
import uvicorn
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import riverui

DOCUMENT = Path(__file__).parents[1] / "docs/dashboard/embedding.md"
OPS = httpx2.BasicAuth("ops", "a long password")


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, uvicorn.Server]]:
    """Yield a browser for the app, and the uvicorn that serves it as anybody would."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        config = uvicorn.Config(
            app, lifespan="on", log_config=None, ws="none", timeout_graceful_shutdown=10
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            await until(lambda: server.started or task.done())
            async with httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", timeout=20
            ) as browser:
                yield browser, server
        finally:
            server.should_exit = True
            await task


async def until(happened: Callable[[], Any], *, seconds: float = 15) -> Any:
    """Return what it gives, or what its coroutine gives, once that is something."""
    deadline = time.monotonic() + seconds
    while True:
        found = happened()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


@pytest.fixture(params=["starlette", "fastapi"])
def app(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Return the document's own code."""
    part = DOCUMENT.read_text().partition("## With the workers in the same process")[2]
    starlette, fastapi = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    file = tmp_path / "documented.py"
    file.write_text(starlette if request.param == "starlette" else starlette + fastapi)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table users (id serial primary key, name varchar(20) not null)")
    monkeypatch.setenv("DATABASE_URL", database_url)
    spec = importlib.util.spec_from_file_location("documented", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "documented", module)
    spec.loader.exec_module(module)
    return module.app


async def test_a_request_inserts_a_job(app: Any, connection: AsyncConnection[DictRow]) -> None:
    async with serving(app) as (browser, _):
        answer = await browser.post("/users/ada")
        assert answer.status_code == 201

        async def completed() -> Any:
            rows = await connection.execute("select * from river_job where state = 'completed'")
            return await rows.fetchone()

        job = await until(completed)
        assert job["args"] == {"user_id": answer.json()["id"]}
        assert len(job["attempted_by"]) == 1

        assert (await browser.get("/riverui/jobs")).status_code == 401
        page = await browser.get("/riverui/jobs?state=completed", auth=OPS)
        assert page.status_code == 200
        assert "welcome" in page.text
        assert f'href="/riverui/jobs/{job["id"]}' in page.text
        assert (await browser.get(f"/riverui/jobs/{job['id']}", auth=OPS)).status_code == 200
        assert "default" in (await browser.get("/riverui/queues", auth=OPS)).text


async def test_failed_requests_leave_nothing(
    app: Any, connection: AsyncConnection[DictRow]
) -> None:
    async with serving(app) as (browser, _):
        assert (await browser.post(f"/users/{'a' * 30}")).status_code == 500
        assert (await browser.post("/users/ada")).status_code == 201
    rows = await connection.execute(
        "select (select count(*) from users) u, (select count(*) from river_job) j"
    )
    assert await rows.fetchone() == {"u": 1, "j": 1}


async def test_nothing_stays_open(app: Any, connection: AsyncConnection[DictRow]) -> None:
    async with serving(app) as (browser, _):
        await browser.post("/users/ada")
        await browser.get("/riverui/jobs", auth=OPS)

    async def alone() -> bool:
        rows = await connection.execute(
            "select from pg_stat_activity where datname = current_database() and pid <>"
            " pg_backend_pid()"
        )
        return rows.rowcount == 0

    await until(alone)


@dataclass
class Nap:
    """Takes a while."""

    kind: ClassVar[str] = "nap"


async def test_the_end_comes_in_order(
    database_url: str, connection: AsyncConnection[DictRow]
) -> None:
    """Requests under way end, then the jobs, then the pool closes; the app can use it until
    then.
    """
    happened: list[str] = []
    workers = riverui.Workers()
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(database_url, open=False)
    config = riverui.ClientConfig(
        queues={"default": riverui.QueueConfig(max_workers=2)}, workers=workers
    )
    client = riverui.Client(pool, config)
    begun = asyncio.Event()
    leave = asyncio.Event()

    @workers.work(Nap)
    async def nap(job: riverui.Job[Nap]) -> None:
        begun.set()
        await leave.wait()
        async with pool.connection() as borrowed:
            await borrowed.execute("select 1")
        happened.append("job")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pool:
            async with client:
                yield
            happened.append("client")
        happened.append("pool")

    async def slow(request: Request) -> Response:
        await client.insert(Nap())
        await begun.wait()
        asked.set()
        await asyncio.sleep(0.3)
        happened.append("request")
        asyncio.get_running_loop().call_later(0.3, leave.set)
        return PlainTextResponse("done")

    asked = asyncio.Event()
    dashboard = riverui.create_app(client, no_auth=True)
    app = Starlette(
        lifespan=lifespan, routes=[Route("/slow", slow), Mount("/riverui", app=dashboard)]
    )
    async with serving(app) as (browser, server):
        asking = asyncio.create_task(browser.get("/slow"))
        await asked.wait()
        server.should_exit = True
        assert (await asking).text == "done"
    assert happened == ["request", "job", "client", "pool"]
    row = await (await connection.execute("select state, attempt from river_job")).fetchone()
    assert row == {"state": "completed", "attempt": 1}
