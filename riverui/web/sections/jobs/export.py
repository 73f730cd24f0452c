"""Sends a filter's jobs as a file, however many: page by page, each in a short transaction."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from riverui.domain.jobs import FINALIZED, JobTextRow
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import (
    Field,
    JobFilter,
    JobListParams,
    JobOrder,
    JobTextPage,
    Op,
    Term,
)
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.job_models import JobMinimal
from riverui.web.api.selection import CHOICE, ORDER, Q, Selection, selected, state_parameter
from riverui.web.http.context import dashboard
from riverui.web.view.redaction import Redaction

_FIRST = 50
"""Jobs of the first page, before it is known how large they are."""
_MOST = 1_000
"""Jobs of a page at most; fewer where they are large."""
_LARGE, _SMALL = 4_000_000, 1_000_000
"""Characters of args above which a page was too large, and below which the next one may be larger.
"""
_UNPACKED = 64_000_000
"""Bytes that a page's args may take at most, unless a single job has more."""
_ARGS = 50_000_000
"""Characters above which a job's args are left out: they would have to be in memory several times
over.
"""
_LEAST_WINDOW = 1_000
"""Rows that a page looks at even where the database is slow."""
_FORMULA = re.compile(r"[\t\r\n]|[\s\x01-\x1f\u200b-\u200f\u2060\ufeff]*[-=+@＝＋－＠﹦﹢﹣﹫]")
"""What makes a spreadsheet take a text for a formula: its signs, full-width and small ones too,
behind whatever a spreadsheet skips or does not show.
"""

Write = Callable[[Sequence[JobMinimal]], str]


async def show(request: Request) -> Response:
    """Answer all jobs of a selection, of every state unless some are named, as they come."""
    name = requests.first(request, "format") or "ndjson"
    if name not in _FORMATS:
        raise BadRequest(f"Unknown format {name[:40]!r}; the formats are {' and '.join(_FORMATS)}.")
    media, header, write = _FORMATS[name]
    headers = {"Content-Disposition": f'attachment; filename="jobs.{name}"'}
    selection = await _frozen(request, _linear(request, selected(request, "format", listing=False)))
    wanted = JobListParams(
        filter=selection.filter,
        order=selection.order,
        limit=_FIRST,
        window=dashboard(request).config.search_window,
    )
    # Before anything is sent, so that what cannot be read is an error like any other.
    first = await _page(request, wanted)
    if request.method == "HEAD":
        return Response(media_type=media, headers=headers)
    redaction = Redaction(dashboard(request).config.redact_keys)

    async def chunks() -> AsyncIterator[str]:
        yield header
        async for rows in _pages(request, selection, wanted, first):
            yield write([_line(row, redaction) for row in rows])

    return StreamingResponse(chunks(), media_type=media, headers=headers)


async def _pages(
    request: Request, selection: Selection, wanted: JobListParams, page: JobTextPage
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
        # How many there were, not how many were asked for: a page ends early where jobs are large.
        size = len(page.rows) if page.more else wanted.limit
        wanted = replace(wanted, limit=_next_size(max(size, 1), page.rows))
        page = await _page(request, wanted)


async def _page(request: Request, wanted: JobListParams) -> JobTextPage:
    """Return the page, or a smaller one where it cannot be read in time; the args of a job that
    cannot be read by itself are left out.
    """
    args = _ARGS
    while True:
        try:
            async with dashboard(request).driver.reading() as executor:
                return await executor.job_text_list(wanted, args=args, unpacked=_UNPACKED)
        except QueryTimeout:
            if wanted.limit > 1 or wanted.window > _LEAST_WINDOW:
                window = max(_LEAST_WINDOW, wanted.window // 10)
                wanted = replace(wanted, limit=max(1, wanted.limit // 10), window=window)
            elif args:
                args = 0
            else:
                raise


def _linear(request: Request, selection: Selection) -> Selection:
    """Return the selection, by id where no order is asked for and that of its states has no index.

    Each page would look at all waiting and running jobs anew: a hundred times at a hundred thousand
    of them.
    """
    states = selection.filter.states
    if requests.first(request, "order") or (states and FINALIZED.issuperset(states)):
        return selection
    return replace(selection, order=JobOrder.ID_DESC)


async def _frozen(request: Request, selection: Selection) -> Selection:
    """Return the selection without jobs that are inserted from now on, which might never end."""
    async with dashboard(request).driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    until = Term(field=Field.ID, op=Op.LE, values=(cutoff.id,))
    found = selection.filter
    return replace(selection, filter=JobFilter(states=found.states, terms=(*found.terms, until)))


def _next_size(size: int, rows: Sequence[JobTextRow]) -> int:
    read = sum(len(row.args) for row in rows)
    if read > _LARGE:
        return max(1, size // 4)
    return min(_MOST, size * 2) if read < _SMALL else size


def _line(row: JobTextRow, redaction: Redaction) -> JobMinimal:
    """Return a job without secrets, and without the names of what is cut."""
    if "args" not in row.cut:
        row = row._replace(args=redaction.text(row.args))
    return JobMinimal.of(row, cut=False)


def _ndjson(jobs: Sequence[JobMinimal]) -> str:
    return msgspec.json.Encoder().encode_lines(jobs).decode()


def _csv(jobs: Sequence[JobMinimal]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([_cell(getattr(job, name)) for name in _FIELDS] for job in jobs)
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a value as a spreadsheet takes it for what it is: no formulas, and lists as JSON."""
    if isinstance(value, tuple):
        return serializers.dump(value)
    if isinstance(value, str):
        text = value.replace("\0", "")
        return f"'{text}" if _FORMULA.match(text) else text
    return value


_FIELDS = tuple(name for name in JobMinimal.__struct_fields__ if name != "cut")

_FORMATS: dict[str, tuple[str, str, Write]] = {
    "ndjson": ("application/x-ndjson", "", _ndjson),
    "csv": ("text/csv; charset=utf-8", ",".join(_FIELDS) + "\r\n", _csv),
}
"""By name: the media type, what stands first, and what writes a page."""

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
            state_parameter("Any of these states."),
            *CHOICE,
            Q,
            ORDER,
        ),
        extension=True,
    ),
)
