"""Jobs: the list, one job, and the verbs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import jobs as actions
from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb, VerbParameter
from riverui.domain.jobs import JobTextRow
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.features.operations.api import OperationAnswer, start_query
from riverui.features.operations.verbs import pace_parameters, read_pace
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.params import (
    EVERY,
    JobCursor,
    JobJsonPage,
    JobPageParams,
    JobTextPage,
)
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.job_models import Ids, Job, JobMinimal, Query
from riverui.web.api.models import Id, Model, Refusal, Status
from riverui.web.api.selection import CHOICE, ORDER, Q, Selection, selected, state_parameter
from riverui.web.api.time_limits import API_TIME_LIMITS
from riverui.web.http.context import access, dashboard
from riverui.web.http.disconnects import EndsWithClient
from riverui.web.http.request_context import request_context
from riverui.web.search import query
from riverui.web.sections.jobs import explain, export, log_api, new_api, progress

log = logging.getLogger("riverui.actions")

B = TypeVar("B", "JobIds", Query)

_GROUP = "Jobs"
_LIMIT = 20
"""Jobs in an answer by default, as in River UI."""
_PAGE = 100
"""Most jobs read in one transaction."""
_REMEMBERED, _SHORT = 256, 500
"""Query strings whose parsed form is cached, and bytes of the longest: some 1 MB in all."""
_ROOM = 16_000_000
"""Characters of args in one answer, given to its jobs in order."""
_ARGS, _LEAST = 100_000, 1_000
"""Characters above which a job's args are left out of a list, and up to which they never are."""


class Jobs(Model, frozen=True, kw_only=True):
    """Jobs, in the order asked for."""

    data: list[JobMinimal]
    next_cursor: Annotated[str | None, Meta(description="Null if nothing follows.")]

    @classmethod
    def example(cls) -> Self:
        """Return a page of one job."""
        cursor = "2026-11-21T09:00:00.123456+00:00~9381022"
        return cls(data=[JobMinimal.example()], next_cursor=cursor)


class JobIds(Ids, frozen=True, kw_only=True):
    """The jobs with these ids."""

    partial: Annotated[
        bool,
        Meta(
            description="riverui: change the jobs that allow it and report what became of each,"
            " instead of all or none."
        ),
    ] = False

    refusals: ClassVar[Mapping[str, Refusal]] = {
        **Ids.refusals,
        "partial": "`partial` must be true or false.",
    }


class SkippedJob(Model, frozen=True, kw_only=True):
    """A job that was not changed, and why."""

    id: Id
    reason: SkipReason


class JobsDone(Status, frozen=True, kw_only=True):
    """The request was carried out; with `partial`, what became of each job."""

    changed: list[Id] | UnsetType = UNSET
    requested: (
        Annotated[list[Id], Meta(description="Running jobs that were asked to stop.")] | UnsetType
    ) = UNSET
    skipped: list[SkippedJob] | UnsetType = UNSET

    @classmethod
    def from_changes(cls, changes: JobChanges) -> Self:
        """Return what became of each job."""
        return cls(
            changed=list(changes.changed),
            requested=list(changes.requested),
            skipped=[SkippedJob(id=each, reason=why) for each, why in changes.skipped],
        )


async def index(request: Request) -> Response:
    """Answer jobs of one state, by default the running ones, or what a search finds."""
    asked = request.scope.get("query_string", b"")
    known = _asked(asked) if len(asked) <= _SHORT else None
    selection, wanted = known or _wanted(request)
    if selection.extended:
        config = dashboard(request).config
        wanted = replace(wanted, window=config.search_window)
        limit, total = config.page_timeout, config.action_timeout
        return await _list(request, selection, wanted, limit=limit, total=total)
    async with EndsWithClient(request):
        with dashboard(request).get(API_TIME_LIMITS).lend() as limit:
            return await _list(request, selection, wanted, limit=limit, total=limit)


def _wanted(request: Request) -> tuple[Selection, JobPageParams]:
    """Return the parsed parameters of a request. Raises BadRequest if they are invalid."""
    selection = selected(request, "cursor", "limit")
    return selection, JobPageParams(
        filter=selection.filter,
        order=selection.order,
        cursor=selection.cursor(requests.first(request, "cursor")),
        limit=requests.limit(request, _LIMIT),
        window=EVERY,
    )


