"""Insert jobs: the parameters of the statements, and the rows that they return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

from riverui.domain.jobs import STATE_BITS, JobRow, JobState
from riverui.domain.time import FIRST, LAST, rfc3339_nano
from riverui.domain.values import MAX_SMALLINT
from riverui.errors import UniqueConflict
from riverui.storage.interface import insert_rows
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobInsertParams,
    unique_conflict,
)
from riverui.storage.interface.insert_rows import columns
from riverui.storage.interface.sql_blocks import EMPTY, Fragment, Rows
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.rows import texts
from riverui.storage.postgres.engine.job_rows import attempt_errors
from riverui.storage.postgres.statements import Part

_NO_EXISTING = {"conflict": EMPTY, "existing": Fragment("job_insert_no_existing")}
_NOT_UNIQUE = {"unique_values": EMPTY}
_EACH, _ALIKE = Fragment("job_insert_each"), Fragment("job_insert_alike")
_FILL_ONE_UNIQUE = {alike: {"source": source} for alike, source in ((False, _EACH), (True, _ALIKE))}
"""What fills job_insert_many, by whether the jobs are alike, if one job is unique …"""
_FILL_MANY_UNIQUE = {
    alike: {"rows": Fragment("job_insert_by_key", **slots)}
    for alike, slots in _FILL_ONE_UNIQUE.items()
}
"""… if several are …"""
_FILL_NOT_UNIQUE = {
    False: {"source": Fragment("job_insert_each", **_NOT_UNIQUE), "unique_columns": EMPTY},
    True: {"source": Fragment("job_insert_alike", **_NOT_UNIQUE), "unique_columns": EMPTY},
}
"""… and if none is."""
_encode = json.JSONEncoder(ensure_ascii=False).encode


class JobInsert(Part):
    """Operations that insert jobs."""

    async def insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert as River's JobInsertFastMany does, and notify the workers of the queues in
        `notify`, in one statement; return one result per job, in order.
        """
        if not jobs:
            return []
        given = columns(jobs)
        unique = given["unique_key"].count(None) < len(jobs)
        places: list[int] | None = None
        sent = jobs
        if unique:
            sent, places = _first_of_each(jobs)
            given = columns(sent)
        payloads = [insert_payload(queue) for queue in dict.fromkeys(notify)]
        notification = (
            {"schema": self._sql.schema, "payloads": array_literals.texts(payloads)}
            if payloads
            else {}
        )
        rows = await self._insert(given, unique=unique, conflict=unique, notify=notification)
        if len(rows) != len(sent):
            raise AssertionError(f"{len(sent)} jobs inserted, {len(rows)} rows returned")
        inserted = _inserted(sent, rows, _by_key(sent) if unique else None)
        if places is None:
            return inserted
        seen: set[int] = set()
        answers = []
        for place in places:
            answer = inserted[place]
            answers.append(InsertResult(answer.job, True) if place in seen else answer)
            seen.add(place)
        return answers

    async def insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """Insert as River's JobInsertFastManyNoReturning does, then notify; return how many.

        UniqueConflict if a key is taken. Two statements: for a transaction.
        """
        unique = any(job.unique_key is not None for job in jobs)
        try:
            if jobs and self._sql.copies:
                slots = {} if unique else {"unique_columns": EMPTY}
                name = "job_insert_many_fast"
                text, _ = self._sql.queries.render(Fragment(name, **slots))
                await self._sql.copy(name, text, _copy_rows(jobs, unique=unique))
            elif jobs:
                await self._insert(columns(jobs), unique=unique, conflict=False, notify={})
        except UniqueConflict as error:
            for job in jobs:
                if job.unique_key is not None and job.unique_key == error.unique_key:
                    raise unique_conflict(job) from error
            raise
        if notify:
            payloads = [insert_payload(queue) for queue in dict.fromkeys(notify)]
            values = {
                "schema": self._sql.schema,
                "topic": "river_insert",
                "payloads": array_literals.texts(payloads),
            }
            await self._sql.rows("notify_many", values)
        return len(jobs)

    async def restore_many(self, rows: Sequence[JobRow]) -> None:
        """Insert whole jobs with their ids, in two statements."""
        texts = array_literals.texts([_encode(_whole(row)) for row in rows])
        await self._sql.rows("job_restore_many", {"jobs": texts})
        await self._sql.rows("job_restore_sequence")

    async def _insert(
        self,
        given: Mapping[str, Sequence[Any]],
        *,
        unique: bool,
        conflict: bool,
        notify: Mapping[str, Any],
    ) -> Rows:
        """Insert jobs by their columns. With `conflict` a taken key returns the existing row;
        otherwise it is an error.
        """
        size = len(given["args"])
        differing = [
            name for name in _LITERALS if size > 1 and given[name].count(given[name][0]) != size
        ]
        values: dict[str, Any] = {
            **notify,
            "args": array_literals.texts(given["args"]),
            "size": size,
            "unique_key": array_literals.keys(given["unique_key"]) if unique else "{}",
        }
        if differing:
            for name, literal in _LITERALS.items():
                values[name] = literal(given[name] if name in differing else given[name][:1])
        else:
            values |= _same_values(given)
        by_source = _FILL_NOT_UNIQUE
        if unique:
            by_source = _FILL_MANY_UNIQUE if size > 1 else _FILL_ONE_UNIQUE
        slots = by_source[not differing]
        if not conflict:
            slots = slots | _NO_EXISTING
        if not notify:
            slots = {**slots, "notify": EMPTY}
        return await self._sql.prepared("job_insert_many", values, **slots)


