"""The two sides of a scenario on one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from riverui.storage.sqlite.file import Connection, json_text
from tests.conformance.sides import Pair, Side

_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"


def opened(url: str) -> Connection:
    """Return a connection to the file."""
    path = url.removeprefix("sqlite:///")
    return Connection(sqlite3.connect(path, timeout=5, isolation_level=None))


class FileSide(Side):
    """One process on a file. What the contract asks of an adapter's own SQL is done here, as in
    the newer suite, in which the harness does it.
    """

    def _named(self, url: str) -> str:
        return url

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request; SideError if it has none."""
        if method in _RAW:
            file = opened(self.url)
            with closing(file.raw):
                found = _RAW[method](file, **params)
            # As in the contract, a job's id stands for the whole job.
            return self.get(found["id"]) if found.pop("whole", False) else found
        return super().call(method, **params)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePair(Pair):
    """Go's side and ours on one file."""

    database: Connection  # type: ignore[assignment]

    def execute(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows; a list is stored as JSON."""
        values = [json.dumps(each) if isinstance(each, list) else each for each in params]
        cursor = self.database.raw.execute(sql.replace("%s", "?"), values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def reset(self) -> None:
        """Empty the tables."""
        for side in self:
            side.recover()
        for table in ("river_job", "river_leader", "river_notification", "river_queue"):
            self.execute(f"delete from {table}")
        for side in self:
            side.call("reset")

    def leader(self) -> dict[str, Any] | None:
        """Return the leader's row, if a term is on."""
        found = self.execute(f"select * from river_leader where expires_at >= {_NOW}")
        return found[0] if found else None


class Outbox:
    """Reads the notifications of some topics from River's table."""

    def __init__(self, pair: FilePair, *topics: str) -> None:
        self._pair = pair
        self._topics = topics
        self._after = 0
        self.heard()

    def heard(self) -> list[tuple[str, str]]:
        """Return topic and payload of all that was sent since the last call, topic by topic."""
        rows = self._pair.execute(
            "select id, topic, payload, typeof(payload) as type from river_notification"
            " where id > %s order by id",
            self._after,
        )
        self._after = max([self._after, *(row["id"] for row in rows)])
        assert {row["type"] for row in rows} <= {"text"}
        return [
            (topic, row["payload"])
            for topic in self._topics
            for row in rows
            if row["topic"] == topic
        ]


def _insert(
    file: Connection, args: str, kind: str, most: int, metadata: str, id: int | None = None
) -> dict[str, Any]:
    ((found,),) = file.execute(
        "insert into river_job (id, args, created_at, kind, max_attempts, metadata, scheduled_at)"
        f" values (?, jsonb(?), {_NOW}, ?, ?, jsonb(?), {_NOW}) returning id",
        [id, args, kind, most, metadata],
    )
    return {"id": found}


def _insert_exact(
    file: Connection, id: int | None = None, metadata_json: str | None = None
) -> dict[str, Any]:
    args = '{"decimal":0.12345678901234567890123456789,"integer":9223372036854775807}'
    metadata = metadata_json or '{"negative":-9223372036854775808}'
    return _insert(file, args, "conformance_exact_json", 25, metadata, id)


def _exact(file: Connection, id: int) -> dict[str, Any]:
    sql = f"select {json_text('metadata')} from river_job where id = ?"
    ((text,),) = file.execute(sql, [id])
    wanted = ("big_integer", "beyond_float", "long_decimal", "negative")
    found = json.loads(text, parse_int=str, parse_float=str)
    return {key: found[key] for key in wanted if key in found}


def _insert_quietly(
    file: Connection,
    kind: str = "conformance_echo",
    message: str = "",
    opts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    args = json.dumps({"behavior": "", "duration_ms": 0, "message": message})
    most = (opts or {}).get("max_attempts", 25)
    return {**_insert(file, args, kind, most, "{}"), "whole": True}


def _finalize(file: Connection, id: int, state: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    error = (
        '[{"at":"2026-02-03T04:05:06.789Z","attempt":1,"error":"external discard",'
        '"trace":"external trace"}]'
    )
    file.execute(
        f"update river_job set state = ?, finalized_at = {_NOW}, metadata = jsonb(?),"
        " errors = iif(? = 'discarded', jsonb(?), errors) where id = ? and state = 'running'",
        [state, json.dumps(metadata), state, error, id],
    )
    return {"id": id, "whole": True}


def _row(file: Connection, id: int) -> dict[str, Any]:
    columns = ("attempted_at", "created_at", "finalized_at", "scheduled_at")
    ((*times, key, key_type, states, states_type),) = file.execute(
        f"select {', '.join(f'cast({name} as text)' for name in columns)}, upper(hex(unique_key)),"
        " typeof(unique_key), unique_states, typeof(unique_states) from river_job where id = ?",
        [id],
    )
    return {
        **dict(zip(columns, times, strict=True)),
        "unique_key": key or None,
        "unique_key_type": key_type,
        "unique_states": states,
        "unique_states_type": states_type,
    }


_RAW: Mapping[str, Callable[..., dict[str, Any]]] = {
    "raw_finalize": _finalize,
    "raw_insert_exact_json": _insert_exact,
    "raw_insert_no_notify": _insert_quietly,
    "raw_job_exact_json": _exact,
    "raw_job_row": _row,
}
