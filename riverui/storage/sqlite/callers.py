"""Find the connection of a transaction that the host program has begun."""

from __future__ import annotations

import sqlite3
from typing import Any

from riverui.storage.host_objects import (
    django_connection,
    driver_connection,
    is_django,
    sqlalchemy_connection,
)
from riverui.storage.sqlite.executor import SqliteTransaction
from riverui.storage.sqlite.file import SqliteFile
from riverui.storage.sqlite.scopes import CallersTransaction, Clock, Limits
from riverui.storage.sqlite.waiting import Waiting

_NEEDED = (
    "a sqlite3.Connection, a SQLAlchemy Session or Connection on sqlite3, or a Django database"
    " connection to SQLite is needed, or a transaction of the driver itself"
)


def adopted(
    file: SqliteFile, transaction: object, clock: Clock, waiting: Waiting, limits: Limits
) -> SqliteTransaction:
    """Return the operations inside a transaction of the file itself or of the caller; TypeError for
    anything else.
    """
    if isinstance(transaction, SqliteTransaction) and transaction.is_of(file):
        return transaction
    return SqliteTransaction(
        CallersTransaction(_connection_of(transaction), clock, waiting, limits)
    )


def _connection_of(transaction: Any) -> sqlite3.Connection:
    """Return the connection underneath; SQLAlchemy's transaction is begun if it was not."""
    found = transaction
    if (connection := sqlalchemy_connection(transaction)) is not None:
        found = driver_connection(connection)
    elif is_django(transaction):
        found = django_connection(transaction)
    if isinstance(found, sqlite3.Connection):
        return found
    kind = type(transaction)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be used: {_NEEDED}.")
