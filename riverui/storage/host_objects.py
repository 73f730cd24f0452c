"""Connections and sessions of a host program's database libraries.

Their kinds are known by the packages of their classes, so that no library is imported: a caller
that passes an object of SQLAlchemy or Django has imported it.
"""

from __future__ import annotations

from typing import Any


def comes_from(thing: object, package: str) -> bool:
    """Return whether a class of the object is defined in a package."""
    return any(f"{kind.__module__}.".startswith(f"{package}.") for kind in type(thing).__mro__)


def is_session(thing: Any) -> bool:
    """Return whether it is a session of SQLAlchemy."""
    return hasattr(thing, "get_bind") and callable(getattr(thing, "connection", None))


def sqlalchemy_connection(thing: Any) -> Any:
    """Return SQLAlchemy's Connection, of a Session if it is one; None for anything else."""
    if not comes_from(thing, "sqlalchemy") or comes_from(thing, "sqlalchemy.ext.asyncio"):
        return None
    connection = thing.connection() if is_session(thing) else thing
    return connection if hasattr(connection, "exec_driver_sql") else None


def driver_connection(connection: Any) -> Any:
    """Return the library's own connection under SQLAlchemy's, and begin its transaction if it was
    not.
    """
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.driver_connection


def is_django(thing: object) -> bool:
    """Return whether it is a database connection of Django."""
    return comes_from(thing, "django") and hasattr(thing, "ensure_connection")


def django_connection(thing: Any) -> Any:
    """Return the library's own connection under Django's."""
    thing.validate_no_broken_transaction()
    thing.ensure_connection()
    return thing.connection
