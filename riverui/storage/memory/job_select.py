"""List, count and delete jobs by River's own list parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.json import read_json
from riverui.domain.time import FIRST
from riverui.errors import BadRequest, NotSupported
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.memory.statements import Statements, statement
from riverui.storage.memory.values import contains

_TIMES = frozenset({"attempted_at", "finalized_at", "scheduled_at"})


class JobSelect(Statements):
    """Operations on the jobs that a JobSelectParams names."""

    @statement
    def job_row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Return whole jobs in the order asked for; see JobSelectParams."""
        if params.order != "id" and params.order not in _TIMES:
            raise BadRequest(f"Jobs cannot be ordered by “{params.order}”.")
        rows = self._selected(params)
        if params.after is not None:
            at, after_id = params.after
            place = _place(at, after_id) if params.order != "id" else (after_id,)
            rows = [row for row in rows if _follows(_key(row, params.order), place, params)]
        rows.sort(key=lambda row: _key(row, params.order), reverse=params.descending)
        return rows[: params.limit]

    @statement
    def job_row_count(self, params: JobSelectParams) -> Mapping[JobState, int]:
        """Count the jobs that match by state, up to `limit` of them."""
        return Counter(row.state for row in self._selected(params)[: params.limit])

    @statement
    def job_delete_selected(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Delete the jobs that match, except running and held ones, up to `limit` by id; return
        the deleted rows.
        """
        deleted = [
            row
            for row in self._selected(params)
            if row.state is not JobState.RUNNING and self._free(row)
        ][: params.limit]
        for row in deleted:
            self._remove(row)
        return deleted

    def _selected(self, params: JobSelectParams) -> list[JobRow]:
        if params.where:
            raise NotSupported(
                "Conditions in SQL need a Postgres: a memory database has only the other filters."
            )
        wanted = None if params.metadata is None else read_json(params.metadata)
        return [
            row
            for row in self._jobs()
            if (not params.ids or row.id in params.ids)
            and (not params.kinds or row.kind in params.kinds)
            and (not params.priorities or row.priority in params.priorities)
            and (not params.queues or row.queue in params.queues)
            and (not params.states or row.state in params.states)
            and set(params.tags_all) <= set(row.tags)
            and (not params.tags_any or not set(params.tags_any).isdisjoint(row.tags))
            and (wanted is None or contains(read_json(row.metadata), wanted))
        ]


def _key(row: JobRow, order: str) -> tuple[Any, ...]:
    return (row.id,) if order == "id" else _place(getattr(row, order), row.id)


def _place(at: datetime | None, id: int) -> tuple[Any, ...]:
    """Return a place in a list by time; those without one come last, as in Postgres."""
    return at is None, at or FIRST, id


def _follows(key: tuple[Any, ...], place: tuple[Any, ...], params: JobSelectParams) -> bool:
    return key < place if params.descending else key > place
