"""Inserting jobs: what is sent and what comes back, whichever driver carries it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

from riverui.domain.clock import FIRST, LAST
from riverui.domain.jobs import STATE_BITS, JobRow
from riverui.storage.interface.params import JobInserted, JobInsertParams
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_rows import job_row
from riverui.storage.postgres.statements import Statement, Steps

_PLAIN = {"unique_columns": "", "unique_values": "", "conflict": "", "twin": "null::text"}
_ALIKE = {"source": "job_insert_alike"}
_BY_KEY = {"by_key": "job_insert_by_key", "keyed": "job_insert_keyed"}
_SMALLINT = 32_767
_new = tuple.__new__


def insert_many(
    jobs: Sequence[JobInsertParams], *, schema: str | None, notify: Sequence[str]
) -> Steps[Sequence[JobInserted]]:
    """River's JobInsertFastMany with its notifications, in one statement; see EngineExecutor."""
    if not jobs:
        return []
    unique = any(job.unique_key is not None for job in jobs)
    places: list[int] | None = None
    sent = jobs
    if unique:
        sent, places = _first_of_each(jobs)
    payloads = [insert_payload(queue) for queue in dict.fromkeys(notify)]
    told = {"schema": schema, "payloads": array_literals.texts(payloads)} if payloads else {}
    rows = yield _insert(sent, unique=unique, conflict=unique, told=told)
    if len(rows) != len(sent):
        raise AssertionError(f"{len(sent)} jobs inserted, {len(rows)} rows returned")
    if unique:
        rows = [row for _, row in sorted(zip(_by_key(sent), rows, strict=True))]
    inserted = _inserted(sent, rows)
    if places is None:
        return inserted
    seen: set[int] = set()
    answers = []
    for place in places:
        answer = inserted[place]
        answers.append(JobInserted(answer.row, True) if place in seen else answer)
        seen.add(place)
    return answers


def insert_payload(queue: str) -> str:
    """What is sent on `river_insert` for one queue."""
    return json.dumps({"queue": queue}, ensure_ascii=False)


