"""A SQLite file and the connections to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from hashlib import md5
from math import ceil, exp, log
from pathlib import Path
from typing import Any, cast

from riverui.domain.json import read_json
from riverui.errors import FileWithoutTables
from riverui.storage.sqlite.json_binary import json_of
from riverui.storage.sqlite.values import contains, instant, newest, stamp, written
from riverui.storage.sqlite.waiting import Turns

_HAS_JSONB = sqlite3.sqlite_version_info >= (3, 45)
"""Whether this SQLite reads and writes JSONB. An older one stores JSON as text, which River reads
too.
"""
_STEPS = 20_000
"""Steps of SQLite's virtual machine between two checks of the time limit: about a millisecond."""
_MOST_IDLE = 4
"""Connections that are kept open while nobody uses them."""
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
"""An item of an array of Postgres: quoted, or a number or null."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MOST_THREADS = 4
"""Threads that run statements: one writes, the others read."""


def json_text(column: str) -> str:
    """Return the SQL of a JSON column as text, which may be malformed if it was stored as text."""
    function = "json" if _HAS_JSONB else "riverui_json"
    return f"iif(typeof({column}) = 'text', {column}, {function}({column}))"


def valid_json(column: str) -> str:
    """Return the SQL of a JSON column as JSON, `null` for a text that is none."""
    readable = f"typeof({column}) <> 'text' or json_valid({column})"
    return f"iif({readable}, {json_text(column)}, 'null')"


class Connection:
    """One connection, its functions, and when its statement must have ended."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self.deadline = float("inf")
        # Whatever rows the caller's own connection makes, these are tuples.
        self._cursor = raw.cursor()
        self._cursor.row_factory = None
        if not _HAS_JSONB:
            raw.create_function("jsonb", 1, lambda text: text, deterministic=True)
            raw.create_function("riverui_json", 1, _json_text, deterministic=True)
        raw.create_function("riverui_after", 2, _after, deterministic=True)
        # Typeshed knows only aggregates of integers.
        raw.create_aggregate("riverui_bins", 4, cast("Any", _Bins))
        raw.create_function("riverui_bytes", 1, _bytes, deterministic=True)
        raw.create_function("riverui_contains", 2, _contains, deterministic=True)
        raw.create_function("riverui_decayed", 2, _decayed, deterministic=True)
        raw.create_function("riverui_epoch", 1, _epoch, deterministic=True)
        raw.create_function("riverui_list", 1, _list, deterministic=True)
        raw.create_function("riverui_md5", 1, _md5, deterministic=True)
        raw.create_function("riverui_newest", 3, _newest, deterministic=True)
        raw.create_function("riverui_seconds", 2, _seconds, deterministic=True)

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Run a statement and return its rows."""
        return self._cursor.execute(sql, values).fetchall()

    def described(self, sql: str, values: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
        """Run a statement and return its rows, and the names of their columns."""
        rows = self.execute(sql, values)
        return rows, [column[0] for column in self._cursor.description or ()]

    def stream(self, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Run a statement and yield its rows one by one, each read when it is asked for."""
        with closing(self.raw.cursor()) as cursor:
            cursor.row_factory = None
            yield from cursor.execute(sql, values)

    def execute_many(self, sql: str, values: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each of the values and return how many rows they changed."""
        return self._cursor.executemany(sql, values).rowcount

    def limit(self) -> None:
        """Stop statements that run beyond the deadline."""
        self.raw.set_progress_handler(lambda: time.monotonic() > self.deadline, _STEPS)


class SqliteFile:
    """A file, or a temporary one with River's tables if no path is given; the connections to it
    that are not in use.
    """

    def __init__(self, path: str | None, create: Callable[[sqlite3.Connection], None]) -> None:
        self.is_temporary = path is None
        self.turns = Turns()
        """Whose turn it is to write, in this process."""
        self._create = create
        self._path = path
        self._idle: list[Connection] = []
        self._inherited: list[Connection] = []
        self._listeners: set[Callable[[], None]] = set()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._threads: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        """The file's path, `memory` for a temporary one."""
        return "memory" if self.is_temporary else str(self._path)

    def take(self, *, create: bool = False) -> Connection:
        """Return a connection that nobody else uses. Without a file, create it or raise
        FileWithoutTables: it is more likely that its name is wrong.
        """
        with self._lock:
            self._look_for_fork()
            if self._idle:
                return self._idle.pop()
            if self._path is None:
                self._path = self._temporary()
        if not create and not Path(self._path).exists():
            raise FileWithoutTables(
                f"There is no file {self._path}: run `riverui migrate-up`.",
                public=f"There is no file {Path(self._path).name}: run `riverui migrate-up`.",
            )
        return self._open(self._path)

    def threads(self) -> ThreadPoolExecutor:
        """Return the threads in which statements of event loops run."""
        with self._lock:
            self._look_for_fork()
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_MOST_THREADS, "riverui sqlite")
            return self._threads

    def give(self, connection: Connection) -> None:
        """Take a connection back, outside of any transaction."""
        with self._lock:
            if len(self._idle) < _MOST_IDLE and self._process == os.getpid():
                self._idle.append(connection)
                return
        connection.raw.close()

    def close(self) -> None:
        """Close the connections that nobody uses; safe to call twice."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.raw.close()

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake`, in any thread, after each commit that notifies; return how to end that."""
        with self._lock:
            self._listeners.add(wake)
        return lambda: self._listeners.discard(wake)

    def wake(self) -> None:
        """Wake the listeners in this process."""
        with self._lock:
            listeners = tuple(self._listeners)
        for wake in listeners:
            wake()

    def _look_for_fork(self) -> None:
        """In a forked process, forget what is its parent's: not even closing it would do."""
        if self._process != os.getpid():
            self._inherited, self._idle = self._idle, []
            self._threads, self._process = None, os.getpid()
            self.turns = Turns()

    def _open(self, path: str) -> Connection:
        raw = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            raw.execute("pragma journal_mode = wal")
            # Each commit reaches the disk before it is acknowledged.
            raw.execute(f"pragma synchronous = {'off' if self.is_temporary else 'full'}")
            connection = Connection(raw)
            connection.limit()
        except BaseException:
            raw.close()
            raise
        return connection

    def _temporary(self) -> str:
        folder = tempfile.mkdtemp(prefix="riverui-")
        weakref.finalize(self, _remove, folder, os.getpid())
        path = str(Path(folder, "jobs.db"))
        connection = self._open(path)
        self._create(connection.raw)
        self._idle.append(connection)
        return path


