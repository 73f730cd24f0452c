"""FastAPI with SQLAlchemy: one process serves the API, works the jobs, and shows the dashboard."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import riverui

DATABASE_URL = os.environ["DATABASE_URL"]
engine = create_async_engine("postgresql+psycopg://" + DATABASE_URL.partition("://")[2])
new_session = async_sessionmaker(engine, expire_on_commit=False)
workers = riverui.Workers()


class Base(DeclarativeBase): ...


class User(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    welcomed: Mapped[bool] = mapped_column(default=False)


@workers.task
async def welcome(user_id: int) -> None:
    async with new_session.begin() as session:
        user = await session.get_one(User, user_id)
        user.welcomed = True


river = riverui.Client(
    DATABASE_URL,
    riverui.ClientConfig(queues={"default": riverui.QueueConfig(max_workers=10)}, workers=workers),
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with river:
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
app.mount("/riverui", riverui.create_app(river, basic_auth=("ops", "a long password")))


@app.post("/users/{name}", status_code=201)
async def sign_up(name: str) -> dict[str, int]:
    # One transaction for the user and the job: both are there, or neither.
    async with new_session.begin() as session:
        user = User(name=name)
        session.add(user)
        await session.flush()
        await welcome.insert_tx(river, session, user_id=user.id)
    return {"id": user.id}


@app.get("/users/{id}")
async def show(id: int) -> dict[str, object]:
    async with new_session() as session:
        user = await session.get(User, id)
    if user is None:
        raise HTTPException(404)
    return {"name": user.name, "welcomed": user.welcomed}
