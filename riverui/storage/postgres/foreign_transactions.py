"""Finds the connection of a transaction that the host program has begun.

This module imports neither SQLAlchemy, Django, psycopg2 nor asyncpg.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection

from riverui.storage.host_objects import (
    comes_from,
    django_connection,
    driver_connection,
    is_django,
    is_session,
    sqlalchemy_connection,
)

_ASYNC = (
    "a psycopg AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection on psycopg or"
    " asyncpg, is needed"
)
_SYNC = (
    "a psycopg Connection, a SQLAlchemy Session or Connection on psycopg or psycopg2, or a Django"
    " database connection to Postgres is needed"
)


async def async_connection_of(transaction: Any) -> Any:
    """Return the psycopg AsyncConnection, or SQLAlchemy's AsyncConnection on another library;
    TypeError for anything else. SQLAlchemy's transaction is begun if it was not.
    """
    if isinstance(transaction, AsyncConnection):
        return transaction
    connection = transaction
    if comes_from(transaction, "sqlalchemy.ext.asyncio"):
        if is_session(transaction):
            # Begins the session's transaction as its statements do.
            connection = await transaction.connection()
        if hasattr(connection, "get_raw_connection"):
            _check_dialect(connection, {"psycopg_async", "psycopg", "asyncpg"}, _ASYNC)
            if not connection.in_transaction():
                await connection.begin()
            driver = (await connection.get_raw_connection()).driver_connection
            return driver if isinstance(driver, AsyncConnection) else connection
    raise _refused(transaction, _ASYNC)


def sync_connection_of(transaction: Any) -> Any:
    """Return the psycopg or psycopg2 connection underneath; TypeError if there is none."""
    if isinstance(transaction, psycopg.Connection) or _is_psycopg2(transaction):
        return transaction
    if (connection := sqlalchemy_connection(transaction)) is not None:
        _check_dialect(connection, {"psycopg", "psycopg2"}, _SYNC)
        return driver_connection(connection)
    if is_django(transaction):
        if transaction.vendor != "postgresql":
            raise TypeError(f"Django's {transaction.vendor} cannot be used: {_SYNC}.")
        return django_connection(transaction)
    raise _refused(transaction, _SYNC)


def sqlalchemy_engine_of(thing: Any) -> tuple[Any, bool] | None:
    """Return SQLAlchemy's engine or connection, and whether it is an asynchronous one; None for
    anything else.

    The driver of River's own Python client holds one. TypeError for a database other than Postgres.
    """
    found = thing.conn if comes_from(thing, "riverqueue") and hasattr(thing, "conn") else thing
    if not comes_from(found, "sqlalchemy") or is_session(found) or not hasattr(found, "begin"):
        return None
    is_async = comes_from(found, "sqlalchemy.ext.asyncio")
    if is_async:
        _check_dialect(found, {"psycopg_async", "psycopg", "asyncpg"}, _ASYNC)
    else:
        _check_dialect(found, {"psycopg", "psycopg2"}, _SYNC)
    return found, is_async


def _is_psycopg2(thing: object) -> bool:
    return comes_from(thing, "psycopg2") and hasattr(thing, "cursor") and hasattr(thing, "encoding")


def _refused(transaction: object, needed: str) -> TypeError:
    """Return the error that says what is needed, and which client takes a transaction of the
    other kind.
    """
    hint = ""
    if needed is _SYNC and _is_asynchronous(transaction):
        hint = " It is asynchronous: use it with a Client."
    elif needed is _ASYNC and _is_synchronous(transaction):
        hint = " It is synchronous: use it with a SyncClient."
    return TypeError(f"{_name(transaction)} cannot be used: {needed}.{hint}")


def _is_asynchronous(thing: object) -> bool:
    return isinstance(thing, AsyncConnection) or (
        comes_from(thing, "sqlalchemy.ext.asyncio") and hasattr(thing, "in_transaction")
    )


def _is_synchronous(thing: object) -> bool:
    if comes_from(thing, "sqlalchemy"):
        return hasattr(thing, "in_transaction") and not _is_asynchronous(thing)
    return isinstance(thing, psycopg.Connection) or _is_psycopg2(thing) or is_django(thing)


def _check_dialect(connection: Any, drivers: set[str], needed: str) -> None:
    dialect = connection.dialect
    if dialect.name != "postgresql" or dialect.driver not in drivers:
        raise TypeError(f"SQLAlchemy on {dialect.name}+{dialect.driver} cannot be used: {needed}.")


def _name(thing: object) -> str:
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
