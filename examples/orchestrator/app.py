"""The orchestrator as one ASGI app: API, workers, and the dashboard on a host name of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Host, Route

from examples.orchestrator.config import new_config
from examples.orchestrator.deps import Deps
from examples.orchestrator.fakes import FakeClassifier, FakeClickHouse, FakeEmbedder, FakeLiteLLM
from examples.orchestrator.ingest import IngestPool
from examples.orchestrator.jobs import UsageEvent
from examples.orchestrator.memory_workers import seed_centroids
from examples.orchestrator.publishers import UsagePublisher
from examples.orchestrator.repos import (
    CentroidRepo,
    DrawerRepo,
    GraphRepo,
    MessageRepo,
    PricingRepo,
    create_tables,
)
from riverui import Client, DashboardConfig, create_app, migrate

log = logging.getLogger(__name__)

HTPASSWD = Path(__file__).with_name("htpasswd")
"""User `ops`, password `river`."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What differs from one deployment to the next."""

    database_url: str
    dashboard_host: str = "river.localhost"
    htpasswd: Path = HTPASSWD
    soft_stop: timedelta = timedelta(seconds=20)
    hard_stop: timedelta = timedelta(seconds=10)
    classifier_seconds: float = 0.05


def orchestrator(settings: Settings) -> Starlette:
    """Return the whole process as one ASGI app. Nothing is connected before its lifespan begins."""
    deps = make_deps(settings)
    client = Client(deps.db, new_config(deps, soft_stop_timeout=settings.soft_stop))
    ingest = IngestPool(deps.drawers)
    dashboard = create_app(
        client, htpasswd=settings.htpasswd, config=DashboardConfig(env_name="example")
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with deps.db:
            await create_tables(deps.db)
            await migrate(client.driver)
            await client.start()
            await seed_centroids(deps)
            try:
                async with ingest:
                    yield
            finally:
                await shut_down(client, settings)

    app = Starlette(
        routes=[
            Host(settings.dashboard_host, app=dashboard),
            Route("/", about),
            Route("/chats/{chat}/messages", post_message, methods=["POST"]),
        ],
        lifespan=lifespan,
    )
    app.state.deps = deps
    app.state.ingest = ingest
    app.state.usage = UsagePublisher(client)
    return app


def make_deps(settings: Settings) -> Deps:
    """Return the real things, and stand-ins for what would need a network."""
    # The app's tables and River's live in one schema, in which the app's user finds them without a
    # prefix.
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        settings.database_url,
        kwargs={"options": "-c search_path=orchestrator"},
        min_size=2,
        max_size=10,
        open=False,
    )
    return Deps(
        db=pool,
        drawers=DrawerRepo(pool),
        graph=GraphRepo(pool),
        centroids=CentroidRepo(pool),
        messages=MessageRepo(pool),
        pricing=PricingRepo(pool),
        classifier=FakeClassifier(settings.classifier_seconds),
        embedder=FakeEmbedder(),
        price_list=FakeLiteLLM(),
        usage=FakeClickHouse(),
    )


async def shut_down(client: Client, settings: Settings) -> None:
    """In three phases: running jobs may end, then they are cancelled (both by `stop`), then we
    leave.
    """
    try:
        async with asyncio.timeout((settings.soft_stop + settings.hard_stop).total_seconds()):
            await client.stop()
    except TimeoutError:
        log.error("exiting with jobs still running: they will be rescued later")
        os._exit(1)


async def about(request: Request) -> Response:
    """Answer with what there is."""
    return JSONResponse({"post": "/chats/{chat}/messages", "dashboard": "on its own host name"})


async def post_message(request: Request) -> Response:
    """Store a message and what answering it has used: both, or neither."""
    state = request.app.state
    deps: Deps = state.deps
    chat = request.path_params["chat"]
    try:
        text = str((await request.json())["text"])
    except (ValueError, KeyError, TypeError):
        return JSONResponse({"error": 'send {"text": "…"}'}, status_code=422)
    usage = UsageEvent(
        event_id=str(uuid.uuid4()),
        workspace=chat,
        model="small-1",
        input_tokens=len(text.split()),
        output_tokens=12,
    )
    async with deps.db.connection() as connection, connection.transaction():
        message_id = await deps.messages.add(connection, chat, text, state="sent")
        job_id = await state.usage.publish(connection, usage)
    state.ingest.submit(chat, text)
    return JSONResponse({"message_id": message_id, "usage_job_id": job_id}, status_code=201)
