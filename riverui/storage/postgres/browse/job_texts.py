"""Read jobs with their JSON as text, as much of it as an answer may contain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from riverui.domain.attempt_errors import whole
from riverui.domain.jobs import CUT, ErrorText, JobState, JobTextRow
from riverui.domain.values import is_bigint
from riverui.storage.interface.params import JobPageParams, JobTextPage
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.browse.job_list import JobListPlans, read_page
from riverui.storage.postgres.browse.jobs import MAX_JSON, path_jsons
from riverui.storage.postgres.browse.rows import known_state, texts

JOB_TEXT_COLUMNS = {
    "columns": Fragment("job_text_columns"),
    "long_columns": Fragment("job_text_long_columns"),
}
"""Slots of a statement that reads a JobTextRow with its errors and metadata."""

_LIST_LIMITS = {"arrays": 250_000, "tags": 100}
"""Limits of each job in a list: stored bytes above which an array is left out, and tags."""

JOB_LIMITS = {
    "args": 10_000_000,
    "arrays": 2**30,
    "errors": 1_000,
    "error_size": 1_000_000,
    "metadata": 10_000_000,
    "tags": 1_000,
}
"""Limits of one job: characters of args, metadata and an error, numbers of errors and tags."""

TASK_LIMITS = {
    "args": 20_000,
    "arrays": 250_000,
    "errors": 25,
    "error_size": 10_000,
    "metadata": 200_000,
    "tags": 100,
}
"""The same limits of each task of a workflow, which may have thousands."""


class JobTexts(JobListPlans):
    """Reads jobs with their JSON unchanged."""

    async def text_list(
        self, params: JobPageParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobTextPage:
        """Return one page of jobs by keyset, without errors and metadata; `lean` is ignored.

        Args of more than `args` characters are left out, and JSON at `params.paths` of more than
        MAX_JSON. The page ends before it is full once its args may take `unpacked` bytes, but has
        at least one job.
        """
        plan = await self._plan(params, by_state=True)
        if plan is None:
            return JobTextPage(rows=(), more=False)
        found = await self._listed(
            "job_text_list",
            plan,
            {**plan.values, **_LIST_LIMITS, "args": args, "unpacked": unpacked},
            **plan.slots,
            **path_jsons(params.paths),
            columns=JOB_TEXT_COLUMNS["columns"],
        )
        rows, more, searched = read_page(found, params, plan, lambda row: _page_row(row, args))
        first = found.first()
        ended = searched is None and first is not None and first.found > len(found)
        return JobTextPage(rows=rows, more=more or ended, searched=searched)

    async def text_get(self, id: int) -> JobTextRow | None:
        """Return one job with its newest errors and its metadata, as far as an answer may
        contain them (`cut`), or None.
        """
        return await self.text(id)

    async def text(
        self, id: int, *, unknown: JobState | None = None, **slots: Fragment
    ) -> JobTextRow | None:
        """Return one job with its JSON as text; slots may name another table like river_job."""
        if not is_bigint(id):
            return None
        found = await self._sql.prepared(
            "job_text_get", {"id": id, **JOB_LIMITS}, **JOB_TEXT_COLUMNS, **slots
        )
        row = found.first()
        return None if row is None else job_text_row(row, JOB_LIMITS, unknown)


def job_text_row(
    row: Any, limits: Mapping[str, int], unknown: JobState | None = None
) -> JobTextRow | None:
    """Return a row of JOB_TEXT_COLUMNS, in the state `unknown` if a later River has added the job's
    state; None if that is not given.
    """
    job = _list_row(row, limits["args"], unknown)
    if job is None:
        return None
    errors = json.loads(row.errors or "[]")
    size = limits["error_size"]
    complete = row.metadata is not None and len(row.metadata) <= limits["metadata"]
    cut = list(job.cut)
    if (row.errors_size or 0) > len(errors) or any(
        len(text or "") > size for error in errors for text in error[2:]
    ):
        cut.append("errors")
    if not complete:
        cut.append("metadata")
    return job._replace(
        cut=tuple(cut),
        errors=tuple(_error(size, *error) for error in errors),
        metadata=row.metadata if complete else "{}",
    )


def _page_row(row: Any, most_args: int) -> JobTextRow | None:
    """Return a row of `job_text_list`; None for a job in an unknown state."""
    job = _list_row(row, most_args)
    if job is None or row.path_values is None:
        return job
    return job._replace(values=tuple(map(_json, row.path_values)))


def _json(value: str | None) -> str | None:
    return CUT if value == "..." or (value and len(value) > MAX_JSON) else value


def _list_row(row: Any, most_args: int, unknown: JobState | None = None) -> JobTextRow | None:
    """Return a row of the block `job_text_columns`; None for a job in an unknown state."""
    state = known_state(row.state) or unknown
    if state is None:
        return None
    complete = row.args is not None and len(row.args) <= most_args
    cut: tuple[str, ...] = ()
    if not complete or row.attempted_by_cut or row.tags_cut:
        fields = {
            "args": not complete,
            "attempted_by": row.attempted_by_cut,
            "tags": row.tags_cut,
        }
        cut = tuple(name for name, is_cut in fields.items() if is_cut)
    return JobTextRow(
        id=row.id,
        args=row.args if complete else "{}",
        attempt=row.attempt,
        attempted_at=row.attempted_at,
        attempted_by=texts(row.attempted_by),
        created_at=row.created_at,
        finalized_at=row.finalized_at,
        kind=row.kind,
        max_attempts=row.max_attempts,
        priority=row.priority,
        queue=row.queue,
        scheduled_at=row.scheduled_at,
        state=state,
        tags=texts(row.tags),
        cut=cut,
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
