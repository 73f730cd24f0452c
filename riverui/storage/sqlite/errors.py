"""Translate the exceptions of sqlite3 into riverui's."""

from __future__ import annotations

import re
import sqlite3

from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseUnavailable,
    FileWithoutTables,
    LockTimeout,
    QueryTimeout,
    ReadOnlyDatabase,
    UniqueConflict,
)

_MISSING = re.compile(r"no such (table|column)|has no column")
_CODES: dict[int, tuple[type[DatabaseError], str | None]] = {
    sqlite3.SQLITE_BUSY: (LockTimeout, "Another process wrote to the SQLite file for too long."),
    sqlite3.SQLITE_LOCKED: (LockTimeout, "Another connection wrote to the file for too long."),
    sqlite3.SQLITE_INTERRUPT: (QueryTimeout, None),
    sqlite3.SQLITE_READONLY: (ReadOnlyDatabase, "The SQLite file is read-only."),
    sqlite3.SQLITE_CANTOPEN: (DatabaseUnavailable, "The SQLite file cannot be opened."),
    sqlite3.SQLITE_IOERR: (DatabaseUnavailable, "The SQLite file cannot be read or written."),
    sqlite3.SQLITE_NOTADB: (DatabaseUnavailable, "The file is not a SQLite database."),
    sqlite3.SQLITE_FULL: (DatabaseError, "The disk is full."),
}


def translate(error: Exception) -> Exception:
    """Return the exception to raise for one that sqlite3 raised, and any other as it is."""
    if isinstance(error, UnicodeEncodeError):
        return BadRequest("Text with a lone surrogate cannot be stored.")
    if isinstance(error, OverflowError):
        return BadRequest("A number is too large to be stored.")
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
        return UniqueConflict()
    if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
        # Waiting is useless: what it has read stays old until it ends.
        return DatabaseError(
            "Another process has written since this transaction first read: use BEGIN IMMEDIATE."
        )
    if _MISSING.search(str(error)):
        return FileWithoutTables()
    found, message = _CODES.get(code & 0xFF, (DatabaseError, f"SQLite: {error}."))
    return found(message)