@lru_cache(maxsize=_REMEMBERED)
def _asked(query: bytes) -> tuple[Selection, JobPageParams] | None:
    """Return the same for a query string, cached, as programs repeat their requests. None if the
    result depends on the time of the request, as with relative times in a search.
    """
    found = _wanted(Request({"type": "http", "headers": [], "query_string": query}))
    return None if found[0].extended else found


async def show(request: Request) -> Response:
    """Answer one job with its errors and metadata."""
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("A job id must be a whole number.")
    async with dashboard(request).driver.reading() as executor:
        if (written := await executor.jobs.json_get(job_id)) is not None:
            return serializers.passed_on(written)
        row = await executor.jobs.text_get(job_id)
    if row is None:
        raise NotFound(f"Job not found: {job_id}.")
    return serializers.reply(Job.of_text(row))


async def act(verb: JobVerb, request: Request) -> Response:
    """Do a verb to jobs, all or none; with a query, to all that match."""
    board, posted = dashboard(request), await requests.payload(request)
    by_ids, by_query = bodies(verb)
    if "query" in posted:
        query = requests.convert(posted, by_query)
        given, pace = verb.read(posted), read_pace(verb, posted)
        return await start_query(request, verb, query, given=given, pace=pace)
    if "state" in posted:
        raise BadRequest("`state` narrows a `query`: with `ids` it means nothing.")
    asked = requests.convert(posted, by_ids)
    ids, given = asked.numbers(), verb.read(posted)
    apply = actions.apply if asked.partial else actions.apply_whole
    changes = await apply(
        board.driver,
        verb,
        ids,
        given,
        pilot=board.pilot,
        time_limit=board.config.action_timeout,
    )
    board.counts.expire()
    log.info(
        "%s%s by %r: %d changed, %d requested of jobs %s",
        verb.name,
        f" ({verb.words(given)})" if given else "",
        access(request).user,
        len(changes.changed),
        len(changes.requested),
        ids[:50],
    )
    return serializers.reply(JobsDone.from_changes(changes) if asked.partial else JobsDone())


def bodies(verb: JobVerb) -> tuple[type[JobIds], type[Query]]:
    """Return the models of a verb's request bodies, by ids and by query. Its parameters are checked
    by `verb.read` and `read_pace`.
    """
    by_query = (*verb.parameters, *pace_parameters(verb))
    return (
        _with_parameters(JobIds, verb.label, verb.parameters),
        _with_parameters(Query, verb.label, by_query),
    )


def _with_parameters(model: type[B], label: str, parameters: Sequence[VerbParameter]) -> type[B]:
    if not parameters:
        return model
    found = msgspec.defstruct(
        f"{label}{model.__name__}",
        [
            (
                parameter.name,
                Annotated[Any, Meta(extra_json_schema=dict(parameter.schema))] | UnsetType,
                UNSET,
            )
            for parameter in parameters
        ],
        bases=(model,),
        namespace={"__doc__": model.__doc__},
        frozen=True,
        kw_only=True,
    )
    return cast(type[B], found)


async def _list(
    request: Request,
    selection: Selection,
    wanted: JobPageParams,
    *,
    limit: timedelta,
    total: timedelta,
) -> Response:
    """Return the answer; each statement takes at most `limit`, all together at most `total`."""
    began = time.monotonic()
    request_context(request).answer_by += total.total_seconds()
    if (page := await _written(request, selection, wanted, limit=limit)) is not None:
        cursor = None if page.last is None else query.encode_cursor(page.last)
        return serializers.written(f'{{"data":[{page.jobs}],"next_cursor":', cursor, "}")
    # A slow search is as slow the next time, so allow for it; slow reads make the pages smaller.
    spent = timedelta(seconds=time.monotonic() - began)
    limit = min(limit, dashboard(request).config.page_timeout + 2 * spent)
    rows, place = await _rows(request, selection, wanted, limit=limit, total=total)
    cursor = None if place is None else query.encode_cursor(place)
    return serializers.reply(
        Jobs(data=[JobMinimal.from_row(row) for row in rows], next_cursor=cursor)
    )


