"""Find the connection of a transaction that the host program has begun.

The kinds are known by the packages of their classes: a caller that passes an object of SQLAlchemy
or Django has imported it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

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
    if _comes_from(transaction, "sqlalchemy"):
        if hasattr(transaction, "get_bind") and callable(getattr(transaction, "connection", None)):
            found = transaction.connection()
        if hasattr(found, "exec_driver_sql"):
            if not found.in_transaction():
                found.begin()
            found = found.connection.driver_connection
    elif _comes_from(transaction, "django") and hasattr(transaction, "ensure_connection"):
        transaction.validate_no_broken_transaction()
        transaction.ensure_connection()
        found = transaction.connection
    if isinstance(found, sqlite3.Connection):
        return found
    kind = type(transaction)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be used: {_NEEDED}.")


def _comes_from(thing: object, package: str) -> bool:
    return any(f"{kind.__module__}.".startswith(f"{package}.") for kind in type(thing).__mro__)
