"""aiohttp with psycopg: one process serves the pages, works the jobs, and shows the dashboard on a
port of its own, as aiohttp does not speak ASGI.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import uvicorn
from aiohttp import web
from psycopg_pool import AsyncConnectionPool

import riverui

pool = AsyncConnectionPool(os.environ["DATABASE_URL"], open=False)
workers = riverui.Workers()


@workers.task
async def welcome(user_id: int) -> None:
    async with pool.connection() as connection:
        await connection.execute("update users set welcomed = true where id = %s", [user_id])


river = riverui.Client(
    pool,
    riverui.ClientConfig(queues={"default": riverui.QueueConfig(max_workers=10)}, workers=workers),
)


async def sign_up(request: web.Request) -> web.Response:
    # One transaction for the user and the job: both are there, or neither.
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "insert into users (name) values (%s) returning id", [request.match_info["name"]]
        )
        [user_id] = await cursor.fetchone() or [0]
        await welcome.insert_tx(river, connection, user_id=user_id)
    return web.json_response({"id": user_id}, status=201)


async def show(request: web.Request) -> web.Response:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "select name, welcomed from users where id = %s", [int(request.match_info["id"])]
        )
        user = await cursor.fetchone()
    if user is None:
        raise web.HTTPNotFound
    return web.json_response({"name": user[0], "welcomed": user[1]})


async def jobs(app: web.Application) -> AsyncIterator[None]:
    async with pool:
        async with pool.connection() as connection:
            await connection.execute(
                "create table if not exists users"
                " (id bigserial primary key, name text, welcomed boolean default false)"
            )
        async with river:
            yield


class Server(uvicorn.Server):
    """Leaves the signals to aiohttp."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def dashboard(app: web.Application) -> AsyncIterator[None]:
    pages = riverui.create_app(river, basic_auth=("ops", "a long password"))
    server = Server(uvicorn.Config(pages, port=int(os.environ.get("DASHBOARD_PORT", "8080"))))
    serving = asyncio.create_task(server.serve())
    yield
    server.should_exit = True
    await serving


app = web.Application()
app.add_routes([web.post("/users/{name}", sign_up), web.get(r"/users/{id:\d+}", show)])
app.cleanup_ctx.extend([jobs, dashboard])

if __name__ == "__main__":
    web.run_app(app, port=int(os.environ.get("PORT", "8000")))
