"""Export of all matching jobs as a file, page by page, each in a short transaction."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from riverui.domain.jobs import CUT, FINALIZED, JobTextRow
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import (
    Field,
    JobFilter,
    JobOrder,
    JobPageParams,
    JobTextPage,
    JsonPath,
    Op,
    Term,
)
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.job_models import JobMinimal, left_out
from riverui.web.api.selection import CHOICE, ORDER, Q, Selection, selected, state_parameter
from riverui.web.http.context import dashboard
from riverui.web.search import columns
from riverui.web.view.job_table import job_columns
from riverui.web.view.redaction import REDACTED, Redaction

_FIRST = 50
"""Jobs of the first page, when their size is not known yet."""
_MOST_JOBS = 1_000
"""Most jobs of a page; fewer if they are large."""
_LARGE, _SMALL = 4_000_000, 1_000_000
"""Characters of args in a page above which the next one is smaller, and below which it is larger.
"""
_UNPACKED = 64_000_000
"""Bytes that a page's args may take at most, unless a single job has more."""
_ARGS = 50_000_000
"""Characters above which a job's args are left out: memory would hold several copies of them."""
_LEAST_WINDOW = 1_000
"""Fewest rows that a page scans, even if the database is slow."""
_FORMULA = re.compile(
    r"[\t\r\n]|[\s\x01-\x1f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\"',;|]*"
    r"[-=+@＝＋－＠﹦﹢﹣﹫]"
)
"""Matches texts that a spreadsheet may read as a formula: a formula sign, also a full-width or
small one, after any characters that spreadsheets skip, hide or split cells at.
"""

