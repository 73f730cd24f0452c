"""Read jobs: lists with the values at JSON paths, counts, one job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from riverui.domain.jobs import MAX_NAME, MAX_TAGS, JobShowRow, JobState
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest
from riverui.storage.interface.params import (
    Count,
    CountKind,
    Field,
    JobCutoff,
    JobFilter,
    JobOrder,
    JobPage,
    JobPageParams,
    JobProgress,
    JsonPath,
    TextPiece,
)
from riverui.storage.interface.sql_blocks import Fragment, Rows, join, word
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.filters import (
    compile_filter,
    contains_pattern,
    is_storable,
    state_term,
)
from riverui.storage.postgres.browse.job_list import JobListPlans, read_page
from riverui.storage.postgres.browse.rows import (
    MAX_VALUE,
    job_list_row,
    job_show_row,
    known_state,
)

PREVIEW = 300
"""Most characters in a list of an error, and of args other than an object."""

_LEAN_LIST = {
    "args": Fragment("job_list_without_args"),
    "error": Fragment("job_list_without_error"),
    "tags": Fragment("job_list_without_tags"),
}
_LEAN_JOB = {
    "args": Fragment("job_get_without_args"),
    "errors": Fragment("job_get_without_errors"),
    "metadata": Fragment("job_get_without_metadata"),
}
"""Replacements for long columns that are left out."""

_TEXTS = {
    "args": "job_text_args",
    "errors": "job_text_errors",
    "job": "job_text_job",
    "metadata": "job_text_metadata",
    "output": "job_text_output",
}
"""The blocks of a job's texts by the callers' names for them."""


_MAX_KINDS = 5000
"""Distinct kinds that are read to find those that match."""
_PROGRESS_MILLISECONDS = 1000
"""Time limit of a count by River's GIN indexes."""

_STORED = 32_768
"""Stored bytes of JSON above which a list reads no value from it: it would have to be decompressed
whole for one value.
"""
MAX_JSON = 10_000
"""Most characters of the JSON at a path, if programs read it."""


