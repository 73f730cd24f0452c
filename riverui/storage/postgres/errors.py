"""Translates the exceptions of psycopg and other libraries into riverui's."""

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
    ReadOnlyDatabase,
    SchemaMissing,
    StandbyConflict,
    StandbyLacks,
    TooManyConnections,
    UniqueConflict,
)
from riverui.storage.postgres.sessions import ServerSilent

# libpq keeps no SQLSTATE for a failed connection, only the message; in another language it falls
# back to DatabaseUnavailable, which shows the server's message.
_LOGIN = re.compile(
    r"password authentication failed|no password supplied|authentication failed|role \".*\" does"
    r" not exist"
    r"|no pg_hba\.conf entry|SASL authentication failed|no such user|is not permitted to log in",
    re.IGNORECASE,
)
_DATABASE = re.compile(
    r"database \"(.*)\" does not exist|no such database(?:: (\S+))?|database does not exist",
    re.IGNORECASE,
)

_LIMIT = re.compile(
    r"too many (clients|connections)|remaining connection slots|no more connections allowed",
    re.IGNORECASE,
)

_STATES: dict[str, tuple[type[DatabaseError], str | None]] = {
    "25006": (
        ReadOnlyDatabase,
        "This database is read-only: a standby, or a read-only setting of its user.",
    ),
    "28000": (LoginRefused, None),
    "28P01": (LoginRefused, None),
    "3D000": (DatabaseMissing, None),
    "42501": (PermissionDenied, None),
    "53300": (TooManyConnections, None),
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
_MEANINGLESS = frozenset(
    {"22003", "22007", "22008", "22021", "22023", "22P02", "22P05", "54000", "54001"}
)
"""A value that the server cannot read: out of range, not UTF-8, JSON too deep or with a NUL."""

_NOT_SERIALIZABLE = "40001"
"""SQLSTATE of a conflict between transactions that are stricter than Read Committed."""
_CONFLICTS = frozenset({_NOT_SERIALIZABLE, "40P01"})
"""SQLSTATEs with which a standby cancels a query that blocks replay."""

_TAKEN = re.compile(r"\(unique_key\)=\(\\x([0-9a-f]+)\)")
"""The key in the detail of a unique violation, which users without access do not get."""
_UNIQUE_INDEXES = frozenset({"river_job_unique_idx", "river_job_kind_unique_key_idx"})


def translate(error: Exception) -> Exception:
    """Return the exception to raise for one that psycopg raised, and any other as it is."""
    if isinstance(error, PoolClosed):
        return DatabaseUnavailable("The connection pool is closed or was never opened.")
    if isinstance(error, PoolTimeout | TooManyRequests):
        return DatabaseUnavailable("No database connection became free in time.")
    if not isinstance(error, psycopg.Error):
        return error
    if error.sqlstate is None:
        return _without_state(error)
    return _with_state(
        error.sqlstate,
        str(error),
        error.diag.message_primary,
        error.diag.constraint_name,
        fatal=isinstance(error, pg.OperationalError)
        and error.diag.severity_nonlocalized == "FATAL",
    )


def translate_foreign(error: BaseException) -> BaseException:
    """Return the same for what another library raised, or SQLAlchemy around it."""
    cause: BaseException | None = error
    while cause is not None:
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        diagnosis = getattr(cause, "diag", cause)
        if isinstance(state, str) and hasattr(diagnosis, "constraint_name"):
            return _with_state(state, str(cause), _first_line(cause), diagnosis.constraint_name)
        cause = getattr(cause, "orig", None) or cause.__cause__
    return error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")


def _with_state(
    state: str, whole: str, message: str | None, constraint: str | None, *, fatal: bool = False
) -> Exception:
    if state == "23505" and constraint in _UNIQUE_INDEXES:
        conflict = UniqueConflict()
        if taken := _TAKEN.search(whole):
            conflict.unique_key = bytes.fromhex(taken[1])
        return conflict
    # The enum of a database below migration 4 does not know `pending`.
    if state == "22P02" and "river_job_state" in whole:
        return SchemaMissing()
    if state == "0A000" and "during recovery" in whole:
        return StandbyLacks()
    if state in _CONFLICTS and "conflict with recovery" in whole and not fatal:
        return StandbyConflict()
    if state == _NOT_SERIALIZABLE and not fatal:
        conflict_error = LockTimeout("The transaction conflicted with another one: try again.")
        conflict_error.sqlstate = state
        return conflict_error
    if state in _STATES:
        kind, words = _STATES[state]
        if kind is PermissionDenied and words is None:
            words = f"{PermissionDenied.__doc__} ({message})"
        return kind(words)
    if state in _MEANINGLESS:
        return BadRequest(f"The database cannot read a value in this request: {message}.")
    if fatal or state.startswith("08"):
        return DatabaseUnavailable(message, public=DatabaseUnavailable.__doc__ or "")
    unknown = DatabaseError(f"{message} (SQLSTATE {state})")
    unknown.sqlstate = state
    return unknown


def refused(error: Exception) -> DatabaseUnavailable:
    """Return the exception that says why a connection could not be made."""
    words = " ".join(str(error).split())
    if _LOGIN.search(words):
        return LoginRefused()
    if missing := _DATABASE.search(words):
        name = missing[1] or missing[2]
        message = f"There is no database named “{name}”." if name else None
        return DatabaseMissing(message, public=DatabaseMissing.__doc__ or "")
    if _LIMIT.search(words):
        return TooManyConnections()
    return DatabaseUnavailable(
        f"{DatabaseUnavailable.__doc__} ({words})" if words else None,
        public=DatabaseUnavailable.__doc__ or "",
    )


def _without_state(error: psycopg.Error) -> Exception:
    if isinstance(error, ServerSilent):
        return DatabaseUnavailable("The database does not answer.")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable("The connection to the database was lost.")
    if isinstance(error, psycopg.DataError):
        return BadRequest("The database cannot read a value in this request.")
    return DatabaseError(str(error))
