"""Runs the SQL blocks of riverui's stores on a SQLite file.

The blocks of `store.sql` stand in `store.sqlite.sql` under the same names. A block may have several
statements, each from the beginning of a line: the rows are those of the last one that has columns.
Every block has the parameter `now`. Columns whose name ends with a type, such as `"at:time"`, are
converted.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from riverui.domain.time import FIRST, LAST
from riverui.errors import NotSupported, QueryTimeout
from riverui.storage.interface import SQL
from riverui.storage.interface.sql_blocks import Fragment, Queries, Rows
from riverui.storage.sqlite.file import Connection, json_text, valid_json
from riverui.storage.sqlite.job_rows import texts
from riverui.storage.sqlite.scopes import Scope
from riverui.storage.sqlite.values import instant, stamp

FILES = "*.sqlite.sql"
"""The names of the files with SQLite's blocks."""

_ENDS = {"-infinity": FIRST, "infinity": LAST}
"""The ends of Python's calendar, as stores write them; texts that compare as the times do."""
_raw = msgspec.json.Decoder(list[msgspec.Raw])
_JSON = re.compile(r"\bjson_text\(([\w.]+)\)")
"""In blocks, the text of a JSON column of River's tables; see `file.json_text`."""
_VALID = re.compile(r"\bvalid_json\(([\w.]+)\)")
"""The same where the statement must not fail for malformed JSON; see `file.valid_json`."""
_LAST_CLIENT = re.compile(r"\blast_client\(([\w.]+)\)")
"""In blocks, the last name in a column of clients; null for a column that is too long."""
_LAST = r"iif(length(\1) <= 32768 and json_valid(json_text(\1)), json_text(\1) ->> '$[#-1]', null)"
_WRITES = re.compile(r"\b(insert into|update|delete from)\b")


class SqliteSql:
    """Runs SQL blocks, in whatever transaction the scope is in."""

    backend_pid = None
    schema = None

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def tables(self) -> frozenset[str]:
        """Return the names of riverui's tables."""
        return frozenset((await self.rows("table_name_list")).values())

    async def rows(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Rows:
        """Return every row of one block, its slots filled and its parameters given."""
        given = dict(values or {})
        given["now"] = given.get("now") or self._scope.clock()
        block_run, writes = ready(Fragment(block, given, **slots))
        return await self._scope.call(lambda: block_run(self._scope.connection), writes=writes)

    async def row(
        self, block: str, values: Mapping[str, Any] | None = None, /, **slots: Fragment
    ) -> Any:
        """Return the first row, its columns as attributes; None without one."""
        return (await self.rows(block, values, **slots)).first()

    prepared = rows

    async def guarded(self, name: str, parameters: Mapping[str, Any], **slots: Fragment) -> Rows:
        """Return the rows of a block; a failure undoes the block alone."""
        return await self.rows(name, parameters, **slots)

    async def run(self, statement: str) -> None:
        """Run a statement without parameters that returns no rows."""
        await self._scope.call(lambda: self._scope.connection.execute(statement), writes=True)

    def render(self, fragment: Fragment) -> tuple[str, Sequence[Any]]:
        """Return the text of a block with its slots filled, and the values of its parameters."""
        return _queries().render(fragment)

    def bitmaps(
        self, *, milliseconds: int | None = None, scans: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Do nothing: SQLite chooses its indexes alone."""
        return nullcontext()

    @asynccontextmanager
    async def trying_bitmaps(self, *, milliseconds: int) -> AsyncIterator[None]:
        """Let a QueryTimeout end only the statements inside."""
        with suppress(QueryTimeout):
            yield


def ready(block: Fragment) -> tuple[Callable[[Connection], Rows], bool]:
    """Return what runs a block on a connection, and whether it writes; NotSupported for a block
    that SQLite does not have.
    """
    if block.source not in (queries := _queries()).names:
        raise NotSupported(SQL.missing)
    text, given = queries.render(block)
    parts, writes = statements(text)
    values = {str(number): _bound(value) for number, value in enumerate(given, 1)}

    def run(connection: Connection) -> Rows:
        rows = Rows()
        for statement in parts:
            found, names = connection.described(statement, values)
            if names:
                rows = _converted(found, names)
        return rows

    return run, writes


@lru_cache(maxsize=512)
def statements(text: str) -> tuple[Sequence[str], bool]:
    """Return the statements of a block, and whether one of them writes."""
    text = _LAST_CLIENT.sub(_LAST, text)
    text = _VALID.sub(lambda found: valid_json(found[1]), text)
    text = _JSON.sub(lambda found: json_text(found[1]), text)
    return text.split(";\n"), _WRITES.search(text) is not None


@cache
def _queries() -> Queries:
    """Return the blocks of all stores."""
    package = Path(__file__).parents[2]
    return Queries(sorted(package.rglob(FILES)), None)


def _bound(value: Any) -> Any:
    """Return a value as SQLite takes it."""
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list | tuple):
        return json.dumps([_bound(each) for each in value], ensure_ascii=False)
    return value


def _time(text: str) -> datetime:
    return _ENDS.get(text) or instant(text)


def _errors(text: str) -> list[str]:
    """Return the errors of a job, each as JSON; anything but an array is one."""
    try:
        return [bytes(each).decode() for each in _raw.decode(text)]
    except msgspec.MsgspecError:
        return [text]


_READ: Mapping[str, Callable[[Any], Any]] = {
    "bool": bool,
    "errors": _errors,
    "json": json.loads,
    "span": lambda seconds: timedelta(seconds=seconds),
    "texts": lambda text: list(texts(text)),
    "time": _time,
    "times": lambda text: [each and _time(each) for each in json.loads(text)],
}
"""How columns are converted, by the ends of their names."""


def _converted(rows: list[Any], names: Sequence[str]) -> Rows:
    pairs = [name.partition(":")[::2] for name in names]
    read = [(place, _READ[kind]) for place, (_, kind) in enumerate(pairs) if kind]
    if not read:
        return Rows(rows, names)
    converted = []
    for row in rows:
        values = list(row)
        for place, convert in read:
            if values[place] is not None:
                values[place] = convert(values[place])
        converted.append(tuple(values))
    return Rows(converted, [name for name, _ in pairs])
