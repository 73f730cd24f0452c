"""Reading jobs: lists, counts, one job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import MOST_NAME, MOST_TAGS, JobListRow, JobShowRow, JobState
from riverui.domain.numbers import is_bigint
from riverui.errors import BadRequest
from riverui.storage.interface.params import (
    Count,
    CountKind,
    Field,
    JobCutoff,
    JobFilter,
    JobListParams,
    JobOrder,
    JobPage,
    JsonPath,
    TextPiece,
)
from riverui.storage.postgres.job_list.plan import Walks, order_by, read_page
from riverui.storage.postgres.job_list.rows import MOST_VALUE, job_list_row, job_row, known_state
from riverui.storage.postgres.statements import Row
from riverui.storage.sql import Queries, rename

_PREVIEW = 300
"""Characters in a list of an error, and of args that are no object."""

_LEAN = {"args": "''", "tags": "'{}'::text[]", "error": "null, false"}
"""What fills the places of long columns in a lean list."""

_LEAN_JOB = {
    "args": "null::jsonb as args",
    "errors": "null::jsonb[] as errors",
    "metadata": "null::jsonb",
}
"""What fills the places of a job's JSON where it is left out."""

_COUNT_WINDOW = 50_000
"""Rows that counting may look at when no index serves the filter."""

_TEXTS = frozenset({"args", "metadata", "output", "errors", "job"})


class Jobs(Walks):
    """Reading operations on river_job."""

    async def job_list(self, params: JobListParams) -> JobPage:
        """One page of jobs by keyset; see JobListParams."""
        walk = await self._list_walk(params)
        if walk is None:
            return JobPage(rows=(), more=False)
        values, parameters = _values(params.paths, self._queries)
        found = await self._rows(
            "job_list",
            {**walk.parameters, **parameters, "preview": _PREVIEW},
            walks=walk.sql,
            values=values,
            order=order_by("w", by_id=walk.by_id, descending=walk.descending),
            **(_LEAN if params.lean else {}),
        )
        rows, more, searched = read_page(found, params, walk, _listed)
        return JobPage(rows=rows, more=more, searched=searched)

    async def job_count(
        self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None
    ) -> Count:
        """How many jobs match: AT_LEAST from `cap` on, and where a window ended the search."""
        if not filter.terms and cutoff is None:
            if filter.states:
                states = [state.value for state in dict.fromkeys(filter.states)]
                row = await self._row("job_probe_state", {"states": states, "most": cap + 1})
            else:
                row = await self._row("job_count_all_capped", {"cap": cap})
            matched, ended = (row[0] if row else 0), False
        else:
            order = JobOrder.TIME_DESC if filter.states else JobOrder.ID_DESC
            walk = await self._walk(
                filter, order=order, limit=cap, window=_COUNT_WINDOW, cutoff=cutoff, ordered=False
            )
            if walk is None:
                return Count(value=0)
            row = await self._row("job_walk_count", walk.parameters, walks=walk.sql)
            matched, ended = row or (0, False)
        if matched > cap:
            return Count(value=cap, kind=CountKind.AT_LEAST)
        return Count(value=matched, kind=CountKind.AT_LEAST if ended else CountKind.EXACT)

    async def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """All eight states in one statement: exact up to `cap`, `completed` beyond it ESTIMATED."""
        counts = dict.fromkeys(JobState, Count(value=0))
        for name, counted, estimated in await self._rows("job_count_by_state", {"cap": cap}):
            if not known_state(name):
                continue
            if counted <= cap:
                count = Count(value=counted)
            elif estimated is not None and estimated > cap:
                count = Count(value=estimated, kind=CountKind.ESTIMATED)
            else:
                count = Count(value=cap, kind=CountKind.AT_LEAST)
            counts[JobState(name)] = count
        return counts

    async def job_count_exact(self, state: JobState) -> Count:
        """An exact count, however long it takes (up to the transaction's time limit)."""
        row = await self._row("job_count_state_exact", {"state": state.value})
        return Count(value=row[0] if row else 0)

    async def job_cutoff(self) -> JobCutoff:
        """The newest id and the database's clock: freezes what a bulk action may touch."""
        row = await self._row("job_cutoff")
        assert row is not None
        return JobCutoff(id=row[0], at=row[1])

    async def job_get(
        self, id: int, *, cut: int = 200_000, lean: bool = False
    ) -> JobShowRow | None:
        """Return one job, its long texts cut to `cut` characters (logs keep their end), or None.

        `lean` leaves out what is in its JSON, for a job too large to be read in time.
        """
        if not is_bigint(id):
            return None
        parameters = {"id": id, "cut": cut, "name_length": MOST_NAME, "tags": MOST_TAGS}
        row = await self._row("job_get", parameters, **(_LEAN_JOB if lean else {}))
        return job_row(row) if row and known_state(row[1]) else None

    async def job_get_log(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt, its entries joined; None
        without one.

        Entries that name no whole number count as attempt 0.
        """
        if not (is_bigint(id) and is_bigint(attempt)):
            return None
        return await self._piece("job_get_log", {"id": id, "attempt": attempt}, start, size)

    async def job_get_text(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of `args`, `metadata`, `output`, `errors` or
        `job`.

        None without such a job, or without output.
        """
        if field not in _TEXTS:
            raise BadRequest(f"A job has no text “{field}”.")
        if not is_bigint(id):
            return None
        return await self._piece(f"job_get_text_{field}", {"id": id}, start, size)

    async def _piece(
        self, text: str, parameters: Mapping[str, Any], start: int, size: int
    ) -> TextPiece | None:
        row = await self._row(
            "job_text_piece",
            {**parameters, "start": start, "size": size},
            text=self._queries.text(text),
        )
        return TextPiece(data=row[0], size=row[1], version=row[2]) if row else None


def _values(paths: Sequence[JsonPath], queries: Queries) -> tuple[str, dict[str, Any]]:
    """Return the columns of `job_list` that read these paths, and their parameters."""
    if not paths:
        return "", {}
    columns: list[str] = []
    parameters: dict[str, Any] = {"length": MOST_VALUE + 1}
    for place, path in enumerate(paths):
        column = "metadata" if path.field is Field.METADATA else "args"
        if None in path.keys:
            text = queries.text("job_values_at_path", column=column)
            steps = ("[*]" if key is None else f".{json.dumps(key)}" for key in path.keys)
            parameters[f"path_{place}"] = f"${''.join(steps)}"
        else:
            text = queries.text("job_value_at_path", column=column)
            parameters[f"path_{place}"] = list(path.keys)
        columns.append(f", {rename(text, 'path', f'path_{place}')}")
    return "".join(columns), parameters


def _listed(row: Row) -> JobListRow | None:
    return job_list_row(row) if known_state(row[4]) else None