Job = JobMinimal | Mapping[str, object]
"""A job in a file: all of its fields, or the chosen columns by name."""
Write = Callable[[Sequence[Job]], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """The fields of each job that a file contains."""

    names: tuple[str, ...]
    fields: Mapping[str, Callable[[JobTextRow], object]]
    """How to get each value from a row, as in the columns of the job list; empty for whole jobs."""
    paths: tuple[JsonPath, ...] = ()
    """The JSON paths of the row's `values`."""
    secret: tuple[bool, ...] = ()
    """Whether each path leads to a secret."""

    def select(self, row: JobTextRow, redaction: Redaction) -> Job:
        """Return the job's fields, with secrets redacted and without the list of cut fields."""
        if "args" in self.names:
            args = left_out(row.id, "args") if "args" in row.cut else redaction.text(row.args)
            row = row._replace(args=args, cut=())
        if not self.fields:
            return JobMinimal.from_row(row)
        if self.paths:
            row = row._replace(values=tuple(self._values(row, redaction)))
        return {name: _plain(value(row)) for name, value in self.fields.items()}

    def _values(self, row: JobTextRow, redaction: Redaction) -> Iterator[str | None]:
        values = row.values or (CUT,) * len(self.paths)
        for path, secret, value in zip(self.paths, self.secret, values, strict=True):
            if value is None:
                yield None
            elif secret:
                yield serializers.dump(REDACTED)
            else:
                yield left_out(row.id, path.field) if value == CUT else redaction.text(value)


async def show(request: Request) -> Response:
    """Stream all jobs of a selection, of every state unless some are named."""
    name = requests.first(request, "format") or "ndjson"
    if name not in _FORMATS:
        raise BadRequest(f"Unknown format {name[:40]!r}; the formats are {' and '.join(_FORMATS)}.")
    media, head, write = _FORMATS[name]
    headers = {"Content-Disposition": f'attachment; filename="jobs.{name}"'}
    redaction = Redaction(dashboard(request).config.redact_keys)
    contents = _contents(requests.first(request, "columns"), redaction)
    asked = selected(request, "format", "columns", listing=False)
    selection = await _frozen(request, _linear(request, asked))
    wanted = JobPageParams(
        filter=selection.filter,
        order=selection.order,
        limit=_FIRST,
        window=dashboard(request).config.search_window,
        paths=contents.paths,
    )
    args = _ARGS if "args" in contents.names else 0
    # Read the first page before sending anything, so that an error gets its own status.
    first = await _page(request, wanted, args)
    if request.method == "HEAD":
        return Response(media_type=media, headers=headers)

    async def chunks() -> AsyncIterator[str]:
        yield head(contents.names)
        async for rows in _pages(request, selection, wanted, args, first):
            yield write([contents.select(row, redaction) for row in rows])

    return StreamingResponse(chunks(), media_type=media, headers=headers)


def _contents(text: str, redaction: Redaction) -> Contents:
    """Return the contents of a file with these columns; whole jobs if none are named."""
    if not text:
        return _WHOLE
    names = columns.read([text])
    paths = columns.paths(names)
    fields: dict[str, Callable[[JobTextRow], object]] = {}
    for column in job_columns(names):
        fields |= column.exports
    return Contents(
        names=tuple(fields),
        fields=fields,
        paths=paths,
        secret=tuple(any(key and redaction.hides(key) for key in path.keys) for path in paths),
    )


async def _pages(
    request: Request, selection: Selection, wanted: JobPageParams, args: int, page: JobTextPage
) -> AsyncIterator[Sequence[JobTextRow]]:
    while True:
        if page.rows:
            yield page.rows
        if page.searched is not None:
            wanted = replace(wanted, cursor=page.searched.resume)
        elif page.more and page.rows:
            wanted = replace(wanted, cursor=selection.behind(page.rows[-1]))
        else:
            return
        # Count the rows returned, not the limit: a page ends early if its jobs are large.
        size = len(page.rows) if page.more else wanted.limit
        wanted = replace(wanted, limit=next_size(max(size, 1), page.rows))
        page = await _page(request, wanted, args)


async def _page(request: Request, wanted: JobPageParams, args: int) -> JobTextPage:
    """Return the page, or a smaller one if it cannot be read in time; if a single job cannot, it is
    returned without its JSON.
    """
    while True:
        try:
            async with dashboard(request).driver.reading() as executor:
                return await executor.jobs.text_list(wanted, args=args, unpacked=_UNPACKED)
        except QueryTimeout:
            if wanted.limit > 1 or wanted.window > _LEAST_WINDOW:
                window = max(_LEAST_WINDOW, wanted.window // 10)
                wanted = replace(wanted, limit=max(1, wanted.limit // 10), window=window)
            elif args or wanted.paths:
                args, wanted = 0, replace(wanted, paths=())
            else:
                raise


def _linear(request: Request, selection: Selection) -> Selection:
    """Return the selection, sorted by id if no order is asked for and its default order has no
    index.

    Without an index, each page would scan all waiting and running jobs again.
    """
    states = selection.filter.states
    if requests.first(request, "order") or (states and FINALIZED.issuperset(states)):
        return selection
    return replace(selection, order=JobOrder.ID_DESC)


async def _frozen(request: Request, selection: Selection) -> Selection:
    """Return the selection without jobs inserted from now on, so that the export ends."""
    async with dashboard(request).driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
    until = Term(field=Field.ID, op=Op.LE, values=(cutoff.id,))
    found = selection.filter
    return replace(selection, filter=JobFilter(states=found.states, terms=(*found.terms, until)))


def next_size(size: int, rows: Sequence[JobTextRow]) -> int:
    """Return how many jobs to read after a page of `size` jobs, by the size of their args."""
    read = sum(len(row.args) for row in rows)
    read += sum(len(value or "") for row in rows for value in row.values)
    if read > _LARGE:
        return max(1, size // 4)
    return min(_MOST_JOBS, size * 2) if read < _SMALL else size


def _plain(value: object) -> object:
    """Return a value for JSON: times as Go writes them, spans in seconds."""
    if isinstance(value, datetime):
        return serializers.instant(value)
    return value.total_seconds() if isinstance(value, timedelta) else value


def _ndjson(jobs: Sequence[Job]) -> str:
    return msgspec.json.Encoder().encode_lines(jobs).decode()


def _csv(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a value for a cell of a CSV file: formulas escaped, lists as JSON."""
    if isinstance(value, msgspec.Raw):
        found = bytes(value).decode()
        if not found.startswith('"'):
            return None if found == "null" else found
        value = json.loads(found)
    if isinstance(value, tuple):
        return serializers.dump(value)
    if isinstance(value, str):
        text = value.replace("\0", "")
        return f"'{text}" if _FORMULA.match(text) else text
    return value


def _cells(job: Job) -> Iterable[object]:
    return job.values() if isinstance(job, Mapping) else msgspec.structs.astuple(job)[:-1]


_WHOLE = Contents(names=JobMinimal.__struct_fields__[:-1], fields={})
"""A job as in the API's lists, without the list of cut fields."""

_FORMATS: dict[str, tuple[str, Callable[[Iterable[str]], str], Write]] = {
    "ndjson": ("application/x-ndjson", lambda names: "", _ndjson),
    "csv": (
        "text/csv; charset=utf-8",
        lambda names: _csv([names]),
        lambda jobs: _csv(map(_cells, jobs)),
    ),
}
"""By name: the media type, the function that writes the head, and the one that writes a page."""

ENDPOINT = Endpoint(
    "GET",
    "/api/jobs/export",
    "api.jobs.export",
    "jobs.read",
    show,
    Description(
        group="Jobs",
        summary="All selected jobs as a file, in every state by default; secrets are left out.",
        answer=JobMinimal,
        media=("application/x-ndjson", "text/csv"),
        parameters=(
            Parameter(
                name="format",
                summary="One JSON object per line, or a table.",
                type=Literal["ndjson", "csv"],
                default="ndjson",
            ),
            Parameter(
                name="columns",
                summary="Only these columns, named as in the address of a job list: id, kind,"
                " waited, args.customer.id.",
            ),
            state_parameter("Any of these states."),
            *CHOICE,
            Q,
            ORDER,
        ),
        extension=True,
    ),
)
