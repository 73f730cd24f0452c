"""Starlette with psycopg: one process serves the pages, works the jobs, and shows the dashboard."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

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


async def sign_up(request: Request) -> JSONResponse:
    # One transaction for the user and the job: both are there, or neither.
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "insert into users (name) values (%s) returning id", [request.path_params["name"]]
        )
        [user_id] = await cursor.fetchone() or [0]
        await welcome.insert_tx(river, connection, user_id=user_id)
    return JSONResponse({"id": user_id}, status_code=201)


async def show(request: Request) -> JSONResponse:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "select name, welcomed from users where id = %s", [request.path_params["id"]]
        )
        user = await cursor.fetchone()
    if user is None:
        raise HTTPException(404)
    return JSONResponse({"name": user[0], "welcomed": user[1]})


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with pool:
        async with pool.connection() as connection:
            await connection.execute(
                "create table if not exists users"
                " (id bigserial primary key, name text, welcomed boolean default false)"
            )
        async with river:
            yield


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/users/{name}", sign_up, methods=["POST"]),
        Route("/users/{id:int}", show),
        Mount("/riverui", riverui.create_app(river, basic_auth=("ops", "a long password"))),
    ],
)
