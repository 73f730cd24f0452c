"""The app: webhook, progress, cancel, retry, the dashboard, and the workers in one process."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from examples.documents.config import Settings
from examples.documents.stand_ins import sample_files
from examples.documents.uploads import Uploads
from examples.documents.workers import Deps, new_config
from riverui import Client, create_app, migrate
from riverui.errors import NotFound, WorkflowActive


def documents(settings: Settings) -> Starlette:
    """Return a replica as one ASGI app. It connects when its lifespan begins."""
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        settings.database_url,
        kwargs={"autocommit": True, "options": "-c search_path=documents"},
        min_size=2,
        max_size=20,
        open=False,
    )
    uploads = Uploads(pool)
    client = Client(pool, new_config(Deps(uploads, settings)))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pool:
            await uploads.create_tables()
            # River's tables, then riverui's own for workflows, limits, heartbeats and the rest.
            await migrate(client.driver)
            await migrate(client.driver, line="riverui")
            async with client:
                if settings.first_files:
                    files = sample_files(settings.first_files)
                    await uploads.add(client, "first", "acme", files, settings.embedding)
                yield

    app = Starlette(
        routes=[
            Route("/uploads", post_upload, methods=["POST"]),
            Route("/uploads/{upload}", progress),
            Route("/uploads/{upload}", cancel, methods=["DELETE"]),
            Route("/uploads/{upload}/events", events),
            Route("/uploads/{upload}/retry", retry, methods=["POST"]),
            Mount("/riverui", create_app(client, basic_auth=("ops", "river"))),
        ],
        lifespan=lifespan,
    )
    app.state.client = client
    app.state.settings = settings
    app.state.uploads = uploads
    return app


async def post_upload(request: Request) -> Response:
    """Accept the files of a signed webhook: `{"id", "customer", "files": [{"name", "text"}]}`."""
    state, body = request.app.state, await request.body()
    signature = "sha256=" + sign(body, state.settings.webhook_secret)
    if not hmac.compare_digest(signature, request.headers.get("x-signature", "")):
        raise HTTPException(401, "the signature is wrong")
    try:
        given = json.loads(body)
        upload, customer = str(given["id"])[:100], str(given["customer"])[:100]
        files = [(str(file["name"])[:200], str(file["text"])) for file in given["files"]]
        if not upload or "/" in upload or b"\\u0000" in body:
            raise ValueError("an id without slashes, and texts that Postgres can hold")
    except (ValueError, KeyError, TypeError) as error:
        raise HTTPException(422, 'send {"id", "customer", "files": [{"name", "text"}]}') from error
    await state.uploads.add(state.client, upload, customer, files, state.settings.embedding)
    where = str(request.url_for("progress", upload=upload))
    # A repeated call gets the same answer: the first one may have been lost.
    return JSONResponse({"upload": upload, "files": len(files), "progress": where}, 202)


def sign(body: bytes, secret: str) -> str:
    """Return the signature of a webhook's body."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def progress(request: Request) -> Response:
    """Return the progress of an upload."""
    return JSONResponse(await _progress(request))


async def events(request: Request) -> Response:
    """Send the progress of an upload as server-sent events whenever it changes, until its end.

    It is read from the database, so any replica can answer.
    """
    await _progress(request)

    async def changes() -> AsyncIterator[str]:
        sent: dict[str, Any] = {}
        while not sent.get("finished"):
            if (now := await _progress(request)) != sent:
                sent = now
                yield f"data: {json.dumps(now)}\n\n"
            await asyncio.sleep(1)

    return StreamingResponse(changes(), media_type="text/event-stream")


async def cancel(request: Request) -> Response:
    """Cancel the files of an upload that have not ended, and the pages that they wait for."""
    state = request.app.state
    with _errors():
        workflow = await state.uploads.workflow(request.path_params["upload"])
        await state.client.workflows.cancel(workflow)
    return JSONResponse(await _progress(request), 202)


async def retry(request: Request) -> Response:
    """Retry the files of an upload that failed or were cancelled."""
    state = request.app.state
    with _errors():
        workflow = await state.uploads.workflow(request.path_params["upload"])
        await state.client.workflows.retry(workflow, "failed_and_downstream")
    return JSONResponse(await _progress(request), 202)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise HTTPException(404, "there is no such upload") from error
    except WorkflowActive as error:
        raise HTTPException(409, "the upload has not ended yet: cancel it, or wait") from error


async def _progress(request: Request) -> dict[str, Any]:
    uploads: Uploads = request.app.state.uploads
    found = await uploads.progress(request.path_params["upload"])
    if found is None:
        raise HTTPException(404, "there is no such upload")
    return found