def insert_payload(queue: str) -> str:
    """Return the notification on `river_insert` for one queue."""
    return _encode({"queue": queue})


def _whole(row: JobRow) -> Mapping[str, Any]:
    """Return a job for `job_restore_many`."""
    whole = row._asdict()
    for name in ("attempt", "max_attempts"):
        whole[name] = min(whole[name], MAX_SMALLINT)  # SQLite's are wider
    for name in ("attempted_at", "created_at", "finalized_at", "scheduled_at"):
        whole[name] = None if whole[name] is None else whole[name].isoformat()
    whole["errors"] = [
        {
            "at": None if error.at is None else rfc3339_nano(error.at),
            "attempt": error.attempt,
            "error": error.error,
            "trace": error.trace,
        }
        for error in row.errors
    ]
    whole["unique_key"] = None if row.unique_key is None else row.unique_key.hex()
    return whole


def _first_of_each(jobs: Sequence[JobInsertParams]) -> tuple[list[JobInsertParams], list[int]]:
    """Return the jobs without those whose key an earlier one has, and the index of each job's row
    among them.

    Postgres rejects a statement that would update the same row twice.
    """
    sent: list[JobInsertParams] = []
    places: list[int] = []
    taken: dict[bytes, int] = {}
    for job in jobs:
        key = job.unique_key
        if key is None or not job.unique_states & STATE_BITS[job.state]:
            places.append(len(sent))
            sent.append(job)
        elif (place := taken.get(key)) is not None:
            places.append(place)
        else:
            taken[key] = len(sent)
            places.append(len(sent))
            sent.append(job)
    return sent, places


def _by_key(jobs: Sequence[JobInsertParams]) -> list[int]:
    """Return the positions of the jobs, sorted by unique key; jobs without one come last. The
    block job_insert_by_key sorts in the same way.
    """

    def place(at: int) -> tuple[bool, bytes, int]:
        key = jobs[at].unique_key
        return key is None, key or b"", at

    return sorted(range(len(jobs)), key=place)


