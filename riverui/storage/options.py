"""Options of a driver's connections."""

from __future__ import annotations

import re
from collections.abc import (
    Awaitable,
    Callable,
    Sequence,
)
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from riverui.errors import ConfigError

Watch = Callable[[str, str, Sequence[Any]], None]
"""Called before each statement with the block's name, the SQL as sent and its parameters."""

Password = Callable[[], str | Awaitable[str]]
"""Returns the password for a new connection."""

DASHBOARD_PREFIX = "riverui serve "
"""Prefix of the `application_name` of a dashboard's connections, before its own name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectOptions:
    """Options of `riverui.connect` besides the address, which every driver supports."""

    schema: str | None = None
    """The schema that holds River's tables; None leaves it to the search path."""
    max_size: int = 4
    """Most connections of a pool: a page needs one at a time, a client two besides its own."""
    connect_timeout: timedelta = timedelta(seconds=3)
    """For one connection attempt. A page should report soon that the database is missing."""
    pool_timeout: timedelta = timedelta(seconds=3)
    """For waiting until a connection of the pool is free."""
    page_timeout: timedelta = timedelta(seconds=3)
    """For each statement that only reads. A person does not wait longer for a page."""
    action_timeout: timedelta = timedelta(seconds=10)
    """For each statement that may write."""
    lock_timeout: timedelta = timedelta(seconds=2)
    """For waiting for a row that another transaction holds."""
    password: Password | None = None
    """Called for each new connection; None if the address has the password."""
    dashboard: str = ""
    """The name of a dashboard process, for others on the same database."""
    watch: Watch | None = None
    """Called before each statement."""


_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SCHEMA_LENGTH = 46
"""Most characters of a schema's name: what Postgres's 63 bytes for a channel name leave beside
River's longest topic.
"""


def check_schema(schema: str | None) -> str | None:
    """Return the schema name, None for the search path.

    ConfigError if River would reject the name.
    """
    if not schema:
        return None
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(
            "The schema name may hold only letters, digits and underscores, and must not start with"
            " a digit."
        )
    if len(schema) > _SCHEMA_LENGTH:
        raise ConfigError(f"The schema name may be at most {_SCHEMA_LENGTH} characters long.")
    return schema