def _first_of_each(jobs: Sequence[JobInsertParams]) -> tuple[list[JobInsertParams], list[int]]:
    """The jobs without those whose key an earlier one takes, and where among them each job's row
    is.

    One statement must not meet the same row twice, or Postgres refuses all of it.
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
    """Return the places of the jobs in the order of their keys, nulls last: see
    job_insert_by_key.
    """

    def place(at: int) -> tuple[bool, bytes, int]:
        key = jobs[at].unique_key
        return key is None, key or b"", at

    return sorted(range(len(jobs)), key=place)


def _insert(
    jobs: Sequence[JobInsertParams], *, unique: bool, conflict: bool, told: Mapping[str, Any]
) -> Statement:
    """`conflict` says whether a taken key is a twin, or an error."""
    (
        kind,
        args,
        created_at,
        scheduled_at,
        state,
        most,
        metadata,
        priority,
        queue,
        tags,
        key,
        bits,
    ) = zip(*jobs, strict=True)
    clauses = {} if unique else dict(_PLAIN)
    if not conflict:
        clauses |= {"conflict": "", "twin": "null::text"}
    by_key = unique and len(jobs) > 1
    parts = _BY_KEY if by_key else {}
    if by_key:
        clauses["id"] = ", id"
    if not told:
        clauses["notify"] = ""
    columns: dict[str, tuple[Sequence[Any], Callable[[Sequence[Any]], str]]] = {
        "created_at": (created_at, array_literals.instants),
        "kind": (kind, array_literals.texts),
        "max_attempts": (most, _small),
        "metadata": (metadata, array_literals.texts),
        "priority": (priority, _small),
        "queue": (queue, array_literals.texts),
        "scheduled_at": (scheduled_at, array_literals.instants),
        "state": (state, array_literals.texts),
        "tags": (tags, _lists),
        "unique_states": (bits, array_literals.numbers),
    }
    differing = [
        name for name, (values, _) in columns.items() if values.count(values[0]) != len(values)
    ]
    parameters: dict[str, Any] = {
        **told,
        "args": array_literals.texts(args),
        "size": len(jobs),
        "unique_key": array_literals.keys(key) if unique else "{}",
    }
    if not differing:
        parameters |= {
            "created_at": created_at[0],
            "kind": array_literals.storable_text(kind[0]),
            "max_attempts": min(most[0], _SMALLINT),
            "metadata": array_literals.storable_text(metadata[0]),
            "priority": min(priority[0], _SMALLINT),
            "queue": array_literals.storable_text(queue[0]),
            "scheduled_at": scheduled_at[0],
            "state": state[0].value,
            "tags": array_literals.texts(tags[0]),
            "unique_states": bits[0],
        }
        return Statement("job_insert_many", parameters, clauses, _ALIKE | parts, prepare=True)
    for name, (values, literal) in columns.items():
        parameters[name] = literal(values if name in differing else values[:1])
    return Statement("job_insert_many", parameters, clauses, parts, prepare=True)


def _small(values: Sequence[int]) -> str:
    # River clamps as well.
    return array_literals.numbers(min(value, _SMALLINT) for value in values)


def _lists(values: Sequence[tuple[str, ...]]) -> str:
    return array_literals.texts([array_literals.texts(tags) for tags in values])


def _inserted(jobs: Sequence[JobInsertParams], rows: Sequence[Sequence[Any]]) -> list[JobInserted]:
    return [
        _new(
            JobInserted,
            (
                _new(
                    JobRow,
                    (
                        job_id, state, 0, most if most < _SMALLINT else _SMALLINT, None,
                        created_at, None, scheduled_at, priority, args, (), (), kind, metadata,
                        queue, tags, key, bits or None,
                    ),
                ),
                False,
            ),
        )
        if twin is None
        else JobInserted(_twin(twin), True)
        for (
            (
                kind, args, created_at, scheduled_at, state, most, metadata, priority, queue, tags,
                key, bits,
            ),
            (job_id, twin),
        ) in zip(jobs, rows, strict=True)
    ]  # fmt: skip


def _twin(text: str) -> JobRow:
    """The row that was there before, which comes as JSON: the one form that every driver reads
    alike.
    """
    row = json.loads(text)
    for place in (4, 5, 6, 7):
        row[place] = None if row[place] is None else _instant(row[place])
    row[16] = bytes.fromhex(row[16])
    return job_row(row)


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return FIRST if text.startswith("-") or text.endswith("BC") else LAST


def insert_many_fast(
    jobs: Sequence[JobInsertParams],
    *,
    schema: str | None,
    notify: Sequence[str],
    copies: bool = True,
) -> Steps[int]:
    """River's JobInsertFastManyNoReturning, then its notifications; see EngineExecutor.

    Without `copies`, for a driver that has no COPY, an INSERT does the same.
    """
    unique = any(job.unique_key is not None for job in jobs)
    if jobs and copies:
        clauses = {} if unique else {"unique_columns": ""}
        yield Statement("job_insert_many_fast", {}, clauses, copy=_lines(jobs, unique=unique))
    elif jobs:
        yield _insert(jobs, unique=unique, conflict=False, told={})
    if notify:
        payloads = [insert_payload(queue) for queue in dict.fromkeys(notify)]
        yield Statement(
            "notify_many",
            {"schema": schema, "topic": "river_insert", "payloads": array_literals.texts(payloads)},
        )
    return len(jobs)


def _lines(jobs: Sequence[JobInsertParams], *, unique: bool) -> str:
    """The jobs in COPY's text format, in the order of the block's columns."""
    (
        kind,
        args,
        created_at,
        scheduled_at,
        state,
        most,
        metadata,
        priority,
        queue,
        tags,
        key,
        bits,
    ) = zip(*jobs, strict=True)
    columns: list[Iterable[str]] = [
        array_literals.copy_texts(args),
        _field(created_at, _times),
        _field(kind, array_literals.copy_texts),
        _field(most, lambda values: [str(min(value, _SMALLINT)) for value in values]),
        _field(metadata, array_literals.copy_texts),
        _field(priority, lambda values: [str(min(value, _SMALLINT)) for value in values]),
        _field(queue, array_literals.copy_texts),
        _field(scheduled_at, _times),
        _field(state, array_literals.copy_texts),
        _field(
            tags,
            lambda values: array_literals.copy_texts(
                [array_literals.texts(value) for value in values]
            ),
        ),
    ]
    if unique:
        columns.append([r"\N" if value is None else rf"\\x{value.hex()}" for value in key])
        columns.append([f"{value:08b}" if value else r"\N" for value in bits])
    return "".join([f"{line}\n" for line in map("\t".join, zip(*columns, strict=False))])


def _field(values: Sequence[Any], written: Callable[[Sequence[Any]], list[str]]) -> Iterable[str]:
    same = values.count(values[0]) == len(values)
    return repeat(written(values[:1])[0]) if same else written(values)


def _times(values: Sequence[datetime]) -> list[str]:
    return [value.isoformat() for value in values]
