"""Drivers from URLs, the environment and pools."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from riverui.engine.args.job_args import JsonArgs
from riverui.engine.sync_client import SyncClient
from riverui.errors import ConfigError, DatabaseUnavailable
from riverui.storage.postgres.conninfo import parse_url, place
from riverui.storage.stores.server import ServerStore
from tests.drivers import connect
from tests.factory import Make
from tests.storage.conftest import one_page

URLS: list[tuple[str, dict[str, str], int | None]] = [
    (
        "postgres://u:p%40ss@h:1/d",
        {"user": "u", "password": "p@ss", "host": "h", "port": "1", "dbname": "d"},
        None,
    ),
    (
        "postgresql://h/d?sslmode=disable&pool_max_conns=7&pool_min_conns=1&pool_max_conn_lifetime=1h",
        {"host": "h", "dbname": "d", "sslmode": "disable"},
        7,
    ),
    (
        "postgresql:///d?host=/var/run&default_query_exec_mode=exec",
        {"dbname": "d", "host": "/var/run"},
        None,
    ),
    ("postgresql://h/d?pool_max_conns=100000", {"host": "h", "dbname": "d"}, 64),
    (
        "postgresql://h/d?search_path=jobs,public",
        {"host": "h", "dbname": "d", "options": "-c search_path=jobs,public"},
        None,
    ),
    (
        "postgresql://h/d?options=-c%20a%3D1&search_path=my%20jobs",
        {"host": "h", "dbname": "d", "options": "-c a=1 -c search_path=my\\ jobs"},
        None,
    ),
    (
        "host=h dbname=d pool_max_conns=3 password='a b'",
        {"host": "h", "dbname": "d", "password": "a b"},
        3,
    ),
    ("postgresql://[::1]:5432/d", {"host": "::1", "port": "5432", "dbname": "d"}, None),
    ("postgresql://a,b:1/d", {"host": "a,b", "port": ",1", "dbname": "d"}, None),
    ("", {}, None),
]


@pytest.mark.parametrize(("url", "expected", "size"), URLS)
def test_url(url: str, expected: dict[str, str], size: int | None) -> None:
    assert parse_url(url) == (expected, size)


@pytest.mark.parametrize(
    "url",
    ["mysql://u:hunter2@h/d", "postgres://u:hunter2%zz@h/d", "postgres://h/d?pool_max_conns=many&password=hunter2",
     "postgres://h/d?pool_max_conns=0", "postgres://h:hunter2/d?x", "hunter2", "postgres://h/d?a=%zz&&=",
     "postgres://u:hunter2@h/d?options"],
)  # fmt: skip
def test_url_that_cannot_be_read(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(url)
    assert "hunter2" not in str(caught.value)


def test_wrong_things(database_url: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        connect(database_url, schema='x"; drop table river_job; --')
    with pytest.raises(ConfigError, match="AsyncConnectionPool"):
        connect(pool=object())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="either"):
        connect(database_url, pool=object())  # type: ignore[arg-type]


async def test_environment(database_url: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await make.job()
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "dbname": "PGDATABASE",
        "password": "PGPASSWORD",
    }
    parts: dict[str, Any] = conninfo_to_dict(database_url)
    for part, name in names.items():
        if parts.get(part):
            monkeypatch.setenv(name, str(parts[part]))
    driver = connect()
    assert [row.id for row in (await one_page(driver)).rows] == [job_id]
    await driver.close()


async def test_search_path_in_the_url(database_url: str, make: Make) -> None:
    await make.connection.execute('create schema "my jobs"')
    for table in ("river_job", "river_queue"):
        await make.connection.execute(f'alter table {table} set schema "my jobs"'.encode())
    await make.connection.execute('alter type river_job_state set schema "my jobs"')
    job_id = await make.job_in('"my jobs"')
    mark = "&" if "?" in database_url else "?"
    driver = connect(database_url + mark + "search_path=" + quote('"my jobs"'))
    assert [row.id for row in (await one_page(driver)).rows] == [job_id]
    async with driver.reading() as executor:
        assert (await ServerStore(executor).server_get()).schema == "my jobs"
    await driver.close()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2", "psycopg_async"])
def test_a_url_of_sqlalchemy_is_taken_as_one_of_libpq(driver: str) -> None:
    url = f"postgresql+{driver}://ann:a%40b@db:5433/shop?prepared_statement_cache_size=0"
    assert parse_url(url) == (
        {"host": "db", "port": "5433", "user": "ann", "password": "a@b", "dbname": "shop"}, None
    )  # fmt: skip


def test_asyncpgs_word_for_tls_is_understood() -> None:
    assert parse_url("postgresql+asyncpg://db/shop?ssl=require")[0]["sslmode"] == "require"
    with pytest.raises(ConfigError, match="must start with postgres"):
        parse_url("mysql+asyncpg://db/shop")


async def test_an_unreachable_database_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = "postgresql://absent@127.0.0.1:1/none"
    river = SyncClient(away)
    with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        river.insert(JsonArgs("sort", {}))
    river.close()
    driver = connect(away)
    with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        await driver.ping()
    await driver.close()
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ops:secret@db:5433/shop?password=secret", "db:5433/shop"),
        ("host=db port=5433 user=ops password='se cret' dbname=shop", "db:5433/shop"),
        (
            "host=/run/postgresql dbname=shop password=secret pool_max_conns=4",
            "/run/postgresql/shop",
        ),
        ("postgres:///shop", "shop"),
        ("postgres://db", "db"),
        ("", ""),
    ],
)
def test_the_place_is_shown_without_its_password(url: str, shown: str) -> None:
    assert place(url) == shown
