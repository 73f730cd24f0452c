"""Quart with psycopg: one process serves the pages, works the jobs, and shows the dashboard."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from typing import Any

from hypercorn.middleware import DispatcherMiddleware
from psycopg_pool import AsyncConnectionPool
from quart import Quart, abort

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
quart = Quart(__name__)


@quart.post("/users/<name>")
async def sign_up(name: str) -> tuple[dict[str, int], int]:
    # One transaction for the user and the job: both are there, or neither.
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "insert into users (name) values (%s) returning id", [name]
        )
        [user_id] = await cursor.fetchone() or [0]
        await welcome.insert_tx(river, connection, user_id=user_id)
    return {"id": user_id}, 201


@quart.get("/users/<int:user_id>")
async def show(user_id: int) -> dict[str, object]:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "select name, welcomed from users where id = %s", [user_id]
        )
        user = await cursor.fetchone()
    if user is None:
        abort(404)
    return {"name": user[0], "welcomed": user[1]}


@quart.while_serving
async def lifespan() -> AsyncGenerator[None, None]:
    async with pool:
        async with pool.connection() as connection:
            await connection.execute(
                "create table if not exists users"
                " (id bigserial primary key, name text, welcomed boolean default false)"
            )
        async with river:
            yield


dashboard: Any = riverui.create_app(river, basic_auth=("ops", "a long password"))
app = DispatcherMiddleware({"/riverui": dashboard, "": quart})
