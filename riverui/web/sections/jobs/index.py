"""Jobs: the list."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import quote, urlencode

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import FINALIZED, JobListRow, JobState
from riverui.errors import DatabaseError, QueryTimeout
from riverui.storage.interface import Executor
from riverui.storage.interface.params import (
    Count,
    Field,
    JobCursor,
    JobFilter,
    JobPage,
    JobPageParams,
)
from riverui.web.http.context import dashboard
from riverui.web.http.cookies import preferences
from riverui.web.http.counts import Snapshot
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import here, htmx, linked, url
from riverui.web.search import addresses, query
from riverui.web.search.addresses import Listing, list_url, listing_problem, new_job_url
from riverui.web.search.columns import read_kept
from riverui.web.search.long_searches import SearchNote, first_note
from riverui.web.sections.jobs.list_menus import ListMenus, allowed, hides_args, list_menus
from riverui.web.view.job_table import JobTable, job_columns
from riverui.web.view.page_parts import Choice, Problem
from riverui.web.view.render import respond

_RAIL = (
    JobState.AVAILABLE,
    JobState.RUNNING,
    JobState.SCHEDULED,
    JobState.RETRYABLE,
    JobState.PENDING,
    JobState.COMPLETED,
    JobState.DISCARDED,
    JobState.CANCELLED,
)
"""States in the order of the rail: those with work in progress first."""
_TRIED = FINALIZED | {JobState.RUNNING, JobState.RETRYABLE}
"""States in which the start of the last attempt is what matters, rather than the insertion."""
_HINTED_KINDS = 3
"""Kinds offered as a filter, the commonest on the page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateLink:
    """One entry of the state rail; `state` None is All. `count` None while it is not known."""

    state: JobState | None
    label: str
    url: str
    toggle_url: str
    """The list with this state added to those shown, or without it."""
    current: bool
    count: Count | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterForm:
    """The filter of the list, as shown and edited."""

    q: str
    """The search text as typed."""
    fields: Mapping[str, str] = field(hash=False)
    """The same as plain form fields: id kind queue priority tag worker args metadata error attempt
    created scheduled started finished → text of the field ("" when unused).
    """
    chips: tuple[Choice, ...]
    """Its terms, each with the list without it."""
    clear_url: str
    """This list without any filter term (the state stays)."""
    hidden: tuple[tuple[str, str], ...]
    """Names and values of the form's hidden fields: state, order, limit and columns, each if it
    differs from the list's default.
    """
    by_args: bool = False
    """Whether it searches args, which does not find encrypted ones."""

    @property
    def filtered(self) -> bool:
        """Whether any term besides the state narrows the list."""
        return bool(self.q.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class Pager:
    """Addresses of the neighbouring pages; they stay valid when rows are deleted."""

    first_url: str
    """The first page; live refresh requests it too while on it."""
    newer_url: str | None
    older_url: str | None
    on_first_page: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsIndex:
    """The job list: everything that its template uses, besides the shell."""

    template: ClassVar[str] = "jobs/index.html"
    fragments: ClassVar[Mapping[str, str]] = {
        "jobs-list": "jobs/_list.html",
        "jobs-states": "jobs/_states.html",
    }

    states: tuple[JobState, ...]
    """States shown; empty is All."""
    rail: tuple[StateLink, ...]
    filter: FilterForm
    menus: ListMenus
    table: JobTable
    pager: Pager
    self_url: str
    """Address of this view: live refresh requests it, and actions return to it."""
    search: SearchNote | None
    problem: Problem | None
    dead_letters_url: str
    """The list of dead letters; empty for states other than discarded, and without riverui's own
    tables.
    """
    understood_url: str | None
    """The list without the invalid parts of the address; None for a valid address."""
    final: bool
    """Whether live refresh can stop, as the search is invalid."""
    matching: Count | None
    """How many jobs match, if that is cheap to know; for "select all N matching"."""
    hints: tuple[Choice, ...]
    """Terms that would narrow the list: the last hour, and its commonest kinds."""
    actions: tuple[tuple[JobVerb, str], ...]
    """Verbs that fit the states shown and the viewer's rights, each with the address of its preview
    for all matching jobs. Empty for an invalid search.
    """
    new_url: str
    """The form of a new job; empty for viewers who cannot insert jobs."""


async def index(request: Request) -> Response:
    """Answer with the job list."""
    board, asked = dashboard(request), htmx(request)
    now = datetime.now(UTC)
    listing, canonical = addresses.read(
        request.query_params,
        now=now,
        default_limit=preferences(request).limit,
        default_columns=read_kept(preferences(request).columns),
    )
    if not canonical and not asked.request:
        return RedirectResponse(list_url(request, listing), status_code=302)
    problem, status = listing_problem(listing), 400
    page = JobPage(rows=(), more=False)
    counting = asyncio.ensure_future(board.counts.get())
    try:
        if problem is None and asked.target != "jobs-states":
            async with board.driver.reading() as executor:
                listing, page = await _list(executor, listing, window=board.config.search_window)
    except QueryTimeout as error:
        status, problem = _problem(request, error)
    finally:
        # Other requests share the counting: wait for it even if the list failed.
        snapshot = await counting
    return respond(
        request,
        await _index(request, listing, page, snapshot, problem),
        status=status if problem else 200,
        headers={} if canonical else {"HX-Push-Url": list_url(request, listing)},
    )


def _problem(request: Request, error: Exception) -> tuple[int, Problem]:
    status, page = error_page(request, error)
    return status, Problem(title=page.title, detail=page.detail)


async def _list(executor: Executor, listing: Listing, *, window: int) -> tuple[Listing, JobPage]:
    """Return the rows and their actual place: going back past the start gives a full first page."""
    params = JobPageParams(
        filter=listing.filter,
        order=listing.order,
        cursor=listing.cursor,
        limit=listing.limit,
        window=window,
        paths=listing.paths,
    )
    page = await executor.jobs.list(params)
    if listing.cursor and listing.cursor.before and not page.more and not page.searched:
        listing = addresses.first_page(listing)
        if len(page.rows) < listing.limit:
            page = await executor.jobs.list(replace(params, cursor=None))
        else:
            page = replace(page, more=True)
    return listing, page


async def _index(
    request: Request, listing: Listing, page: JobPage, snapshot: Snapshot, problem: Problem | None
) -> JobsIndex:
    search = listing.search
    understood = not (listing.problem or search.errors)
    return JobsIndex(
        states=listing.states,
        rail=_rail(request, listing, snapshot),
        filter=_filter_form(request, listing),
        menus=list_menus(request, listing),
        table=job_table(request, listing, page.rows),
        pager=_pager(request, listing, page),
        self_url=here(request)
        if listing.problem
        else list_url(request, listing, listing.query(q=search.text, cursor=listing.cursor)),
        search=first_note(request, listing, page.searched, len(page.rows), snapshot)
        if page.searched
        else None,
        problem=problem,
        dead_letters_url=await _dead_letters_url(request, listing),
        understood_url=list_url(request, listing, listing.query()) if listing.problem else None,
        final=not understood,
        matching=None if problem else await _matching(request, listing, page, snapshot),
        hints=_hints(request, listing, page.rows) if page.rows else (),
        actions=_actions(request, listing) if understood else (),
        new_url=new_job_url(request),
    )


async def _dead_letters_url(request: Request, listing: Listing) -> str:
    keeping = dashboard(request).sections.job_keeping
    if JobState.DISCARDED in listing.states and keeping is not None:
        with suppress(DatabaseError):
            if await keeping.ready(request):
                return linked(request, "dead_letters.index")
    return ""


def job_table(request: Request, listing: Listing, rows: tuple[JobListRow, ...]) -> JobTable:
    """Return the table of a list's rows, with the columns that its address names."""
    names = listing.columns
    return JobTable(
        rows=rows,
        columns=job_columns(names, when=listing.when, hide_args=hides_args(request)),
        order=listing.order,
    )


def _filter_form(request: Request, listing: Listing) -> FilterForm:
    search = listing.search
    return FilterForm(
        q=search.text,
        fields=search.fields(),
        chips=tuple(
            Choice(
                value="",
                label=search.text[part.start : part.end],
                url=list_url(request, listing, listing.query(q=search.without(part))),
            )
            for part in search.parts
        ),
        clear_url=list_url(request, listing, listing.query(q="")),
        hidden=tuple(listing.pairs(q="")),
        by_args=bool(search.fields()["args"]),
    )


def _hints(request: Request, listing: Listing, rows: tuple[JobListRow, ...]) -> tuple[Choice, ...]:
    fields, states, terms = listing.search.fields(), listing.states, {}
    if not any(fields[name] for name in ("created", "started", "finished", "scheduled")):
        time = "created" if not states or not _TRIED.issuperset(states) else "started"
        time = "finished" if states and FINALIZED.issuperset(states) else time
        terms["last hour"] = f"{time}:<1h"
    kinds = Counter(row.kind for row in rows).most_common(_HINTED_KINDS)
    if not fields["kind"] and len(kinds) > 1:
        for kind, _ in kinds:
            terms[kind] = query.format(JobFilter(terms=(query.equal(Field.KIND, kind),)))
    return tuple(
        Choice(value=term, label=label, url=list_url(request, listing, listing.query(q=text)))
        for label, term in terms.items()
        if len(text := f"{listing.search.text} {term}".strip()) <= query.MAX_LENGTH
    )


def _pager(request: Request, listing: Listing, page: JobPage) -> Pager:
    cursor = listing.cursor

    def at(place: JobCursor) -> str:
        return list_url(request, listing, listing.query(cursor=place))

    newer = older = None
    if cursor:
        first, last = (page.rows[0], page.rows[-1]) if page.rows else (None, None)
        if page.more or not cursor.before:
            newer = at(
                listing.place(first.id, first.matters_at, before=True)
                if first
                else replace(cursor, before=True)
            )
        if page.more or cursor.before:
            older = at(
                listing.place(last.id, last.matters_at) if last else replace(cursor, before=False)
            )
    elif page.more and page.rows:
        older = at(listing.place(page.rows[-1].id, page.rows[-1].matters_at))
    return Pager(
        first_url=list_url(request, listing, listing.query()),
        newer_url=newer,
        older_url=older,
        on_first_page=cursor is None,
    )


def _rail(request: Request, listing: Listing, snapshot: Snapshot) -> tuple[StateLink, ...]:
    every = StateLink(
        state=None,
        label="All",
        url=list_url(request, listing, listing.query(states=())),
        toggle_url="",
        current=not listing.states,
        count=snapshot.total(),
    )
    return (
        every,
        *(
            StateLink(
                state=state,
                label=state.value.capitalize(),
                url=list_url(request, listing, listing.query(states=(state,))),
                toggle_url=list_url(
                    request,
                    listing,
                    listing.query(
                        states=query.normal_states(
                            [each for each in _RAIL if (each in listing.states) != (each is state)]
                        )
                    ),
                ),
                current=state in listing.states,
                count=snapshot.count(state),
            )
            for state in _RAIL
        ),
    )


def _actions(request: Request, listing: Listing) -> tuple[tuple[JobVerb, str], ...]:
    preview = url(request, "jobs.bulk")
    fixed = urlencode(
        [
            ("q", listing.search.text),
            *(("state", state.value) for state in listing.states),
            ("next", list_url(request, listing)),
        ],
        safe="/",
        quote_via=quote,
    )
    return tuple(
        (verb, f"{preview}?verb={verb.name}&{fixed}") for verb in allowed(request, listing.states)
    )


async def _matching(
    request: Request, listing: Listing, page: JobPage, snapshot: Snapshot
) -> Count | None:
    """Return how many jobs match: from the rows or the shared counts if possible, else counted up
    to the cap.
    """
    if listing.cursor is None and not page.more and page.searched is None:
        return Count(value=len(page.rows))
    if not listing.search.terms:
        return snapshot.total(listing.states)
    if page.searched is not None:
        return None
    return await dashboard(request).counts.matching(listing.key, listing.filter)