def _same_values(given: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the parameters of `job_insert_alike` that are the same for all jobs."""
    return {
        "created_at": given["created_at"][0],
        "kind": array_literals.check_text(given["kind"][0]),
        "max_attempts": min(given["max_attempts"][0], MAX_SMALLINT),
        "metadata": array_literals.check_text(given["metadata"][0]),
        "priority": min(given["priority"][0], MAX_SMALLINT),
        "queue": array_literals.check_text(given["queue"][0]),
        "scheduled_at": given["scheduled_at"][0],
        "state": given["state"][0].value,
        "tags": array_literals.texts(given["tags"][0]),
        "unique_states": given["unique_states"][0],
    }


def _smallints(values: Sequence[int]) -> str:
    # As River does.
    return array_literals.numbers(_clamped(values))


def _clamped(values: Sequence[int]) -> list[int]:
    return [value if value < MAX_SMALLINT else MAX_SMALLINT for value in values]


def _lists(values: Sequence[tuple[str, ...]]) -> str:
    return array_literals.texts([array_literals.texts(tags) for tags in values])


_LITERALS: dict[str, Callable[[Sequence[Any]], str]] = {
    "created_at": array_literals.instants,
    "kind": array_literals.texts,
    "max_attempts": _smallints,
    "metadata": array_literals.texts,
    "priority": _smallints,
    "queue": array_literals.texts,
    "scheduled_at": array_literals.instants,
    "state": array_literals.texts,
    "tags": _lists,
    "unique_states": array_literals.numbers,
}
"""Writes each parameter of `job_insert_each`."""


def _inserted(
    jobs: Sequence[JobInsertParams], rows: Rows, order: Sequence[int] | None
) -> list[InsertResult]:
    """Return the result of each job. `order` has the index of the job of each row; None if no
    job is unique and the rows are in the order of the jobs.
    """
    ids = rows.column("id")
    if order is None:
        return insert_rows.results(jobs, ids, MAX_SMALLINT)
    existing = rows.column("existing")
    by_place = sorted(range(len(order)), key=order.__getitem__)
    results = insert_rows.results(jobs, [ids[row] for row in by_place], MAX_SMALLINT)
    for place, row in enumerate(by_place):
        if existing[row] is not None:
            results[place] = InsertResult(_existing(existing[row]), True)
    return results


def _existing(text: str) -> JobRow:
    """Return the existing row from JSON, which all drivers read alike."""
    row = json.loads(text)
    for name in ("attempted_at", "created_at", "finalized_at", "scheduled_at"):
        row[name] = None if row[name] is None else instant_of(row[name])
    row["state"] = JobState(row["state"])
    row["attempted_by"] = texts(row["attempted_by"])
    row["errors"] = attempt_errors(row["errors"])
    row["tags"] = texts(row["tags"])
    row["unique_key"] = bytes.fromhex(row["unique_key"])
    return JobRow(**row)


def instant_of(text: str) -> datetime:
    """Return a time from Postgres's ISO form; the ends of Python's calendar for times beyond it."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return FIRST if text.startswith("-") or text.endswith("BC") else LAST


def _copy_rows(jobs: Sequence[JobInsertParams], *, unique: bool) -> str:
    """Return the jobs in COPY's text format, in the order of the block's columns."""
    given = columns(jobs)
    written: list[Iterable[str]] = [
        array_literals.copy_texts(given["args"]),
        _field(given["created_at"], _times),
        _field(given["kind"], array_literals.copy_texts),
        _field(given["max_attempts"], _numbers),
        _field(given["metadata"], array_literals.copy_texts),
        _field(given["priority"], _numbers),
        _field(given["queue"], array_literals.copy_texts),
        _field(given["scheduled_at"], _times),
        _field(given["state"], array_literals.copy_texts),
        _field(given["tags"], _arrays),
    ]
    if unique:
        keys = [r"\N" if key is None else rf"\\x{key.hex()}" for key in given["unique_key"]]
        bits = [f"{value:08b}" if value else r"\N" for value in given["unique_states"]]
        written += (keys, bits)
    return "".join([f"{line}\n" for line in map("\t".join, zip(*written, strict=False))])


def _field(values: Sequence[Any], written: Callable[[Sequence[Any]], list[str]]) -> Iterable[str]:
    same = values.count(values[0]) == len(values)
    return repeat(written(values[:1])[0]) if same else written(values)


def _numbers(values: Sequence[int]) -> list[str]:
    return [str(value) for value in _clamped(values)]


def _arrays(values: Sequence[tuple[str, ...]]) -> list[str]:
    return array_literals.copy_texts([array_literals.texts(tags) for tags in values])


def _times(values: Sequence[datetime]) -> list[str]:
    return [value.isoformat() for value in values]
