"""Other people's transactions, without asyncio: each kind that a SyncClient can work in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import psycopg2
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

Begin = Callable[[bool], AbstractContextManager[Any]]
"""Gives the transaction, and keeps or undoes it at the end."""


def _psycopg(url: str) -> Begin:
    @contextmanager
    def begin(keep: bool) -> Iterator[Any]:
        with psycopg.connect(url, row_factory=dict_row) as connection:
            yield connection
            connection.commit() if keep else connection.rollback()

    return begin


def _psycopg2(url: str) -> Begin:
    @contextmanager
    def begin(keep: bool) -> Iterator[Any]:
        connection = psycopg2.connect(url)
        yield connection
        connection.commit() if keep else connection.rollback()
        connection.close()

    return begin


def _alchemy(kind: str, dialect: str) -> Callable[[str], Begin]:
    def with_url(url: str) -> Begin:
        @contextmanager
        def begin(keep: bool) -> Iterator[Any]:
            engine = create_engine(url.replace("postgresql://", f"postgresql+{dialect}://", 1))
            if kind == "connection":
                with engine.connect() as connection:
                    yield connection
                    connection.commit() if keep else connection.rollback()
            elif kind == "session":
                with Session(engine) as session:
                    yield session
                    session.commit() if keep else session.rollback()
            else:
                scoped = scoped_session(sessionmaker(engine))
                yield scoped
                scoped.commit() if keep else scoped.rollback()
                scoped.remove()
            engine.dispose()

        return begin

    return with_url


def _django(url: str) -> Begin:
    from django.conf import settings
    from django.db import transaction
    from django.db.backends.postgresql.base import DatabaseWrapper

    if not settings.configured:
        settings.configure(USE_TZ=True)
    parts = conninfo_to_dict(url)
    wrapper = DatabaseWrapper(
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts["dbname"],
            "USER": parts.get("user", ""),
            "PASSWORD": parts.get("password", ""),
            "HOST": parts.get("host", ""),
            "PORT": parts.get("port", ""),
            "OPTIONS": {},
            "TIME_ZONE": None,
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": False,
            "AUTOCOMMIT": True,
            "ATOMIC_REQUESTS": False,
        },
        alias="elsewhere",
    )

    @contextmanager
    def begin(keep: bool) -> Iterator[Any]:
        from django.db import connections
        from django.utils.connection import ConnectionProxy

        connections["elsewhere"] = wrapper
        with transaction.atomic(using="elsewhere"):
            # As `django.db.connection` is one.
            yield ConnectionProxy(connections, "elsewhere")
            if not keep:
                transaction.set_rollback(True, using="elsewhere")
        wrapper.close()

    return begin


GUESTS = {
    "psycopg": _psycopg,
    "psycopg2": _psycopg2,
    "django": _django,
    **{
        f"sqlalchemy {kind} {dialect}": _alchemy(kind, dialect)
        for kind in ("connection", "session", "scoped session")
        for dialect in ("psycopg", "psycopg2")
    },
}
"""Each kind by its name: given a database's URL, what begins its transactions."""
