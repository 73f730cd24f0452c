"""Makes SQLite drivers from URLs; only then are they imported, as most programs use Postgres."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeGuard
from urllib.parse import unquote

from riverui.errors import ConfigError
from riverui.storage.options import ConnectOptions

if TYPE_CHECKING:
    import sqlite3

    from riverui.storage.interface import MigrationSource
    from riverui.storage.interface.migrations import MigrationTexts
    from riverui.storage.sqlite.driver import SqliteDriver

_LOCK_TIMEOUT = timedelta(seconds=10)
"""How long a transaction waits by default: for all that write, not only for those with its rows."""
_URL = re.compile(r"sqlite(?:\+\w+)?:(?://)?", re.IGNORECASE)
"""Matches the beginning of a URL; SQLAlchemy's may name the driver."""


def is_url(database: object) -> TypeGuard[str]:
    """Return whether this is the URL of a SQLite file."""
    return isinstance(database, str) and _URL.match(database) is not None


def connect(url: str, options: ConnectOptions) -> SqliteDriver:
    """Return a driver that opens the file at first use; ConfigError for a URL that cannot work."""
    from riverui.storage.sqlite.driver import SqliteDriver

    path = _URL.sub("", url, count=1)
    if "?" in path or "#" in path:
        raise ConfigError("A SQLite URL has no parameters: sqlite:///jobs.db.")
    if options.schema:
        raise ConfigError("SQLite has no schemas: leave the schema out.")
    # As in SQLAlchemy, the first slash only ends the empty host.
    path = unquote(path.removeprefix("/"))
    if options.lock_timeout == ConnectOptions().lock_timeout:
        options = replace(options, lock_timeout=_LOCK_TIMEOUT)
    return SqliteDriver(None if path in ("", ":memory:") else path, options)


def migrations() -> MigrationSource:
    """Return the migrations that the drivers run."""
    from riverui.storage.sqlite.migrations import SOURCE

    return SOURCE


def migration_texts() -> MigrationTexts:
    """Return the record of migrations as SQL."""
    from riverui.storage.sqlite.migrations import SqliteMigrationTexts

    return SqliteMigrationTexts()


def prepare(connection: sqlite3.Connection) -> None:
    """Add the functions of River's SQL to a program's own connection."""
    from riverui.storage.sqlite.file import Connection

    Connection(connection)


def json_text(column: str) -> str:
    """Return the SQL of a JSON column as text, on a prepared connection."""
    from riverui.storage.sqlite import file

    return file.json_text(column)
