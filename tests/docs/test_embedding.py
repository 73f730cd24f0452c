"""The dashboard beside other frameworks, by the programs of docs/dashboard/embedding.md."""

from __future__ import annotations

import logging
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import httpx2
import pytest
from aiohttp import web
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import riverui
from tests.docs.programs import DOCS
from tests.test_together import OPS, serving, until

PAGE = (DOCS / "dashboard/embedding.md").read_text(encoding="utf-8")


def program(heading: str) -> str:
    """Return the program under a heading of the page."""
    part = PAGE.partition(f"## {heading}\n")[2]
    found = re.search(
        r"<!-- run by: tests/docs/test_embedding.py -->\n```python\n(.*?)```", part, re.S
    )
    assert found
    return found[1]


def run(code: str, monkeypatch: pytest.MonkeyPatch, database_url: str) -> ModuleType:
    """Run a program as a module of its own."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    module = ModuleType("documented")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "embedding.md", "exec"), module.__dict__)
    return module


async def check(app: Any) -> None:
    """Check that the app and the dashboard answer, the latter with and without a slash."""
    async with serving(app) as (browser, _):
        assert (await browser.get("/")).text == "the shop"
        for path in ("/riverui", "/riverui/", "/riverui/jobs"):
            page = await browser.get(path, auth=OPS, follow_redirects=True)
            assert page.status_code == 200, path
            assert 'href="/riverui/jobs"' in page.text
        assert (await browser.get("/riverui")).status_code == 401


async def test_in_quart(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    module = run(program("In Quart"), monkeypatch, database_url)
    begun: list[bool] = []
    module.app.before_serving(lambda: begun.append(True))
    await check(module.app)
    assert begun, "Quart was told of the start"


async def test_beside_any_other_app(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    begun: list[bool] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        begun.append(True)
        yield

    async def home(request: Request) -> Response:
        return PlainTextResponse("the shop")

    shop = ModuleType("shop")
    shop.other_app = Starlette(routes=[Route("/", home)], lifespan=lifespan)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", shop)
    module = run(program("Beside any other ASGI app"), monkeypatch, database_url)
    await check(module.app)
    assert begun


async def test_next_to_aiohttp(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = program("Next to aiohttp")
    assert "port=8080" in code
    module = run(code.replace("port=8080", f"port={port}"), monkeypatch, database_url)
    runner = web.AppRunner(module.app)
    await runner.setup()
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as browser:

            async def answers() -> bool:
                try:
                    return (await browser.get("/jobs", auth=OPS)).status_code == 200
                except httpx2.ConnectError:
                    return False

            await until(answers)
    finally:
        await runner.cleanup()


async def test_a_client_that_nobody_started_is_told_of_once(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    workers = riverui.Workers()

    @workers.task
    def nothing() -> None:
        """Do nothing."""

    queues = {"default": riverui.QueueConfig(max_workers=1)}
    client = riverui.Client(database_url, riverui.ClientConfig(queues=queues, workers=workers))
    inserting = riverui.Client(database_url)

    async def warned(given: riverui.Client) -> int:
        caplog.clear()
        app = Starlette(routes=[Mount("/riverui", riverui.create_app(given, no_auth=True))])
        transport = httpx2.ASGITransport(app)
        with caplog.at_level(logging.WARNING, "riverui"):
            async with httpx2.AsyncClient(transport=transport, base_url="http://t") as browser:
                for _ in range(2):
                    assert (await browser.get("/riverui/jobs")).status_code == 200
        return sum("was not started" in record.message for record in caplog.records)

    assert await warned(client) == 1
    assert await warned(inserting) == 0
    async with client:
        assert await warned(client) == 0
    await inserting.stop()
