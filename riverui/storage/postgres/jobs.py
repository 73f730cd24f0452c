"""Reading jobs: lists, counts, one job."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.domain.jobs import JobListRow, JobShowRow, JobState
from riverui.domain.numbers import is_bigint
from riverui.errors import BadRequest
from riverui.storage.params import (
    Count,
    CountKind,
    JobCutoff,
    JobFilter,
    JobListParams,
    JobOrder,
    JobPage,
)
from riverui.storage.postgres.rows import job_list_row, job_row, known_state
from riverui.storage.postgres.statements import Row
from riverui.storage.postgres.walks import Walks, order_by, read_page

_PREVIEW = 300
"""Characters of args and errors in a list."""

_LEAN = {"args": "''", "tags": "null::text[]", "error": "null, false"}
"""What fills the places of long columns in a lean list."""

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
        found = await self._rows(
            "job_list",
            {**walk.parameters, "preview": _PREVIEW},
            walks=walk.sql,
            order=order_by("w", by_id=walk.by_id, descending=walk.descending),
            **(_LEAN if params.lean else {}),
        )
        rows, more, searched = read_page(found, params, walk, _listed)
        return JobPage(rows=rows, more=more, searched=searched)

    async def job_count(self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None) -> Count:
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

    async def job_get(self, id: int, *, cut: int = 200_000) -> JobShowRow | None:
        """One whole job, its long texts cut to `cut` characters (logs keep their end), or None."""
        if not is_bigint(id):
            return None
        row = await self._row("job_get", {"id": id, "cut": cut})
        return job_row(row) if row and known_state(row[1]) else None

    async def job_get_log(self, id: int, attempt: int) -> str | None:
        """The whole log of one attempt, its entries joined; None where there is none."""
        if not (is_bigint(id) and is_bigint(attempt)):
            return None
        rows = await self._rows("job_get_log", {"id": id, "attempt": attempt})
        return "".join(_line_ended(row[0] or "") for row in rows[:-1]) + (rows[-1][0] or "") if rows else None

    async def job_get_text(self, id: int, field: str) -> str | None:
        """The whole `args`, `metadata`, `output`, `errors` or `job` as JSON text, or None."""
        if field not in _TEXTS:
            raise BadRequest(f"A job has no text “{field}”.")
        if not is_bigint(id):
            return None
        row = await self._row(f"job_get_text_{field}", {"id": id})
        return row[0] if row else None


def _line_ended(log: str) -> str:
    return log if log.endswith("\n") else log + "\n"


def _listed(row: Row) -> JobListRow | None:
    return job_list_row(row) if known_state(row[4]) else None
