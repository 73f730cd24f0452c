"""The one place where psycopg's exceptions become riverui's."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseMissing,
    DatabaseUnavailable,
    LockTimeout,
    LoginRefused,
    PermissionDenied,
    QueryTimeout,
    SchemaMissing,
    UniqueConflict,
)

# libpq keeps no SQLSTATE for a failed connection, only words; another language falls back to
# DatabaseUnavailable, which shows the server's own words.
_LOGIN = re.compile(
    r"password authentication failed|no password supplied|authentication failed|role \".*\" does not exist"
    r"|no pg_hba\.conf entry|SASL authentication failed|no such user|is not permitted to log in",
    re.IGNORECASE,
)
_DATABASE = re.compile(
    r"database \".*\" does not exist|no such database|database does not exist", re.IGNORECASE
)

_STATES: dict[str, tuple[type[DatabaseError], str | None]] = {
    "25006": (PermissionDenied, "This database is read-only: a standby, or a read-only setting of its user."),
    "28000": (LoginRefused, None),
    "28P01": (LoginRefused, None),
    "3D000": (DatabaseMissing, None),
    "42501": (PermissionDenied, None),
    "53300": (DatabaseUnavailable, "The database has no connection left for us."),
    "55P03": (LockTimeout, None),
    "57014": (QueryTimeout, None),
    "57P01": (DatabaseUnavailable, "The database is shutting down, or closed our connection."),
    "57P02": (DatabaseUnavailable, "The database crashed and is starting again."),
    "57P03": (DatabaseUnavailable, "The database is starting up or shutting down."),
    "25P03": (QueryTimeout, "The transaction was idle for too long and was ended."),
    "57P05": (DatabaseUnavailable, "The database closed our idle connection."),
    "3F000": (SchemaMissing, None),
    "42P01": (SchemaMissing, None),
    "42703": (SchemaMissing, None),
    "42704": (SchemaMissing, None),
    "42883": (SchemaMissing, None),
}
_MEANINGLESS = frozenset({"22003", "22007", "22008", "22021", "22023", "22P02", "22P05", "54000", "54001"})
"""A value that the server cannot read: out of range, not UTF-8, JSON too deep or with a NUL."""

_UNIQUE_INDEXES = frozenset({"river_job_unique_idx", "river_job_kind_unique_key_idx"})


def translate(error: Exception) -> Exception:
    """The exception to raise for one that psycopg raised; other exceptions are given back as they are."""
    if isinstance(error, PoolClosed):
        return DatabaseUnavailable("The connection pool is closed or was never opened.")
    if isinstance(error, PoolTimeout | TooManyRequests):
        return DatabaseUnavailable("No database connection became free in time.")
    if not isinstance(error, psycopg.Error):
        return error
    state = error.sqlstate
    if state is None:
        return _without_state(error)
    if isinstance(error, pg.UniqueViolation) and error.diag.constraint_name in _UNIQUE_INDEXES:
        return UniqueConflict()
    # The enum of a database below migration 4 does not know `pending`.
    if state == "22P02" and "river_job_state" in str(error):
        return SchemaMissing()
    if state in _STATES:
        kind, message = _STATES[state]
        if kind is PermissionDenied and message is None:
            message = f"{PermissionDenied.__doc__} ({error.diag.message_primary})"
        return kind(message)
    if state in _MEANINGLESS:
        return BadRequest(f"The database cannot read a value of this request: {error.diag.message_primary}.")
    if state.startswith("08") or (
        isinstance(error, pg.OperationalError) and error.diag.severity_nonlocalized == "FATAL"
    ):
        return DatabaseUnavailable(error.diag.message_primary)
    return DatabaseError(f"{error.diag.message_primary} (SQLSTATE {state})")


def refused(error: Exception) -> DatabaseUnavailable:
    """Why a connection could not be made."""
    words = " ".join(str(error).split())
    if _LOGIN.search(words):
        return LoginRefused()
    if _DATABASE.search(words):
        return DatabaseMissing()
    return DatabaseUnavailable(f"{DatabaseUnavailable.__doc__} ({words})" if words else None)


def _without_state(error: psycopg.Error) -> Exception:
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable("The connection to the database was lost.")
    if isinstance(error, psycopg.DataError):
        return BadRequest("The database cannot read a value of this request.")
    return DatabaseError(str(error))
