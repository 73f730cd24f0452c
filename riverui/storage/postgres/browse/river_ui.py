"""What River UI's API reads and changes, in its own shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import FINALIZED, ErrorText, JobMinimalRow, JobState, JobTextRow
from riverui.domain.numbers import is_bigint
from riverui.domain.queues import QueueCountRow, QueueRow
from riverui.errors import NotFound
from riverui.storage.interface.params import JobListParams, JobMinimalPage, JobOrder
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.job_list.filters import contains_pattern, storable
from riverui.storage.postgres.job_list.plan import Walk, Walks, order_by, read_page
from riverui.storage.postgres.job_list.rows import CUT, known_state, queue_row, texts, whole
from riverui.storage.postgres.statements import Row

_MOST = 5000
"""Distinct kinds that are looked through."""

_LIST_LIMITS = {"arrays": 250_000, "tags": 100}
"""Of each job in a list: bytes of an array as stored, above which it is left out, and tags."""

JOB_LIMITS = {
    "args": 10_000_000,
    "arrays": 2**30,
    "errors": 1_000,
    "error_size": 1_000_000,
    "metadata": 10_000_000,
    "tags": 1_000,
}
"""Of one job: characters of args, metadata and an error, and how many errors and tags."""

TASK_LIMITS = {
    "args": 20_000,
    "arrays": 250_000,
    "errors": 25,
    "error_size": 10_000,
    "metadata": 200_000,
    "tags": 100,
}
"""The same of each task of a workflow, which may have thousands."""


class RiverUI(Walks):
    """Operations in the shapes of River UI's API."""

    async def job_minimal_list(
        self, params: JobListParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobMinimalPage:
        """Return one page of jobs by keyset; `lean` means nothing here.

        Args of more than `args` characters are left out. The page ends before it is full once its
        args may take `unpacked` bytes; there is always one.
        """
        walk = self._state_walk(params) or await self._list_walk(params)
        if walk is None:
            return JobMinimalPage(rows=(), more=False)
        found = await self._rows(
            "job_minimal_list",
            {**walk.parameters, **_LIST_LIMITS, "args": args, "unpacked": unpacked},
            walks=walk.sql,
            order=order_by("w", by_id=walk.by_id, descending=walk.descending),
            columns=self._queries.text("job_minimal_columns"),
        )
        rows, more, searched = read_page(found, params, walk, lambda row: _listed(row, args))
        ended = searched is None and bool(found) and found[0][-1] > len(found)
        return JobMinimalPage(rows=rows, more=more or ended, searched=searched)

    async def job_text_get(self, id: int) -> JobTextRow | None:
        """One whole job with its JSON as text, or None."""
        if not is_bigint(id):
            return None
        row = await self._row(
            "job_text_get",
            {"id": id, **JOB_LIMITS},
            columns=self._queries.text("job_minimal_columns"),
            texts=self._queries.text("job_text_columns"),
        )
        return None if row is None else text_row(row, JOB_LIMITS)

    async def job_kind_page(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Distinct kinds by name: those behind `after` that contain `match` (any case), but
        `exclude`.
        """
        return await self._name_page(
            "job_kind_page", match, after, exclude, {"limit": limit, "most": _MOST}
        )

    async def queue_name_page(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Names of served queues, chosen as those of `job_kind_page`."""
        return await self._name_page("queue_name_page", match, after, exclude, {"limit": limit})

    async def queue_count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """River's queue rows by name with their counts, exact up to `cap`."""
        return [
            _counted(row)
            for row in await self._rows("queue_count_list", {"cap": cap, "limit": limit})
        ]

    async def queue_count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """One queue's row with its counts; None without a row."""
        if not storable(name):
            return None
        parameters = {"cap": cap, "limit": 1, "name": name}
        named = self._queries.text("queue_count_named")
        row = await self._row("queue_count_list", parameters, named=named)
        return _counted(row) if row else None

    async def queue_set_concurrency(self, name: str, concurrency: str | None) -> QueueRow:
        """Puts the limits (a JSON object as text) into the queue's metadata, None takes them out,
        and tells the workers. NotFound without a row.
        """
        return await self._queue_changed(
            "queue_set_concurrency", name, {"concurrency": concurrency, "schema": self._schema}
        )

    async def queue_touch(self, name: str) -> QueueRow:
        """Sets the queue's updated_at and nothing else. NotFound without a row."""
        return await self._queue_changed("queue_touch", name, {})

    def _state_walk(self, params: JobListParams) -> Walk | None:
        """The walk over whole states that have not ended, by id; None for any other list."""
        states = params.filter.states
        by_id = params.order in (JobOrder.ID, JobOrder.ID_DESC)
        if (
            not by_id
            or not states
            or FINALIZED.intersection(states)
            or params.filter.terms
            or params.cutoff
        ):
            return None
        parameters: dict[str, Any] = {
            "limit": params.limit,
            "states": [state.value for state in states],
        }
        descending, cursor = params.order.descending, ""
        if params.cursor is not None:
            descending = descending != params.cursor.before
            parameters["cursor_id"] = params.cursor.id
            cursor = self._queries.text("job_cursor_state_id", beyond="<" if descending else ">")
        sql = self._queries.text(
            "job_walk_state_id", cursor=cursor, desc="desc" if descending else ""
        )
        return Walk(sql=sql, parameters=parameters, by_id=True, descending=descending)

    async def _queue_changed(self, block: str, name: str, parameters: dict[str, Any]) -> QueueRow:
        row = await self._row(block, {"name": name, **parameters}) if storable(name) else None
        if row is None:
            raise NotFound(f"Queue not found: {name}.")
        return queue_row(row)

    async def _name_page(
        self, block: str, match: str, after: str, exclude: Sequence[str], parameters: dict[str, Any]
    ) -> Sequence[str]:
        if not storable(after):
            return []
        chosen = {
            "after": after,
            "exclude": array_literals.texts([name for name in exclude if storable(name)]),
            "pattern": contains_pattern(match),
        }
        return [row[0] for row in await self._rows(block, {**parameters, **chosen})]


def minimal_row(row: Row, most_args: int) -> JobMinimalRow:
    """Return a row of the block `job_minimal_columns`."""
    found = JobMinimalRow(*row[:14])
    complete = row[1] is not None and len(row[1]) <= most_args
    fields = (("args", not complete), ("attempted_by", row[14]), ("tags", row[15]))
    return found._replace(
        args=row[1] if complete else "{}",
        attempted_by=texts(found.attempted_by),
        state=JobState(row[12]),
        tags=texts(found.tags),
        cut=tuple(name for name, is_cut in fields if is_cut)
        if any(row[14:16]) or not complete
        else (),
    )


def text_row(row: Row, limits: Mapping[str, int]) -> JobTextRow | None:
    """Return a row of the blocks `job_minimal_columns` and `job_text_columns`; None in an unknown
    state.
    """
    if not known_state(row[12]):
        return None
    job = minimal_row(row, limits["args"])
    metadata, total, listed = row[16:]
    errors = json.loads(listed or "[]")
    size = limits["error_size"]
    complete = metadata is not None and len(metadata) <= limits["metadata"]
    cut = list(job.cut)
    if (total or 0) > len(errors) or any(
        len(text or "") > size for error in errors for text in error[2:]
    ):
        cut.append("errors")
    if not complete:
        cut.append("metadata")
    return JobTextRow(
        job=job._replace(cut=tuple(cut)),
        errors=tuple(_error(size, *error) for error in errors),
        metadata=metadata if complete else "{}",
    )


def _error(
    size: int, at: str | None, attempt: str | None, error: str | None, trace: str | None
) -> ErrorText:
    return ErrorText(
        at=at,
        attempt=whole(attempt),
        error=CUT if error is None else error[:size],
        trace=(trace or "")[:size],
    )


def _listed(row: Row, most_args: int) -> JobMinimalRow | None:
    return minimal_row(row[4:], most_args) if known_state(row[16]) else None


def _counted(row: Row) -> QueueCountRow:
    return QueueCountRow(queue=queue_row(row), available=row[6], running=row[7])