class JobReads(JobListPlans):
    """Reading operations on river_job."""

    async def list(self, params: JobPageParams) -> JobPage:
        """Return one page of jobs by keyset; see JobPageParams."""
        plan = await self._plan(params)
        if plan is None:
            return JobPage(rows=(), more=False)
        found = await self._listed(
            "job_list",
            plan,
            {**plan.values, "preview": PREVIEW},
            **plan.slots,
            **path_values(params.paths),
            **(_LEAN_LIST if params.lean else {}),
        )
        rows, more, searched = read_page(found, params, plan, job_list_row)
        return JobPage(rows=rows, more=more, searched=searched)

    async def count(self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None) -> Count:
        """Count the jobs that match: AT_LEAST from `cap` on, and if a window ended the search."""
        if not filter.terms and cutoff is None:
            if filter.states:
                states = [state.value for state in dict.fromkeys(filter.states)]
                found = await self._sql.rows("job_probe_state", {"states": states, "most": cap + 1})
            else:
                found = await self._sql.rows("job_count_all_capped", {"cap": cap})
            matched, ended = found.value(), False
        else:
            params = JobPageParams(
                filter=filter,
                order=JobOrder.TIME_DESC if filter.states else JobOrder.ID_DESC,
                limit=cap,
                window=self._sql.limits.count_rows,
                cutoff=cutoff,
            )
            plan = await self._plan(params, ordered=False)
            if plan is None:
                return Count(value=0)
            row = await self._sql.row("job_count", plan.values, scans=plan.scans)
            matched, ended = row.matched, row.ended
        if matched > cap:
            return Count(value=cap, kind=CountKind.AT_LEAST)
        return Count(value=matched, kind=CountKind.AT_LEAST if ended else CountKind.EXACT)

    async def count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """Count the jobs of every state: exact up to `cap`, `completed` beyond it ESTIMATED."""
        counts = dict.fromkeys(JobState, Count(value=0))
        for row in (await self._sql.rows("job_count_by_state", {"cap": cap})).records():
            state = known_state(row.state)
            if state is None:
                continue
            if row.counted <= cap:
                count = Count(value=row.counted)
            elif row.estimated is not None and row.estimated > cap:
                count = Count(value=row.estimated, kind=CountKind.ESTIMATED)
            else:
                count = Count(value=cap, kind=CountKind.AT_LEAST)
            counts[state] = count
        return counts

    async def count_exact(self, state: JobState) -> Count:
        """Return an exact count, however long it takes (up to the transaction's time limit)."""
        return Count(
            value=(await self._sql.rows("job_count_state_exact", {"state": state.value})).value()
        )

    async def cutoff(self) -> JobCutoff:
        """Return the newest id and the database's time, which limit what a bulk action changes."""
        row = await self._sql.row("job_cutoff")
        return JobCutoff(id=row.id, at=row.at)

    async def get(self, id: int, *, cut: int = 200_000, lean: bool = False) -> JobShowRow | None:
        """Return one job as its page shows it, or a row like it from the table of a slot."""
        """Return one job, its long texts cut to `cut` characters (logs keep their end), or None.

        `lean` leaves out its JSON, for a job too large to be read in time.
        """
        return await self.show(id, cut=cut, lean=lean)

    async def log_piece(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt, its entries joined; None
        without one.

        Entries that name no whole number count as attempt 0.
        """
        if not (is_bigint(id) and is_bigint(attempt)):
            return None
        text = Fragment("job_text_log", {"id": id, "attempt": attempt})
        return await self.piece(text, start, size)

    async def text_piece(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of `args`, `metadata`, `output`, `errors` or
        `job`.

        None if there is no such job, or no output.
        """
        block = _TEXTS.get(field)
        if block is None:
            raise BadRequest(f"A job has no text “{field}”.")
        return await self.piece(Fragment(block, {"id": id}), start, size) if is_bigint(id) else None

    async def show(
        self, id: int, *, cut: int, lean: bool, unknown: JobState | None = None, **slots: Fragment
    ) -> JobShowRow | None:
        """Return one job as its page shows it; slots may name another table like river_job."""
        if not is_bigint(id):
            return None
        values = {"id": id, "cut": cut, "name_length": MAX_NAME, "tags": MAX_TAGS}
        row = await self._sql.row("job_get", values, **(_LEAN_JOB if lean else {}), **slots)
        return None if row is None else job_show_row(row, unknown)

    async def piece(self, text: Fragment, start: int, size: int) -> TextPiece | None:
        """Return `size` bytes of a text from byte `start`."""
        row = await self._sql.row("job_text_piece", {"start": start, "size": size}, text=text)
        return None if row is None else TextPiece(**row._asdict())

    async def kind_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return distinct kinds by name: those behind `after` that contain `match` (any case), but
        not `exclude`.
        """
        if not is_storable(after):
            return []
        values = {
            "after": after,
            "exclude": storable_texts(exclude),
            "limit": limit,
            "most": _MAX_KINDS,
            "pattern": contains_pattern(match),
        }
        return (await self._sql.rows("job_kind_list", values)).values()

    async def progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state; examine no more than `window` rows if no index finds
        them.
        """
        rows = await self._progress_contains(filter)
        if rows is None:
            params = JobPageParams(
                filter=filter, order=JobOrder.ID_DESC, limit=window, window=window
            )
            plan = await self._plan(params, ordered=False)
            rows = (
                Rows()
                if plan is None
                else await self._sql.rows("job_progress", plan.values, scans=plan.scans)
            )
        counts = dict.fromkeys(JobState, 0)
        ended = False
        for row in rows.records():
            ended |= row.ended
            if (state := known_state(row.state)) is not None:
                counts[state] = row.jobs
        return JobProgress(counts=counts, exact=not ended and sum(counts.values()) <= window)

    async def _progress_contains(self, filter: JobFilter) -> Rows | None:
        """Return the counts if the filter has args or metadata and their indexes answer in time;
        else None.
        """
        conditions = compile_filter(filter)
        if not conditions.contains or conditions.impossible:
            return None
        terms = [condition.bound or condition.sql for condition in conditions.contains]
        terms += [c.sql for c in conditions.terms if c not in conditions.contains]
        if conditions.states is not None:
            terms.append(state_term(conditions.states))
        async with self._sql.trying_bitmaps(milliseconds=_PROGRESS_MILLISECONDS):
            return await self._sql.rows("job_progress_contains", terms=join(terms))
        return None


def storable_texts(names: Sequence[str]) -> str:
    """Return the names that Postgres can hold, as an array."""
    return array_literals.texts([name for name in names if is_storable(name)])


def path_values(paths: Sequence[JsonPath]) -> dict[str, Fragment]:
    """Return the fragment for the slot `values` of `job_list`: a text to show for each path."""
    limits = {"length": MAX_VALUE + 1, "stored": _STORED}
    return _values(paths, "job_value_at_path", limits)


def path_jsons(paths: Sequence[JsonPath]) -> dict[str, Fragment]:
    """Return the fragment for the slot `values` of `job_text_list`: the JSON at each path."""
    return _values(paths, "job_json_at_path", {"length": MAX_JSON + 1, "stored": 2**30})


def _values(
    paths: Sequence[JsonPath], block: str, limits: Mapping[str, int]
) -> dict[str, Fragment]:
    if not paths:
        return {}
    values = join((_value(path, block) for path in paths), ", ")
    return {"values": Fragment("job_list_values", limits, paths=values)}


def _value(path: JsonPath, block: str) -> Fragment:
    column = word("metadata" if path.field is Field.METADATA else "args")
    if None not in path.keys:
        return Fragment(block, {"path": list(path.keys)}, column=column)
    steps = ("[*]" if key is None else f".{json.dumps(key)}" for key in path.keys)
    return Fragment("job_values_at_path", {"path": f"${''.join(steps)}"}, column=column)
