"""Litestar with psycopg: one process serves the API, works the jobs, and shows the dashboard."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, asgi, get, post
from litestar.exceptions import NotFoundException
from litestar.types import Receive, Scope, Send
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
dashboard = riverui.create_app(river, basic_auth=("ops", "a long password"))


@asgi("/riverui", is_mount=True, copy_scope=True)
async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
    await dashboard(scope, receive, send)  # type: ignore[arg-type]  # types of its own for ASGI


@post("/users/{name:str}")
async def sign_up(name: str) -> dict[str, int]:
    # One transaction for the user and the job: both are there, or neither.
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "insert into users (name) values (%s) returning id", [name]
        )
        [user_id] = await cursor.fetchone() or [0]
        await welcome.insert_tx(river, connection, user_id=user_id)
    return {"id": user_id}


@get("/users/{user_id:int}")
async def show(user_id: int) -> dict[str, object]:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "select name, welcomed from users where id = %s", [user_id]
        )
        user = await cursor.fetchone()
    if user is None:
        raise NotFoundException
    return {"name": user[0], "welcomed": user[1]}


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    async with pool:
        async with pool.connection() as connection:
            await connection.execute(
                "create table if not exists users"
                " (id bigserial primary key, name text, welcomed boolean default false)"
            )
        async with river:
            yield


app = Litestar([mounted, sign_up, show], lifespan=[lifespan])
