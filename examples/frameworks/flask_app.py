"""Flask with SQLAlchemy: the app inserts jobs and shows the dashboard; a process of its own works
them.
"""

from __future__ import annotations

import os

from flask import Flask, abort
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import riverui
from riverui.contrib.wsgi import wsgi

DATABASE_URL = os.environ["DATABASE_URL"]
engine = create_engine("postgresql+psycopg://" + DATABASE_URL.partition("://")[2])
new_session = sessionmaker(engine, expire_on_commit=False)
workers = riverui.Workers()


class Base(DeclarativeBase): ...


class User(Base):
    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    welcomed: Mapped[bool] = mapped_column(default=False)


@workers.task
def welcome(user_id: int) -> None:
    with new_session.begin() as session:
        session.get_one(User, user_id).welcomed = True


river = riverui.SyncClient(engine)
"""Inserts jobs, in Flask's threads."""
worker = riverui.Client(
    DATABASE_URL,
    riverui.ClientConfig(queues={"default": riverui.QueueConfig(max_workers=10)}, workers=workers),
)
"""Works them: `riverui worker examples.frameworks.flask_app:worker`."""

dashboard = riverui.create_app(DATABASE_URL, basic_auth=("ops", "a long password"))
app = Flask(__name__)
app.wsgi_app = DispatcherMiddleware(  # type: ignore[method-assign]  # as Flask has it done
    app.wsgi_app, {"/riverui": wsgi(dashboard)}
)
Base.metadata.create_all(engine)


@app.post("/users/<name>")
def sign_up(name: str) -> tuple[dict[str, int], int]:
    # One transaction for the user and the job: both are there, or neither.
    with new_session.begin() as session:
        user = User(name=name)
        session.add(user)
        session.flush()
        welcome.insert_tx(river, session, user_id=user.id)
    return {"id": user.id}, 201


@app.get("/users/<int:user_id>")
def show(user_id: int) -> dict[str, object]:
    with new_session() as session:
        user = session.get(User, user_id)
    if user is None:
        abort(404)
    return {"name": user.name, "welcomed": user.welcomed}
