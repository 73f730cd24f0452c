"""Choose and create drivers. No other module of riverui imports one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from riverui.errors import ConfigError
from riverui.storage.interface import Driver, MigrationSource, SyncDriver
from riverui.storage.interface.migrations import MigrationTexts
from riverui.storage.options import ConnectOptions, Password, Watch, check_schema
from riverui.storage.postgres import connect as postgres, conninfo
from riverui.storage.postgres.admin.migrations import PostgresMigrationTexts
from riverui.storage.postgres.driver import MIGRATIONS
from riverui.storage.sqlite import connect as sqlite

if TYPE_CHECKING:
    import sqlite3

    from psycopg_pool import AsyncConnectionPool, ConnectionPool

_DEFAULTS = ConnectOptions()


def connect(
    url: str | None = None,
    *,
    schema: str | None = None,
    pool: AsyncConnectionPool[Any] | None = None,
    password: Password | None = None,
    max_size: int = _DEFAULTS.max_size,
    connect_timeout: timedelta = _DEFAULTS.connect_timeout,
    pool_timeout: timedelta = _DEFAULTS.pool_timeout,
    page_timeout: timedelta = _DEFAULTS.page_timeout,
    action_timeout: timedelta = _DEFAULTS.action_timeout,
    lock_timeout: timedelta = _DEFAULTS.lock_timeout,
    dashboard: str = "",
    watch: Watch | None = None,
) -> Driver:
    """Return a driver that opens itself at first use; ConfigError for a URL, schema or pool that
    cannot work.

    `sqlite:///jobs.db` is a SQLite file, `sqlite:////var/lib/jobs.db` one with a full path, and
    `sqlite://` a temporary database with River's tables. Everything else is Postgres. Without a
    URL, libpq's `PG*` environment variables decide. pgx's URL parameters are understood:
    `pool_max_conns` sets `max_size`, its other `pool_*` and cache parameters are dropped, and what
    libpq does not know is sent as a server setting, as pgx does. SQLAlchemy's
    `postgresql+asyncpg://` and its like are taken as well. With `pool`, the host app's pool is used
    and never closed. `password` is called for each new connection and returns what to sign in with,
    or an awaitable of it: for tokens that expire. `dashboard` names a process of `riverui serve`:
    others on the same database see it. `watch` is called with each statement before it runs.
    """
    options = ConnectOptions(
        schema=schema,
        password=password,
        max_size=max_size,
        connect_timeout=connect_timeout,
        pool_timeout=pool_timeout,
        page_timeout=page_timeout,
        action_timeout=action_timeout,
        lock_timeout=lock_timeout,
        dashboard=dashboard,
        watch=watch,
    )
    if sqlite.is_url(url) and pool is None:
        return sqlite.connect(url, options)
    return postgres.connect(url, pool, options)


def connect_sync(
    url: str | None = None,
    *,
    schema: str | None = None,
    pool: ConnectionPool[Any] | None = None,
    password: Password | None = None,
    max_size: int = _DEFAULTS.max_size,
    connect_timeout: timedelta = _DEFAULTS.connect_timeout,
    pool_timeout: timedelta = _DEFAULTS.pool_timeout,
    action_timeout: timedelta = _DEFAULTS.action_timeout,
    lock_timeout: timedelta = _DEFAULTS.lock_timeout,
    watch: Watch | None = None,
) -> SyncDriver:
    """Return the driver of the client without asyncio; see `connect`.

    It connects at the first call outside a caller's transaction: a program that only works inside
    its own transactions needs neither URL nor pool.
    """
    options = ConnectOptions(
        schema=schema,
        password=password,
        max_size=max_size,
        connect_timeout=connect_timeout,
        pool_timeout=pool_timeout,
        action_timeout=action_timeout,
        lock_timeout=lock_timeout,
        watch=watch,
    )
    if sqlite.is_url(url) and pool is None:
        return sqlite.connect(url, options).sync_driver
    return postgres.connect_sync(url, pool, options)


def driver_of(
    database: object, *, schema: str | None = None, options: ConnectOptions = _DEFAULTS
) -> tuple[Driver, bool]:
    """Return the driver for what a Client or a dashboard was given, and whether it is a new one.

    A URL, a pool, a SQLAlchemy engine, None for libpq's `PG*` variables, or a Driver, which is
    given back. ConfigError for anything else, and for a Driver with another schema.
    """
    options = replace(options, schema=schema)
    if sqlite.is_url(database):
        return sqlite.connect(database, options), True
    if database is None or isinstance(database, str):
        return postgres.connect(database, None, options), True
    if postgres.is_pool(database):
        return postgres.connect(None, database, options), True
    if hasattr(database, "capabilities") and not postgres.is_sync_driver(database):
        driver = cast("Driver", database)
        if schema is not None and schema != driver.schema:
            raise ConfigError("schema differs from the driver's: set it on the driver only.")
        return driver, False
    if found := postgres.connect_engine(database, options):
        return found, True
    raise ConfigError(
        f"{_name(database)} is not a database: give a URL, a psycopg_pool.AsyncConnectionPool, a"
        " SQLAlchemy AsyncEngine, or riverui.connect(…)."
    )


def sync_driver_of(database: object, *, schema: str | None = None) -> tuple[SyncDriver, bool]:
    """Return the driver for what a SyncClient was given, and whether it is a new one: see
    `driver_of`.
    """
    options = ConnectOptions(schema=schema)
    if sqlite.is_url(database):
        return sqlite.connect(database, options).sync_driver, True
    if database is None or isinstance(database, str):
        return postgres.connect_sync(database, None, options), True
    if postgres.is_sync_pool(database):
        return postgres.connect_sync(None, database, options), True
    if hasattr(database, "sync_driver"):
        return cast("SyncDriver", database.sync_driver), False
    if getattr(database, "is_synchronous", False):
        return cast("SyncDriver", database), False
    if found := postgres.connect_engine_sync(database, options):
        return found, True
    raise ConfigError(
        f"{_name(database)} is not a database: give a URL, a psycopg_pool.ConnectionPool or a"
        " SQLAlchemy Engine."
    )


def migrations(url: str | None = None) -> MigrationSource:
    """Return the migrations that `connect`'s driver for a URL runs, to be read without a
    database.
    """
    if sqlite.is_url(url):
        return sqlite.migrations()
    return MIGRATIONS


def migration_texts(url: str | None = None, *, schema: str | None = None) -> MigrationTexts:
    """Return River's record of migrations as SQL, for a program that runs it on its own connection;
    ConfigError for an invalid schema name.
    """
    if sqlite.is_url(url):
        return sqlite.migration_texts()
    return PostgresMigrationTexts(check_schema(schema))


def prepare_sqlite(connection: sqlite3.Connection) -> None:
    """Add the functions of River's SQL to a program's own connection: migrations and reads of JSON
    need them with a SQLite older than 3.45.
    """
    sqlite.prepare(connection)


def sqlite_json_text(column: str) -> str:
    """Return the SQL of a column of JSON or JSONB as text, for a prepared connection."""
    return sqlite.json_text(column)


def place(url: str) -> str:
    """Return the host, port and name of a URL's database, to be shown: no user, no password."""
    if sqlite.is_url(url):
        return url
    return conninfo.place(url)


def _name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
