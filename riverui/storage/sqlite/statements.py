"""Run operations one at a time, waiting while other connections write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from riverui.domain.jobs import JobRow
from riverui.domain.json import write_json
from riverui.storage.sqlite.job_rows import APPENDED, COLUMNS, LEAN, job_row
from riverui.storage.sqlite.scopes import Scope
from riverui.storage.sqlite.values import stamp, to_milliseconds

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Statements")

_WRITTEN = (
    "state",
    "attempt",
    "max_attempts",
    "attempted_at",
    "finalized_at",
    "scheduled_at",
    "priority",
    "queue",
    "metadata",
    "unique_states",
)
"""The columns in which `_put` looks for changes."""
_MAX_ID = 2**63 - 1
"""Largest id of SQLite."""


class Statements:
    """Operations on the tables, in one scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._scope.connection.execute(sql, values)

    def _value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row; None without a row."""
        rows = self._rows(sql, values)
        return rows[0][0] if rows else None

    def _value_list(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the first column of each row."""
        return [row[0] for row in self._rows(sql, values)]

    def _jobs(self, rest: str, values: Sequence[Any] = (), *, lean: bool = False) -> list[JobRow]:
        """Return the jobs that a statement selects, given from its WHERE on; lean ones have neither
        args nor errors.
        """
        columns = LEAN if lean else COLUMNS
        return [
            job_row(row) for row in self._rows(f"select {columns} from river_job {rest}", values)
        ]

    def _some(self, ids: Iterable[int], *, lean: bool = False) -> list[JobRow]:
        """Return those of the jobs that exist, by id."""
        return self._jobs(
            "where id in (select value from json_each(?)) order by id", [id_list(ids)], lean=lean
        )

    def _job(self, id: int) -> JobRow | None:
        return next(iter(self._some([id])), None)

    def _put(self, before: JobRow, row: JobRow, *, error: str | None = None) -> JobRow:
        """Write what a job differs in from before, append an error to its errors, and return it as
        changed; UniqueConflict if another one holds its unique key.
        """
        sets: list[str] = []
        values: list[Any] = []
        stored: dict[str, Any] = {}
        for name in _WRITTEN:
            value = getattr(row, name)
            if value == getattr(before, name):
                continue
            sets.append(f"{name} = jsonb(?)" if name == "metadata" else f"{name} = ?")
            if isinstance(value, datetime):
                stored[name] = to_milliseconds(value)
                value = stamp(value)
            values.append(value)
        if error is not None:
            sets.append(f"errors = {APPENDED}")
            values.append(error)
        if sets:
            self._rows(f"update river_job set {', '.join(sets)} where id = ?", [*values, row.id])
        return row._replace(**stored) if stored else row

    def _remove(self, ids: Iterable[int]) -> None:
        self._rows(
            "delete from river_job where id in (select value from json_each(?))", [id_list(ids)]
        )

    def _notify(self, topic: str, *payloads: object) -> None:
        """Notify the listeners once the transaction commits."""
        now = stamp(self._now())
        for payload in payloads:
            text = payload if isinstance(payload, str) else write_json(payload)
            self._rows(
                "insert into river_notification (created_at, payload, topic) values (?, ?, ?)",
                [now, text, topic],
            )
            self._scope.notified = True

    def _now(self) -> datetime:
        return to_milliseconds(self._scope.clock())


def id_list(ids: Iterable[int]) -> str:
    """Return ids as a JSON array, without those that no row can have."""
    return json.dumps([each for each in ids if 0 <= each <= _MAX_ID])


def reads(
    operation: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]:
    """Make a statement of an operation that only reads."""
    return _statement(operation, writes=False)


def writes(
    operation: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]:
    """Make a statement of an operation that may write."""
    return _statement(operation, writes=True)


def _statement(
    operation: Callable[Concatenate[S, P], T], *, writes: bool
) -> Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]:
    @wraps(operation)
    async def run(self: S, /, *args: P.args, **given: P.kwargs) -> T:
        return await self._scope.call(lambda: operation(self, *args, **given), writes=writes)

    # pyright's return type of a coroutine function, so that it accepts these in a driver.
    return cast("Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]", run)
