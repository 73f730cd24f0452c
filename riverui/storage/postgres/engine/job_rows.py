"""Make whole jobs from rows, fast: an engine makes tens of thousands per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from riverui.domain.attempt_errors import attempt_error
from riverui.domain.jobs import AttemptError, JobRow, JobState
from riverui.storage.interface.sql_blocks import EMPTY, Fragment, Rows
from riverui.storage.postgres.browse.rows import texts

JOB_COLUMNS = Fragment("job_columns")
"""Columns for `job_rows`, of a table or a subquery called j."""
JOB_ERRORS = Fragment("job_errors")
JOB_METADATA = Fragment("job_metadata")
"""A job's columns in a form that can be extended."""

_STATES: dict[str, JobState] = {state.value: state for state in JobState}
_new_row = partial(tuple.__new__, JobRow)


def excepted(ids: Sequence[int]) -> dict[str, Fragment]:
    """Return the fragment for the slot `excepted` of a block that leaves out these jobs."""
    return {} if ids else {"excepted": EMPTY}


def from_columns(columns: Mapping[str, Any]) -> list[JobRow]:
    """Return jobs from the values of each field, in the same order for all of them.

    A field that is the same for all may be an endless `repeat`.
    """
    fields = [columns[name] for name in JobRow._fields]
    return list(map(_new_row, zip(*fields, strict=False)))


def job_rows(rows: Rows) -> list[JobRow]:
    """Return rows of the block `job_columns`, without those in a state that a later River added."""
    columns = rows.columns()
    found = from_columns(
        {
            **columns,
            "state": [_STATES.get(state, state) for state in columns["state"]],
            "attempted_by": map(texts, columns["attempted_by"]),
            "errors": map(attempt_errors, columns["errors"]),
            "tags": map(texts, columns["tags"]),
        }
    )
    return [row for row in found if type(row.state) is JobState]


def fetched_rows(rows: Rows, client_id: str, queue: str) -> list[JobRow]:
    """Return rows of `job_get_available`, which omits known and usual values."""
    if not rows:
        return []
    columns = rows.columns()
    first = (client_id,)
    return from_columns(
        {
            **columns,
            "state": repeat(JobState.RUNNING),
            "finalized_at": repeat(None),
            "queue": repeat(queue),
            "attempted_by": [texts(names) if names else first for names in columns["attempted_by"]],
            "errors": [attempt_errors(errors) if errors else () for errors in columns["errors"]],
            "tags": [texts(tags) if tags else () for tags in columns["tags"]],
        }
    )


def attempt_errors(values: Any) -> tuple[AttemptError, ...]:
    """Return errors from JSON texts, each of which may be anything: other values are shown as
    they are.
    """
    return tuple(attempt_error(text) for text in texts(values))