def _remove(folder: str, process: int) -> None:
    """Remove the folder of a temporary file, but not in a forked process."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def read_json_as_text(raw: sqlite3.Connection) -> None:
    """Let SQL's `json` accept JSONB, for migrations: SQL that changes JSON needs SQLite's own."""
    if not _HAS_JSONB:
        raw.create_function("json", 1, _json_text, deterministic=True)


def _json_text(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return json_of(value)
    except (ValueError, IndexError, RecursionError):
        # Older programs store JSON as text in a blob.
        return value.decode(errors="replace")


class _Bins:
    """An aggregate of microseconds: a zero, and a byte for the bin of each, as in packed_bins."""

    def __init__(self) -> None:
        self._bins = bytearray(1)

    def step(self, us: int | None, first: int, last: int, log_gamma: float) -> None:
        """Add one; none for a null."""
        if us is not None:
            place = ceil(log(us) / log_gamma) if us > 1 else first
            self._bins.append(min(max(place, first), last) - first)

    def finalize(self) -> bytes:
        """Return the bytes."""
        return bytes(self._bins)


def _bytes(text: str | None) -> bytes | None:
    """Return the bytes of a text in Postgres's form."""
    return None if text is None else bytes.fromhex(text.removeprefix("\\x"))


def _after(at: str | None, seconds: float | None) -> str | None:
    """Return the time so many seconds later; None if it cannot be read or is too far away."""
    if at is None or seconds is None:
        return None
    with suppress(ValueError, OverflowError):
        return stamp(instant(at) + timedelta(seconds=seconds))
    return None


def _decayed(number: float, times: float) -> float:
    """Return what is left of a number that falls to a third each time."""
    return number * exp(-min(max(times, 0.0), 100.0))


def _epoch(at: str) -> float:
    """Return a time as seconds since 1970."""
    return instant(at).timestamp()


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _list(text: str) -> str:
    """Return an array of Postgres as JSON; a JSON array as it is."""
    if text.startswith("["):
        return text
    return json.dumps(
        [
            _ESCAPE.sub(r"\1", quoted) if quoted or not bare else json.loads(bare.lower())
            for quoted, bare in _ITEM.findall(text)
        ]
    )


def _seconds(since: str | None, until: str | None) -> float | None:
    """Return the seconds between two times; None if they cannot be read."""
    if since is None or until is None:
        return None
    with suppress(ValueError):
        return (instant(until) - instant(since)).total_seconds()
    return None


def _contains(text: str | None, wanted: str) -> bool:
    if text is None:
        return False
    with suppress(ValueError):
        return contains(read_json(text), read_json(wanted))
    return False


def _newest(text: str | None, name: str, most: int) -> str:
    names = read_json(text) if text else None
    return written(newest(names if isinstance(names, list) else (), name, most))
