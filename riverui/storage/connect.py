"""From a database URL, or the host app's pool, to a driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from riverui.errors import ConfigError
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.foreign_transactions import engine_of
from riverui.storage.postgres.pool import HostPool, OwnPool
from riverui.storage.postgres.sqlalchemy_engine import EngineDriver, SyncEngineDriver
from riverui.storage.postgres.statements import Watch
from riverui.storage.postgres.sync_driver import PostgresSyncDriver
from riverui.storage.sql import check_schema

_PGX = frozenset(
    {"default_query_exec_mode", "description_cache_capacity", "statement_cache_capacity"}
)
_ALCHEMY = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func"})
_MAX_SIZE = 64


def connect(
    url: str | None = None,
    *,
    schema: str | None = None,
    pool: AsyncConnectionPool[Any] | None = None,
    max_size: int = 4,
    connect_timeout: timedelta = timedelta(seconds=3),
    pool_timeout: timedelta = timedelta(seconds=3),
    page_timeout: timedelta = timedelta(seconds=3),
    action_timeout: timedelta = timedelta(seconds=10),
    lock_timeout: timedelta = timedelta(seconds=2),
    watch: Watch | None = None,
) -> PostgresDriver:
    """A driver that opens itself at first use; ConfigError for a URL, schema or pool that cannot
    work.

    Without a URL, libpq's `PG*` environment variables decide. pgx's URL parameters are understood:
    `pool_max_conns` sets `max_size`, its other `pool_*` and cache parameters are dropped, and what
    libpq does not know is sent as a server setting, as pgx does. SQLAlchemy's
    `postgresql+asyncpg://` and its like are taken as well. With `pool`, the host app's pool is used
    and never closed. `watch` is told of each statement before it runs.
    """
    lends: OwnPool | HostPool
    if pool is not None:
        if url is not None:
            raise ConfigError("Give either a database URL or a pool, not both.")
        if not isinstance(pool, AsyncConnectionPool):
            raise ConfigError("The pool must be a psycopg_pool.AsyncConnectionPool.")
        lends = HostPool(pool, timeout=pool_timeout.total_seconds())
    else:
        conninfo, wanted = _conninfo(url, connect_timeout)
        lends = OwnPool(conninfo, size=wanted or max_size, timeout=pool_timeout.total_seconds())
    return PostgresDriver(
        lends,
        schema=check_schema(schema),
        page_timeout=page_timeout,
        action_timeout=action_timeout,
        lock_timeout=lock_timeout,
        watch=watch,
    )


def connect_sync(
    url: str | None = None,
    *,
    schema: str | None = None,
    pool: ConnectionPool[Any] | None = None,
    max_size: int = 4,
    connect_timeout: timedelta = timedelta(seconds=3),
    pool_timeout: timedelta = timedelta(seconds=3),
    action_timeout: timedelta = timedelta(seconds=10),
    watch: Watch | None = None,
) -> PostgresSyncDriver:
    """The driver of the synchronous client, which only inserts; see `connect`.

    Nothing is connected before the first insert outside somebody's transaction: who only inserts
    inside needs neither URL nor pool.
    """
    if pool is not None and url is not None:
        raise ConfigError("Give either a database URL or a pool, not both.")
    if pool is not None and not isinstance(pool, ConnectionPool):
        raise ConfigError("The pool must be a psycopg_pool.ConnectionPool.")
    conninfo, wanted = ("", None) if pool is not None else _conninfo(url, connect_timeout)
    return PostgresSyncDriver(
        conninfo,
        schema=check_schema(schema),
        size=wanted or max_size,
        pool_timeout=pool_timeout,
        action_timeout=action_timeout,
        pool=pool,
        watch=watch,
    )


def connect_engine(engine: object, *, schema: str | None = None) -> EngineDriver | None:
    """A driver on SQLAlchemy's AsyncEngine or AsyncConnection, or on the official client's
    AsyncDriver.

    None where it is none of these; ConfigError for a synchronous one, and for another database or
    driver.
    """
    found = _engine(engine)
    if found is None:
        return None
    if not found[1]:
        raise ConfigError(
            "This engine is a synchronous one: give it to a SyncClient, or use an AsyncEngine."
        )
    return EngineDriver(found[0], connect(schema=schema))


def connect_engine_sync(engine: object, *, schema: str | None = None) -> SyncEngineDriver | None:
    """The same for an Engine or Connection, or the official client's Driver: see
    `connect_engine`.
    """
    found = _engine(engine)
    if found is None:
        return None
    if found[1]:
        raise ConfigError(
            "This engine is an asynchronous one: give it to a Client, or use an Engine."
        )
    return SyncEngineDriver(found[0], connect_sync(schema=schema))


def _engine(engine: object) -> tuple[Any, bool] | None:
    try:
        return engine_of(engine)
    except TypeError as error:
        raise ConfigError(str(error)) from None


def _conninfo(url: str | None, connect_timeout: timedelta) -> tuple[str, int | None]:
    parameters, wanted = parse_url(url or "")
    conninfo = make_conninfo(
        **{
            "fallback_application_name": "riverui",
            "client_encoding": "UTF8",
            "connect_timeout": str(max(2, round(connect_timeout.total_seconds()))),
            **parameters,
        }
    )
    return conninfo, wanted


def parse_url(url: str) -> tuple[Mapping[str, str], int | None]:
    """A URL or `key=value` line as libpq's parameters, and pgx's `pool_max_conns` if it is
    there.
    """
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    extra: dict[str, str] = {}
    url, is_asyncpg = _without_driver(url)
    if re.match(r"postgres(ql)?://", url):
        rest, _, query = url.partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError:
            raise ConfigError(
                "The database URL is not valid: check the part after the question mark."
            ) from None
        if is_asyncpg:
            pairs = [("sslmode" if key == "ssl" else key, value) for key, value in pairs]
        extra = {key: value for key, value in pairs if key not in known and key != "ssl"}
        kept = [(key, value) for key, value in pairs if key not in extra]
        url = f"{rest}?{urlencode(kept, quote_via=quote)}" if kept else rest
    elif "://" in url:
        raise ConfigError("The database URL must start with postgres:// or postgresql://.")
    else:
        pgx = r"\b(pool_\w+|" + "|".join(sorted(_PGX)) + r")\s*=\s*('(?:[^'\\]|\\.)*'|\S+)"
        extra = {match[1]: match[2].strip("'") for match in re.finditer(pgx, url)}
        url = re.sub(pgx, "", url)
    try:
        parameters = {
            key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None
        }
    except psycopg.Error:
        # libpq's own words would quote the line, and with it the password.
        raise ConfigError("The database URL is not valid.") from None
    size = _size(extra.pop("pool_max_conns", None))
    settings = [
        f"-c {key}=" + re.sub(r"[\\ ]", r"\\\g<0>", value)
        for key, value in extra.items()
        if not key.startswith("pool_") and key not in _PGX | _ALCHEMY
    ]
    if settings:
        parameters["options"] = " ".join(
            [parameters["options"], *settings] if "options" in parameters else settings
        )
    return parameters, size


def _without_driver(url: str) -> tuple[str, bool]:
    """SQLAlchemy's URL as other programs write it, and whether it was one for asyncpg, which says
    `ssl`.
    """
    found = re.match(r"(postgres(?:ql)?)\+(asyncpg|psycopg2?|psycopg_async)(?=://)", url)
    return (found[1] + url[found.end() :], found[2] == "asyncpg") if found else (url, False)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise ConfigError("pool_max_conns in the database URL must be a whole number above zero.")
    return min(int(text), _MAX_SIZE)
