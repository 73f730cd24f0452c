"""Jobs: the list, one job, and the verbs for chosen ones."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import jobs as actions
from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobMinimalRow
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.storage.interface.params import JobCursor, JobListParams, JobMinimalPage
from riverui.web.api import operations, requests, serializers
from riverui.web.api.selection import Selection, selected
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query

log = logging.getLogger("riverui.actions")

_LIMIT = 20
_PAGE = 100
"""Jobs that are read in one transaction."""
_ROOM = 16_000_000
"""Characters of args that an answer may hold, shared by its jobs in the order they come."""
_ARGS, _LEAST = 100_000, 1_000
"""Characters above which a job's args are left out of a list, and how many they may always have."""


async def index(request: Request) -> Response:
    """Jobs of one state, the running ones unless another is named; or what a search finds."""
    selection = selected(request, "cursor", "limit")
    wanted = JobListParams(
        filter=selection.filter,
        order=selection.order,
        cursor=selection.cursor(requests.first(request, "cursor")),
        limit=requests.limit(request, _LIMIT),
        window=dashboard(request).config.search_window,
    )
    rows, place = await _rows(request, selection, wanted)
    cursor = None if place is None else query.encode_cursor(place)
    return serializers.reply(
        serializers.listing([serializers.job_minimal(row) for row in rows])
        | {"next_cursor": cursor}
    )


async def show(request: Request) -> Response:
    """One job with its errors and metadata."""
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("A job id must be a whole number.")
    async with dashboard(request).driver.reading() as executor:
        row = await executor.job_text_get(job_id)
    if row is None:
        raise NotFound(f"Job not found: {job_id}.")
    return serializers.reply(serializers.job(row))


async def act(verb: JobVerb, request: Request) -> Response:
    """Does a verb to jobs, all or none. With a query, to all that match."""
    board, posted = dashboard(request), await requests.payload(request)
    if "query" in posted:
        return await operations.start(request, verb, posted)
    if "state" in posted:
        raise BadRequest("`state` narrows a `query`: with `ids` it means nothing.")
    ids, given = requests.ids(posted), verb.read(posted)
    changes = await actions.apply_whole(
        board.driver, verb, ids, given, time_limit=board.config.action_timeout
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
    return serializers.reply({"status": "ok"})


VERB_ROUTES = tuple(
    GuardedRoute(
        "POST", f"/api/jobs/{verb.name}", f"api.jobs.{verb.name}", verb.right, partial(act, verb)
    )
    for verb in JOB_VERBS.values()
)
"""An address for each verb."""


async def _rows(
    request: Request, selection: Selection, wanted: JobListParams
) -> tuple[list[JobMinimalRow], JobCursor | None]:
    """Return as many rows as there are, however far the search has to go, and where more may
    follow.

    They are read in pages of at most a hundred, which are smaller still where that takes too long.
    Where all of it takes longer than an action may, who asks as River UI's clients do is told so
    (QueryTimeout), and who knows of cursors gets what was found so far.
    """
    rows: list[JobMinimalRow] = []
    if not wanted.limit:
        return rows, None
    config = dashboard(request).config
    started, most, room = time.monotonic(), _PAGE, _ROOM
    while True:
        size = min(most, wanted.limit - len(rows))
        try:
            args = max(_LEAST, min(_ARGS, room // size))
            page = await _page(request, replace(wanted, limit=size), args=args)
        except QueryTimeout:
            if size == 1 or time.monotonic() > started + config.action_timeout.total_seconds():
                if rows and selection.ours:
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
            if selection.ours:
                return rows, wanted.cursor
            patience = config.page_timeout.total_seconds()
            raise QueryTimeout(f"Only some of the jobs could be searched in {patience:g} s.")


async def _page(request: Request, wanted: JobListParams, *, args: int) -> JobMinimalPage:
    async with dashboard(request).driver.reading() as executor:
        return await executor.job_minimal_list(wanted, args=args)
