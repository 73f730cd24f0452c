"""Check which jobs were inserted.

An expected job is a type of args, of which only the kind matters, or args, which must be equal. All
options must match.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.args.job_args import JsonArgs, decoder, encode, kind_of
from riverui.engine.work.worker import Job
from riverui.storage.connect import connect
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.testing.transaction import Database, client_of

A = TypeVar("A")

_MAX_JOBS = 10_000
"""Maximum jobs that a check reads: more than a test inserts."""


class Options(TypedDict, total=False):
    """Expected values of columns, besides the args."""

    max_attempts: int
    priority: int
    queue: str
    scheduled_at: datetime
    state: JobState | str
    tags: Sequence[str]


class Expected:
    """A job for require_many_inserted, with its own options."""

    def __init__(self, args: Any, **options: Unpack[Options]) -> None:
        self.args = args
        self.options = options


@overload
async def require_inserted(
    database: Database, expected: type[A], **options: Unpack[Options]
) -> Job[A]: ...
@overload
async def require_inserted(
    database: Database, expected: A, **options: Unpack[Options]
) -> Job[A]: ...
async def require_inserted(
    database: Database, expected: Any, **options: Unpack[Options]
) -> Job[Any]:
    """Return the only job of that kind; raise AssertionError if it is missing, not the only one, or
    different.
    """
    async with _executor(database) as executor:
        return await require_inserted_tx(executor, expected, **options)


@overload
async def require_inserted_tx(
    tx: object, expected: type[A], *, schema: str | None = None, **options: Unpack[Options]
) -> Job[A]: ...
@overload
async def require_inserted_tx(
    tx: object, expected: A, *, schema: str | None = None, **options: Unpack[Options]
) -> Job[A]: ...
async def require_inserted_tx(
    tx: object, expected: Any, *, schema: str | None = None, **options: Unpack[Options]
) -> Job[Any]:
    """Return the only job of that kind that an open transaction inserted; see require_inserted."""
    kind = kind_of(expected)
    rows = await _rows(await _adopted(tx, schema), [kind])
    if not rows:
        _fail(f"no job of kind {kind!r} was inserted")
    if len(rows) > 1:
        _fail(
            f"{len(rows)} jobs of kind {kind!r} were inserted: require_many_inserted is for several"
        )
    return _matching(rows[0], expected, options)


async def require_not_inserted(
    database: Database, expected: Any, **options: Unpack[Options]
) -> None:
    """Raise AssertionError if a job of that kind matches all options."""
    async with _executor(database) as executor:
        await require_not_inserted_tx(executor, expected, **options)


async def require_not_inserted_tx(
    tx: object, expected: Any, *, schema: str | None = None, **options: Unpack[Options]
) -> None:
    """Raise AssertionError if an open transaction has inserted such a job; see
    require_not_inserted.
    """
    kind = kind_of(expected)
    rows = await _rows(await _adopted(tx, schema), [kind])
    if found := [row.id for row in rows if not _differences(row, expected, options)]:
        like = "".join(f", {name} {value!r}" for name, value in options.items())
        _fail(
            f"{len(found)} of kind {kind!r}{like} inserted, where none was expected: job {found[0]}"
        )


async def require_many_inserted(database: Database, expected: Sequence[Any]) -> Sequence[Job[Any]]:
    """Return the jobs of the expected kinds; raise AssertionError unless they are exactly these, in
    this order. Use Expected to give a job options.
    """
    async with _executor(database) as executor:
        return await require_many_inserted_tx(executor, expected)


async def require_many_inserted_tx(
    tx: object, expected: Sequence[Any], *, schema: str | None = None
) -> Sequence[Job[Any]]:
    """Return the expected jobs of those that an open transaction has inserted; see
    require_many_inserted.
    """
    wanted = [one if isinstance(one, Expected) else Expected(one) for one in expected]
    kinds = [kind_of(one.args) for one in wanted]
    rows = await _rows(await _adopted(tx, schema), kinds)
    found = [row.kind for row in rows]
    if found != kinds:
        _fail(f"jobs were inserted of kinds {found}, where {kinds} was expected")
    return [
        _matching(row, one.args, one.options, f" (number {place} of those expected)")
        for place, (row, one) in enumerate(zip(rows, wanted, strict=True), 1)
    ]


@asynccontextmanager
async def _executor(database: Database) -> AsyncIterator[Executor]:
    async with client_of(database) as client, client.driver.autocommit() as executor:
        yield executor


async def _adopted(tx: object, schema: str | None) -> Executor:
    if hasattr(tx, "jobs"):
        return cast("Executor", tx)
    return await connect(schema=schema).adopt(tx)


async def _rows(executor: Executor, kinds: Sequence[str]) -> Sequence[JobRow]:
    if not kinds:
        return []
    return await executor.jobs.row_list(
        JobSelectParams(kinds=tuple(dict.fromkeys(kinds)), limit=_MAX_JOBS)
    )


def _matching(row: JobRow, expected: Any, options: Options, place: str = "") -> Job[Any]:
    if differences := _differences(row, expected, options):
        _fail(f"job {row.id} of kind {row.kind!r}{place} has {', '.join(differences)}")
    if isinstance(expected, JsonArgs):
        return Job(row, JsonArgs(row.kind, json.loads(row.args)))
    return Job(row, decoder(expected if isinstance(expected, type) else type(expected))(row.args))


def _differences(row: JobRow, expected: Any, options: Options) -> list[str]:
    said = []
    if not isinstance(expected, type) and json.loads(row.args) != json.loads(
        wanted := encode(expected)
    ):
        said.append(f"args {row.args}, not {wanted}")
    found = row._asdict() | {"tags": list(row.tags)}
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}")
        if isinstance(value, tuple):
            value = list(value)
        if found[name] != value:
            said.append(f"{name} {_shown(found[name])}, not {_shown(value)}")
    return said


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value.value if isinstance(value, JobState) else value)


def _fail(words: str) -> None:
    raise AssertionError(f"River: {words}.")