async def _written(
    request: Request, selection: Selection, wanted: JobPageParams, *, limit: timedelta
) -> JobJsonPage | None:
    """Return the page as JSON written by the database; None if it has to be read job by job."""
    if not wanted.limit or (selection.extended and wanted.filter.terms):
        return None
    args = min(_ARGS, _ROOM // wanted.limit)
    try:
        async with dashboard(request).driver.reading(timeout=limit) as executor:
            return await executor.jobs.json_list(wanted, args=args)
    except QueryTimeout:
        if selection.extended:
            return None
        raise


async def _rows(
    request: Request,
    selection: Selection,
    wanted: JobPageParams,
    *,
    limit: timedelta,
    total: timedelta,
) -> tuple[list[JobTextRow], JobCursor | None]:
    """Return up to `wanted.limit` rows, however far the search has to go, and the cursor for more.

    Rows are read in pages of at most a hundred, and of fewer if a page takes longer than `limit`.
    If all pages take longer than `total`, a request with riverui's parameters gets the rows found
    so far and a cursor; one with River UI's parameters only gets a QueryTimeout.
    """
    rows: list[JobTextRow] = []
    if not wanted.limit:
        return rows, None
    config = dashboard(request).config
    started, most, room = time.monotonic(), _PAGE, _ROOM
    while True:
        size = min(most, wanted.limit - len(rows))
        try:
            args = max(_LEAST, min(_ARGS, room // size))
            page = await _page(request, replace(wanted, limit=size), args=args, limit=limit)
        except QueryTimeout:
            if size == 1 or time.monotonic() > started + total.total_seconds():
                if rows and selection.extended:
                    return rows, wanted.cursor
                raise
            most = max(1, size // 10)
            continue
        rows += page.rows
        room = max(0, room - sum(len(row.args) for row in page.rows))
        if page.searched is not None:
            wanted = replace(wanted, cursor=page.searched.resume)
        elif not page.more or not page.rows:
            return rows, None
        elif len(rows) >= wanted.limit:
            return rows, selection.behind(rows[-1])
        else:
            wanted = replace(wanted, cursor=selection.behind(rows[-1]))
        if (
            page.searched is not None
            and time.monotonic() > started + config.page_timeout.total_seconds()
        ):
            if selection.extended:
                return rows, wanted.cursor
            seconds = config.page_timeout.total_seconds()
            raise QueryTimeout(f"Only some of the jobs could be searched in {seconds:g} s.")


async def _page(
    request: Request, wanted: JobPageParams, *, args: int, limit: timedelta
) -> JobTextPage:
    async with dashboard(request).driver.reading(timeout=limit) as executor:
        return await executor.jobs.text_list(wanted, args=args)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/jobs",
        "api.jobs.index",
        "jobs.read",
        index,
        Description(
            group=_GROUP,
            summary="Jobs in one state: by default the running ones, longest first.",
            answer=Jobs,
            parameters=(
                state_parameter("The state; riverui accepts several."),
                *CHOICE,
                limit(_LIMIT),
                replace(
                    Q,
                    summary="A search, as typed on the pages; covers every state by default.",
                    extension=True,
                ),
                replace(
                    ORDER,
                    summary=f"{ORDER.summary} Covers every state by default.",
                    extension=True,
                ),
                Parameter(
                    name="cursor",
                    summary="The `next_cursor` of the previous page.",
                    extension=True,
                ),
            ),
        ),
    ),
    new_api.ENDPOINT,
    # Before the address of one job, which would match this one too.
    export.ENDPOINT,
    Endpoint(
        "GET",
        "/api/jobs/{job_id}",
        "api.jobs.show",
        "jobs.read",
        show,
        Description(
            group=_GROUP,
            summary="One job with its errors and metadata.",
            answer=Job,
            parameters=(in_path("job_id", "The job's id.", Id),),
            fails=(404,),
        ),
    ),
    explain.ENDPOINT,
    log_api.ENDPOINT,
    *(
        Endpoint(
            "POST",
            f"/api/jobs/{verb.name}",
            f"api.jobs.{verb.name}",
            verb.right,
            partial(act, verb),
            Description(
                group=_GROUP,
                summary=verb.summary,
                answer=JobsDone,
                body=bodies(verb),
                accepted=OperationAnswer,
                fails=verb.fails,
                extension=verb.extension,
            ),
        )
        for verb in sorted(JOB_VERBS.values(), key=lambda verb: verb.name)
    ),
    progress.ENDPOINT,
)
"""The section's part of the API."""
