"""Insert jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.domain.time import rfc3339_nano
from riverui.domain.values import MAX_BIGINT, MAX_SMALLINT
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobInsertParams,
    unique_conflict,
)
from riverui.storage.interface.insert_rows import results
from riverui.storage.sqlite.job_rows import HOLDS_KEY
from riverui.storage.sqlite.statements import Statements, writes
from riverui.storage.sqlite.values import (
    checked_json,
    checked_text,
    stamp,
    to_milliseconds,
    written,
)

_INSERT = (
    "insert into river_job (args, created_at, kind, max_attempts, metadata, priority, queue,"
    " scheduled_at, state, tags, unique_key, unique_states)"
    " values (jsonb(?), ?, ?, ?, jsonb(?), ?, ?, ?, ?, jsonb(?), ?, ?)"
)
_RESTORE = (
    "insert into river_job (id, state, attempt, max_attempts, attempted_at, created_at,"
    " finalized_at, scheduled_at, priority, args, attempted_by, errors, kind, metadata, queue,"
    " tags, unique_key, unique_states) values (?, ?, ?, ?, ?, ?, ?, ?, ?, jsonb(?), jsonb(?),"
    " jsonb(?), ?, jsonb(?), ?, jsonb(?), ?, ?)"
)
_INSERT_UNIQUE = f"{_INSERT} on conflict do nothing returning id"


class JobInsert(Statements):
    """Operations that insert jobs."""

    @writes
    def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs and notify the workers of the queues in `notify`; return one result for each
        job, in order: the existing job if its unique key is held.
        """
        stored = [_as_stored(params) for params in jobs]
        if any(params.unique_key is not None for params in stored):
            found = [self._insert_unique(params) for params in stored]
        else:
            found = results(stored, self._insert(stored), MAX_BIGINT) if stored else []
        self._notify("river_insert", *({"queue": queue} for queue in notify))
        return found

    @writes
    def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """Insert jobs and return how many; UniqueConflict if a unique key is held."""
        plain = [params for params in jobs if params.unique_key is None]
        self._insert(plain)
        if len(plain) < len(jobs):
            for params in jobs:
                if params.unique_key is not None and not self._rows(
                    _INSERT_UNIQUE, _values(params)
                ):
                    raise unique_conflict(params)
        self._notify("river_insert", *({"queue": queue} for queue in notify))
        return len(jobs)

    @writes
    def job_restore_many(self, rows: Sequence[JobRow]) -> None:
        """Insert whole jobs with their ids."""
        self._scope.connection.execute_many(_RESTORE, [_whole(row) for row in rows])

    def _insert(self, jobs: Sequence[JobInsertParams]) -> Sequence[int]:
        """Insert jobs without unique keys and return their ids."""
        if not jobs:
            return ()
        self._scope.connection.execute_many(_INSERT, [_values(params) for params in jobs])
        # Nobody else writes meanwhile, so the ids follow one another.
        last = self._value("select last_insert_rowid()")
        return range(last - len(jobs) + 1, last + 1)

    def _insert_unique(self, params: JobInsertParams) -> InsertResult:
        if job_id := self._value(_INSERT_UNIQUE, _values(params)):
            return results([params], [job_id], MAX_BIGINT)[0]
        (existing,) = self._jobs(f"where unique_key = ? and {HOLDS_KEY}", [params.unique_key])
        return InsertResult(existing, True)


def _as_stored(params: JobInsertParams) -> JobInsertParams:
    return params._replace(
        created_at=to_milliseconds(params.created_at),
        scheduled_at=to_milliseconds(params.scheduled_at),
        priority=min(params.priority, MAX_SMALLINT),
    )


def _values(params: JobInsertParams) -> tuple[Any, ...]:
    """Return the parameters of `_INSERT`; BadRequest for what cannot be stored."""
    (
        kind, args, created_at, scheduled_at, state, most, metadata, priority, queue, tags, key,
        bits,
    ) = params  # fmt: skip
    created = stamp(created_at)
    return (
        checked_json(args),
        created,
        checked_text(kind),
        most,
        checked_json(metadata),
        priority,
        checked_text(queue),
        created if scheduled_at is created_at else stamp(scheduled_at),
        state.value,
        written([checked_text(tag) for tag in tags]) if tags else "[]",
        key,
        bits or None,
    )


def _whole(row: JobRow) -> tuple[Any, ...]:
    """Return the parameters of `_RESTORE`."""
    errors = [
        {**asdict(error), "at": None if error.at is None else rfc3339_nano(error.at)}
        for error in row.errors
    ]
    texts = {
        "attempted_by": written(row.attempted_by) if row.attempted_by else None,
        "errors": written(errors) if errors else None,
        "tags": written(row.tags),
    }
    values = ({**row._asdict(), **texts}).values()
    return tuple(stamp(value) if isinstance(value, datetime) else value for value in values)
