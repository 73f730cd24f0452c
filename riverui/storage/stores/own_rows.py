"""Reads and writes whole rows of riverui's tables, in the same form on every database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from riverui.storage.interface import SQL, Executor
from riverui.storage.interface.sql_blocks import Fragment, join, word
from riverui.storage.sqlite.values import stamp
from riverui.storage.store import Store

KEYS: Mapping[str, Sequence[str]] = {
    "alert": ("incident", "destination"),
    "dead_job": ("id",),
    "error_group": ("fingerprint",),
    "incident": ("id",),
    "mark": ("at", "label"),
    "periodic_job": ("id",),
    "rollup": ("step", "bucket", "queue", "kind", "source"),
    "sequence": ("seq_key",),
    "sequence_job": ("seq_key", "job_id"),
    "silence": ("id",),
}
"""The tables that outlive clients and dashboards, with the columns of their keys."""
_BYTES = frozenset({"failed_run_bins", "run_bins", "unique_key", "wait_bins"})
_JSON = frozenset(
    {"args", "attempted_by", "deeds", "errors", "facts", "metadata", "old_releases", "tags"}
)
_LEFT_OUT = frozenset({"dry", "next_id", "stands"})
"""Columns of one database alone, which follow from others."""
_TIMES = frozenset({"at", "bucket", "until"})
"""The columns of times besides those whose names end with `_at`."""

OwnRow = Mapping[str, Any]
"""One row by column, as Postgres writes it as JSON."""


class OwnRowStore(Store):
    """Operations on the tables of `KEYS`."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self._is_postgres = SQL in executor.capabilities

    async def own_row_list(
        self, table: str, *, after: OwnRow | None, limit: int
    ) -> Sequence[OwnRow]:
        """Return rows of a table in the order of its key, those behind `after`."""
        names = {"table": word(table), "key": _words(KEYS[table])}
        slots = dict(names)
        if after is not None:
            given = self._stored(after)
            key = {name: given[name] for name in KEYS[table]}
            slots["after"] = Fragment(
                "own_row_after",
                {"after": json.dumps(key)},
                given=_each("own_row_given", KEYS[table]),
                **(names if self._is_postgres else {"key": names["key"]}),
            )
        rows = await self._sql.rows("own_row_list", {"limit": limit}, **slots)
        if self._is_postgres:
            return [_kept(json.loads(text)) for text in rows.values()]
        return [_read(_kept(dict(zip(rows.names, row, strict=True)))) for row in rows]

    async def own_row_insert(self, table: str, rows: Sequence[OwnRow]) -> None:
        """Insert rows; those whose key is taken are left out."""
        columns = sorted(rows[0])
        given = [
            Fragment("own_row_bytes" if name in _BYTES else "own_row_value", name=word(name))
            for name in columns
        ]
        await self._sql.rows(
            "own_row_insert",
            {"rows": json.dumps([self._stored(row) for row in rows])},
            table=word(table),
            columns=_words(columns),
            given=join(given, ", "),
        )

    def _stored(self, row: OwnRow) -> OwnRow:
        return row if self._is_postgres else {name: _stored(name, row[name]) for name in row}


def _each(block: str, names: Iterable[str]) -> Fragment:
    return join([Fragment(block, name=word(name)) for name in names], ", ")


def _words(names: Iterable[str]) -> Fragment:
    return join(map(word, names), ", ")


def _is_time(name: str) -> bool:
    return name in _TIMES or name.endswith("_at")


def _kept(row: OwnRow) -> OwnRow:
    return {name: value for name, value in row.items() if name not in _LEFT_OUT}


def _read(row: OwnRow) -> OwnRow:
    """Return a row of SQLite as Postgres writes it."""
    return {name: value if value is None else _sent(name, value) for name, value in row.items()}


def _sent(name: str, value: Any) -> Any:
    if name in _BYTES:
        return f"\\x{value.hex()}"
    if name in _JSON:
        return json.loads(value)
    if name == "unique_states":
        return f"{value:08b}"
    if name == "waiting_capped":
        return bool(value)
    if _is_time(name) and value[:1].isdigit():
        return f"{value}+00:00"
    return value


def _stored(name: str, value: Any) -> Any:
    """Return a value as SQLite stores it."""
    if value is None:
        return None
    if name in _JSON:
        return json.dumps(value, ensure_ascii=False)
    if name == "unique_states":
        return int(value, 2)
    if _is_time(name) and value[:1].isdigit():
        return stamp(datetime.fromisoformat(value))
    return value
