"""Fixtures of tests that run on Postgres and on a SQLite file, with riverui's tables on both."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.sqlite.file import Connection
from riverui.storage.sqlite.migrations import create_tables
from riverui.storage.sqlite.values import stamp
from tests.factory import Make, job_columns

_JSON = frozenset({"args", "attempted_by", "errors", "metadata", "tags"})


class SqliteMake:
    """Writes rows to River's tables in a SQLite file, without the code under test."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def job(self, state: str = "available", **columns: Any) -> int:
        """Insert a job and return its id; see factory.job."""
        row = job_columns(state, **columns)
        places = ", ".join("jsonb(?)" if name in _JSON else "?" for name in row)
        statement = f"insert into river_job ({', '.join(row)}) values ({places}) returning id"
        values = [_value(name, value) for name, value in row.items()]
        return int(self._connection.execute(statement, values)[0][0])

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        rows, names = self._connection.described(query, {})
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def states(self) -> dict[int, str]:
        """Return the state of each job, by id."""
        return dict(self._connection.execute("select id, state from river_job order by id"))

    async def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Run a statement with psycopg's placeholders."""
        self._connection.execute(
            statement.replace("%s", "?"), [_value("", value) for value in values]
        )


def _value(name: str, value: Any) -> Any:
    if name in _JSON and value is not None and not isinstance(value, str):
        return json.dumps(value)
    if name == "unique_states" and isinstance(value, str):
        return int(value, 2)
    return stamp(value) if isinstance(value, datetime) else value


postgres_only = pytest.mark.parametrize("database", ["postgres"], indirect=True)
"""Runs a test on Postgres alone."""


@pytest.fixture(params=["postgres", "sqlite"])
def database(request: pytest.FixtureRequest) -> str:
    """Name each database in turn."""
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a SQLite file with all tables."""
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        create_tables(Connection(raw).raw)
    return path


@pytest.fixture
def driver_url(database: str, own_tables: None, request: pytest.FixtureRequest) -> str:
    """Return the URL of each database in turn."""
    if database == "postgres":
        return str(request.getfixturevalue("database_url"))
    return f"sqlite:///{request.getfixturevalue('file')}"


@pytest.fixture
async def driver(driver_url: str) -> AsyncIterator[Driver]:
    """Yield a driver on each database in turn."""
    opened = connect(driver_url)
    yield opened
    await opened.close()


@pytest.fixture
def make(database: str, request: pytest.FixtureRequest) -> Iterator[Make | SqliteMake]:
    """Yield what writes rows to the database."""
    if database == "postgres":
        yield Make(request.getfixturevalue("connection"))
        return
    with closing(sqlite3.connect(request.getfixturevalue("file"), isolation_level=None)) as raw:
        yield SqliteMake(Connection(raw))
