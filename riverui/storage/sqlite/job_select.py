"""List, count and delete jobs by River's own list parameters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.errors import BadRequest
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.sqlite.file import valid_json
from riverui.storage.sqlite.job_filter import Condition, all_of, containing, in_states
from riverui.storage.sqlite.job_rows import STATES
from riverui.storage.sqlite.statements import Statements, id_list, reads, writes
from riverui.storage.sqlite.values import stamp
from riverui.storage.where import Where

_TIMES = frozenset({"attempted_at", "finalized_at", "scheduled_at"})
_TAGS = valid_json("tags")
_VALUES = "(select value from json_each(?))"
_LAST = "9999"
"""Takes the place of a missing time: jobs without one come last, as in Postgres."""


class JobSelect(Statements):
    """Operations on the jobs that a JobSelectParams names."""

    @reads
    def job_row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Return whole jobs in the order asked for; see JobSelectParams."""
        if params.order != "id" and params.order not in _TIMES:
            raise BadRequest(f"Jobs cannot be ordered by “{params.order}”.")
        place = f"coalesce({params.order}, '{_LAST}')" if params.order != "id" else "id"
        conditions = [_selected(params)]
        if params.after is not None:
            at, after_id = params.after
            value = after_id if place == "id" else _LAST if at is None else stamp(at)
            compared = f"({place}, id) {'<' if params.descending else '>'} (?, ?)"
            conditions.append(Condition(compared, [value, after_id]))
        where = all_of(conditions)
        way = "desc" if params.descending else "asc"
        return self._jobs(
            f"where {where.sql} order by {place} {way}, id {way} limit ?",
            [*where.values, params.limit],
        )

    @reads
    def job_row_count(self, params: JobSelectParams) -> Mapping[JobState, int]:
        """Count the jobs that match by state, up to `limit` of them."""
        where = _selected(params)
        states = self._value_list(
            f"select state from river_job where {where.sql} order by id limit ?",
            [*where.values, params.limit],
        )
        return Counter(STATES[state] for state in states)

    @writes
    def job_delete_selected(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Delete the jobs that match, except running ones, up to `limit` by id; return the deleted
        rows.
        """
        where = _selected(params)
        deleted = self._jobs(
            f"where {where.sql} and state <> 'running' order by id limit ?",
            [*where.values, params.limit],
        )
        self._remove(row.id for row in deleted)
        return deleted


def _selected(params: JobSelectParams) -> Condition:
    conditions = [in_states(params.states)]
    for column, wanted in (
        ("kind", params.kinds),
        ("priority", params.priorities),
        ("queue", params.queues),
    ):
        if wanted:
            conditions.append(Condition(f"{column} in {_VALUES}", [json.dumps(wanted)]))
    if params.ids:
        conditions.append(Condition(f"id in {_VALUES}", [id_list(params.ids)]))
    conditions += [
        Condition(f"exists (select 1 from json_each({_TAGS}) where value = ?)", [tag])
        for tag in params.tags_all
    ]
    if params.tags_any:
        any_tag = f"exists (select 1 from json_each({_TAGS}) where value in {_VALUES})"
        conditions.append(Condition(any_tag, [json.dumps(params.tags_any)]))
    if params.metadata is not None:
        conditions.append(containing(valid_json("metadata"), params.metadata))
    conditions += [_condition(where) for where in params.where]
    return all_of(conditions)


def _condition(where: Where) -> Condition:
    """Return a program's own condition, in the SQL of SQLite."""
    parts = where.split()
    values: list[Any] = [where.named_args[name] for name in parts[1::2]]
    return Condition(f"({'?'.join(parts[::2])})", values)
