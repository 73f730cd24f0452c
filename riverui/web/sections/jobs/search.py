"""One step of a search that no index supports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import JobPage, JobPageParams, SearchedWindow
from riverui.web.http.context import Service, access, dashboard
from riverui.web.http.cookies import preferences
from riverui.web.http.request_context import htmx
from riverui.web.search import addresses, long_searches
from riverui.web.search.addresses import Listing, list_url
from riverui.web.search.columns import read_kept
from riverui.web.search.long_searches import Going, Searches, SearchNote, SearchProgress, Turn
from riverui.web.sections.jobs.index import job_table
from riverui.web.view.job_table import JobTable
from riverui.web.view.render import respond

SEARCHES = Service(make=lambda board: Searches())
_OWN = frozenset({"begin", "found", "looked", "search"})
"""Parameters of a step; all others are those of the list."""
_NUMBER = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchStep:
    """What one step of a search adds to the job list."""

    template: ClassVar[str] = "jobs/_step.html"
    fragments: ClassVar[Mapping[str, str]] = {"search-note": "jobs/_step.html"}

    table: JobTable
    search: SearchNote
    older_url: str | None
    """The page after this one, if this one is full."""


async def step(request: Request) -> Response:
    """Search the next window and answer with what was found and how to continue."""
    board = dashboard(request)
    listing, progress = _read(request)
    if not htmx(request).request:
        return RedirectResponse(list_url(request, listing), status_code=302)
    viewer = access(request).user or progress.search
    start = _start_window(listing)
    turn = board.get(SEARCHES).turn(
        viewer,
        progress.search,
        begin="begin" in request.query_params,
        step=board.config.page_timeout.total_seconds(),
    )
    if turn is Turn.BUSY:
        begin = "begin" in request.query_params
        return await _answer(request, listing, start, progress, Going.WAITING, begin=begin)
    if turn is Turn.OVERTAKEN:
        reason = f"Stopped: {viewer} has started another search."
        return await _answer(request, listing, start, progress, Going.STOPPED, reason=reason)
    over = True
    try:
        async with board.driver.reading() as executor:
            page = await executor.jobs.list(
                JobPageParams(
                    filter=listing.filter,
                    order=listing.order,
                    cursor=listing.cursor,
                    limit=listing.limit - progress.found,
                    window=board.config.search_window,
                    paths=listing.paths,
                )
            )
        over = page.searched is None
    except QueryTimeout:
        reason = "Stopped: the database took too long."
        return await _answer(request, listing, start, progress, Going.STOPPED, reason=reason)
    finally:
        board.get(SEARCHES).rest(viewer, progress.search, over=over)
    window = page.searched or start
    progress = replace(
        progress,
        looked=progress.looked
        + (page.searched.rows if page.searched else board.config.search_window),
        found=progress.found + len(page.rows),
    )
    state = Going.GOING if page.searched else Going.FULL if page.more else Going.ENDED
    return await _answer(request, listing, window, progress, state, page=page)


def _read(request: Request) -> tuple[Listing, SearchProgress]:
    """Return the list at its place, and the search's progress. Raises BadRequest if the address is
    not that of a search step.
    """
    given = request.query_params
    listing, canonical = addresses.read(
        QueryParams([(name, value) for name, value in given.multi_items() if name not in _OWN]),
        now=datetime.now(UTC),
        default_limit=preferences(request).limit,
        default_columns=read_kept(preferences(request).columns),
    )
    numbers = [given.get(name, "") for name in ("looked", "found")]
    name = given.get("search", "")
    if (
        not canonical
        or listing.cursor is None
        or listing.cursor.before
        or not _NAME.fullmatch(name)
        or not all(map(_NUMBER.fullmatch, numbers))
        or int(numbers[1]) >= listing.limit
    ):
        raise BadRequest("This is not the next step of a search.")
    return listing, SearchProgress(search=name, looked=int(numbers[0]), found=int(numbers[1]))


def _start_window(listing: Listing) -> SearchedWindow:
    """Return the place where this step starts, for a search that makes no progress."""
    assert listing.cursor is not None
    return SearchedWindow(rows=0, until=None, resume=listing.cursor)


async def _answer(
    request: Request,
    listing: Listing,
    window: SearchedWindow,
    progress: SearchProgress,
    state: Going,
    *,
    page: JobPage | None = None,
    begin: bool = False,
    reason: str = "",
) -> Response:
    board = dashboard(request)
    rows = page.rows if page else ()
    older = None
    if state is Going.FULL:
        last = rows[-1]
        older = list_url(
            request, listing, listing.query(cursor=listing.place(last.id, last.matters_at))
        )
    return respond(
        request,
        SearchStep(
            table=job_table(request, listing, rows),
            search=long_searches.search_note(
                request,
                listing,
                window,
                progress,
                await board.counts.get(),
                state=state,
                begin=begin,
                reason=reason,
            ),
            older_url=older,
        ),
    )
