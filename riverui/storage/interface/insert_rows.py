"""The fast path of inserts: the tuples of many jobs, made and read without their constructors.

A program that inserts 40,000 jobs a second has 25 µs for each, most of it for the JSON of the args
and the database. Rows made by plain constructors and read by attributes would take 5 µs more, so
this module, and no other that inserts jobs, uses three tricks:

* `tuple.__new__` makes a row from a tuple. The constructor of a NamedTuple is a Python function,
  which takes twice as long, and five times as long with keywords.
* A `for` clause unpacks a row into names. Attributes would be twelve look-ups of a descriptor.
* `zip(*rows)` makes columns of rows in C.

Each of them relies on the order of the fields: `tests/storage/test_insert_rows.py` compares what
they make with what the constructors make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams

_new = tuple.__new__


def rows_like(
    row: JobInsertParams, encode: Callable[[Any], str]
) -> Callable[[Any], JobInsertParams]:
    """Return a function that makes rows like this one with other args, encoded by `encode`."""
    kind, _, *same = row
    return lambda args: _new(JobInsertParams, (kind, encode(args), *same))


def unique_rows_like(row: JobInsertParams) -> Callable[[str, bytes | None], JobInsertParams]:
    """Return a function that makes rows like this one with other args and unique keys."""
    kind, _, *same, _, states = row
    return lambda args, key: _new(JobInsertParams, (kind, args, *same, key, states))


def columns(jobs: Sequence[JobInsertParams]) -> dict[str, Sequence[Any]]:
    """Return the values of each field, in the order of the jobs; there must be at least one."""
    return dict(zip(JobInsertParams._fields, zip(*jobs, strict=True), strict=True))


def results(
    jobs: Sequence[JobInsertParams], ids: Sequence[int], most_attempts: int
) -> list[InsertResult]:
    """Return the rows of jobs that were inserted with these ids, where the column of maximum
    attempts holds `most_attempts`.
    """
    return [
        _new(
            InsertResult,
            (
                _new(
                    JobRow,
                    (
                        job_id, state, 0, most if most < most_attempts else most_attempts, None,
                        created_at, None, scheduled_at, priority, args, (), (), kind, metadata,
                        queue, tags, key, bits or None,
                    ),
                ),
                False,
            ),
        )
        for (
            (
                kind, args, created_at, scheduled_at, state, most, metadata, priority, queue, tags,
                key, bits,
            ),
            job_id,
        ) in zip(jobs, ids, strict=True)
    ]  # fmt: skip
