"""Makes Postgres drivers from URLs, psycopg's pools and SQLAlchemy's engines."""

from __future__ import annotations

from typing import Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from riverui.errors import ConfigError
from riverui.storage.options import DASHBOARD_PREFIX, ConnectOptions, check_schema
from riverui.storage.postgres.conninfo import Address, conninfo
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.foreign_transactions import sqlalchemy_engine_of
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from riverui.storage.postgres.pool import HostPool, OwnPool
from riverui.storage.postgres.sqlalchemy_engine import EngineDriver, SyncEngineDriver
from riverui.storage.postgres.sync_driver import PostgresSyncDriver

_MAX_NAME = 63
"""Characters of an `application_name` that Postgres keeps."""
_ONE_OF_TWO = "Give either a database URL or a pool, not both."


def connect(
    url: str | None, pool: object, options: ConnectOptions, limits: PostgresLimits = LIMITS
) -> PostgresDriver:
    """Return a driver that opens itself at first use; ConfigError for a URL, schema or pool that
    cannot work.
    """
    lends: OwnPool | HostPool
    seconds = options.pool_timeout.total_seconds()
    if pool is None:
        name = f"{DASHBOARD_PREFIX}{options.dashboard}" if options.dashboard else "riverui"
        address, size = conninfo(
            url, options.connect_timeout, name=name[:_MAX_NAME], password=options.password
        )
        lends = OwnPool(address, size=size or options.max_size, timeout=seconds)
    elif url is not None:
        raise ConfigError(_ONE_OF_TWO)
    elif isinstance(pool, AsyncConnectionPool):
        lends = HostPool(pool, timeout=seconds)
    else:
        raise ConfigError("The pool must be a psycopg_pool.AsyncConnectionPool.")
    return PostgresDriver(
        lends,
        schema=check_schema(options.schema),
        page_timeout=options.page_timeout,
        action_timeout=options.action_timeout,
        lock_timeout=options.lock_timeout,
        watch=options.watch,
        limits=limits,
    )


def connect_sync(url: str | None, pool: object, options: ConnectOptions) -> PostgresSyncDriver:
    """Return a driver for the synchronous client; ConfigError as `connect`."""
    if pool is not None and url is not None:
        raise ConfigError(_ONE_OF_TWO)
    if pool is not None and not isinstance(pool, ConnectionPool):
        raise ConfigError("The pool must be a psycopg_pool.ConnectionPool.")
    address, size = Address(""), None
    if pool is None:
        address, size = conninfo(url, options.connect_timeout, password=options.password)
    return PostgresSyncDriver(
        address,
        schema=check_schema(options.schema),
        size=size or options.max_size,
        pool_timeout=options.pool_timeout,
        action_timeout=options.action_timeout,
        lock_timeout=options.lock_timeout,
        pool=pool,
        watch=options.watch,
    )


def is_pool(database: object) -> bool:
    """Return whether this is a pool that `connect` takes."""
    return isinstance(database, AsyncConnectionPool)


def is_sync_pool(database: object) -> bool:
    """Return whether this is a pool that `connect_sync` takes."""
    return isinstance(database, ConnectionPool)


def is_sync_driver(database: object) -> bool:
    """Return whether this is a driver of `connect_sync`, which blocks its caller."""
    return isinstance(database, PostgresSyncDriver)


def connect_engine(engine: object, options: ConnectOptions) -> EngineDriver | None:
    """Return a driver on SQLAlchemy's AsyncEngine or AsyncConnection, or on the official client's
    AsyncDriver.

    None if it is none of these; ConfigError for a synchronous one, and for another database or
    driver.
    """
    found = _engine(engine)
    if found is None:
        return None
    if not found[1]:
        raise ConfigError(
            "This engine is a synchronous one: give it to a SyncClient, or use an AsyncEngine."
        )
    return EngineDriver(found[0], connect(None, None, options))


def connect_engine_sync(engine: object, options: ConnectOptions) -> SyncEngineDriver | None:
    """Return the same for an Engine or Connection, or the official client's Driver: see
    `connect_engine`.
    """
    found = _engine(engine)
    if found is None:
        return None
    if found[1]:
        raise ConfigError(
            "This engine is an asynchronous one: give it to a Client, or use an Engine."
        )
    return SyncEngineDriver(found[0], connect_sync(None, None, options))


def _engine(engine: object) -> tuple[Any, bool] | None:
    try:
        return sqlalchemy_engine_of(engine)
    except TypeError as error:
        raise ConfigError(str(error)) from None
