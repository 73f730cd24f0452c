"""The health port of a worker process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from riverui.cli.serve.server import listen
from riverui.cli.worker.health import HEALTHY, Check, Metrics
from riverui.web.http.connections import server_config
from riverui.web.http.metrics import MEDIA

_GRACE_SECONDS = 1
"""Seconds for requests to end: a health check is answered at once."""


@asynccontextmanager
async def answering(
    check: Check, host: str, port: int, *, metrics: Metrics | None = None
) -> AsyncIterator[str]:
    """Answer health requests, and with `metrics` Prometheus, during the block; yield the address.

    Raise ListenError if the port is in use.
    """
    with listen(host, port) as sock:
        server = _Server(
            server_config(
                _app(check, metrics), lifespan="off", timeout_graceful_shutdown=_GRACE_SECONDS
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[sock]), name="riverui health")
        shown = f"[{host}]" if ":" in host else host
        try:
            yield f"http://{shown}:{sock.getsockname()[1]}/health"
        finally:
            server.should_exit = True
            await serving


def _app(check: Check, metrics: Metrics | None) -> Starlette:
    async def minimal(request: Request) -> Response:
        return _json({"status": "ok"})

    async def complete(request: Request) -> Response:
        health = await check()
        return _json(health, 200 if health["status"] in HEALTHY else 503)

    async def scraped(request: Request) -> Response:
        assert metrics is not None
        return Response(await metrics(), media_type=MEDIA, headers={"Cache-Control": "no-store"})

    async def rejected(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        there = "There are only /health and /metrics." if metrics else "There is only /health."
        words = there if error.status_code == 404 else "Only GET."
        return _json({"message": words}, error.status_code)

    return Starlette(
        routes=[
            Route("/health", complete),
            # `riverui healthcheck` asks at the addresses of the dashboard.
            Route("/api/health-checks/complete", complete),
            Route("/api/health-checks/minimal", minimal),
            *([Route("/metrics", scraped)] if metrics else []),
        ],
        exception_handlers={HTTPException: rejected},
    )


def _json(content: object, status: int = 200) -> Response:
    return JSONResponse(content, status_code=status, headers={"Cache-Control": "no-store"})


class _Server(uvicorn.Server):
    """Handles no signals: the worker does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
