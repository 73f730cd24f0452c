"""The pages of operations: their progress, the stop button, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import SKIPPED
from riverui.actions.verbs import JobVerb
from riverui.features.dead_letters import filter as dead_letter_filter
from riverui.features.operations import api
from riverui.features.operations.run import filter_of_query
from riverui.features.operations.runner import OPERATIONS
from riverui.features.operations.store import Operation, OperationStatus
from riverui.features.operations.verbs import OPERATION_VERBS
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import Section, access, dashboard, need
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.contributions import Event
from riverui.web.view.navigation import NavEntry
from riverui.web.view.notices import done
from riverui.web.view.render import respond

_ROWS = 50
"""Operations per page."""
_EVENTS = 50
"""Newest operations that the timeline can show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationView:
    """One operation as shown."""

    operation: Operation
    verb: JobVerb
    given: tuple[tuple[str, str | int], ...]
    """The verb's parameters: labels and values."""
    skipped: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Why jobs were skipped, in words; how many; the first few ids."""
    url: str
    jobs_url: str
    """The list it was started from; empty if it names more jobs than a search can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationsIndex:
    """Operations, newest first."""

    template: ClassVar[str] = "operations/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"operations-list": "operations/_list.html"}

    views: tuple[OperationView, ...]
    shared: bool
    """Whether all dashboards of the database show them."""
    missing: str
    """The migration needed to share them."""
    remedy: str
    """The command that runs it."""
    others: int
    """Other dashboards on this database, if operations are not shared."""
    self_url: str
    first_url: str
    """The first page; empty if this is it."""
    older_url: str
    """The next page; empty if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationsShow:
    """One operation."""

    template: ClassVar[str] = "operations/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"operation": "operations/_operation.html"}

    view: OperationView
    self_url: str


async def index(request: Request) -> Response:
    """Show a page of operations."""
    only(request, "before")
    board, before = dashboard(request), request.query_params.get("before") or None
    found = await board.get(OPERATIONS).list(before=before, limit=_ROWS + 1)
    shown, shared = found[:_ROWS], await board.get(OPERATIONS).shared()
    here = url(request, "operations.index")
    more = len(found) > len(shown)
    return respond(
        request,
        OperationsIndex(
            views=tuple(_view(request, operation) for operation in shown),
            shared=shared,
            missing=MISSING,
            remedy=REMEDY,
            others=0 if shared else await api.other_dashboards(board),
            self_url=f"{here}?{urlencode({'before': before})}" if before else here,
            first_url=here if before else "",
            older_url=f"{here}?{urlencode({'before': shown[-1].id})}" if more else "",
        ),
    )


async def show(request: Request) -> Response:
    """Show one operation."""
    view = _view(request, await api.find(request))
    return respond(request, OperationsShow(view=view, self_url=view.url))


async def stop(request: Request) -> Response:
    """Stop an operation after the current chunk."""
    operation = await api.find(request)
    need(request, OPERATION_VERBS[operation.verb].right)
    posted, ended = await form(request), operation.ended_at is not None
    await dashboard(request).get(OPERATIONS).stop(operation, user=access(request).user)
    title = "It had already finished" if ended else "Stopping after the current batch"
    here = url(request, "operations.show", id=operation.id)
    next_url = local_path(request, posted.get("next"), default=here)
    return done(request, Notice(level="info", title=title), next=next_url, changed="operations")


async def events(request: Request, since: datetime, until: datetime) -> Sequence[Event]:
    """Return the newest operations that began between two times."""
    if not access(request).may("jobs.read"):
        return ()
    found = []
    for operation in await dashboard(request).get(OPERATIONS).list(limit=_EVENTS):
        n, verb = operation.changed + operation.requested, OPERATION_VERBS[operation.verb]
        status = "" if operation.status is OperationStatus.DONE else f" ({operation.status.value})"
        found.append(
            Event(
                at=operation.started_at,
                icon="list-checks",
                words=f"{n:,} job{'' if n == 1 else 's'} {verb.done}{status}",
                user=operation.user,
                url=url(request, "operations.show", id=operation.id),
                deed=True,
            )
        )
    return [event for event in found if since <= event.at < until]


def _view(request: Request, operation: Operation) -> OperationView:
    verb, given = OPERATION_VERBS[operation.verb], operation.parameters
    return OperationView(
        operation=operation,
        verb=verb,
        given=tuple(
            (parameter.label, given[parameter.name])
            for parameter in verb.parameters
            if parameter.name in given
        ),
        skipped=tuple((SKIPPED[reason], *found) for reason, found in operation.skipped.items()),
        url=url(request, "operations.show", id=operation.id),
        jobs_url=_list_url(request, operation, verb),
    )


def _list_url(request: Request, operation: Operation, verb: JobVerb) -> str:
    """Return the list that an operation was started from; empty if no URL can hold it."""
    if not query.searchable(operation.query):
        return ""
    matching = filter_of_query(operation.query, now=operation.started_at)
    if not verb.on_dead_letters:
        return jobs_url(request, matching.terms, matching.states)
    asked = dead_letter_filter.params(matching)
    given = {"kind": asked.kind, "queue": asked.queue, "match": asked.error}
    pairs = {name: text for name, text in given.items() if text}
    home = url(request, "dead_letters.index")
    return f"{home}?{urlencode(pairs)}" if pairs else home


SECTION = Section(
    name="operations",
    navigation=NavEntry(
        label="Operations", route="operations.index", right="jobs.read", icon="list-checks"
    ),
    # Stopping one also needs the right to its verb, which only the handler knows.
    routes=(
        GuardedRoute("GET", "/operations", "operations.index", "jobs.read", index),
        GuardedRoute("GET", "/operations/{id}", "operations.show", "jobs.read", show),
        GuardedRoute("POST", "/operations/{id}/stop", "operations.stop", "jobs.read", stop),
    ),
    api=api.ENDPOINTS,
    services=(OPERATIONS,),
    events=events,
)
