"""Actions on all matching jobs while they run, and what they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import SKIPPED
from riverui.actions.verbs import JobVerb
from riverui.errors import DatabaseError, NotFound
from riverui.features.dead_letters import filter as dead_letter_filter
from riverui.storage.interface import OPERATIONS, OWN_TABLES, SERVER
from riverui.storage.interface.operations import OPERATION_TABLE
from riverui.storage.interface.params import CountKind
from riverui.web.auth.access import access, need
from riverui.web.http.context import Dashboard, dashboard
from riverui.web.http.forms import form
from riverui.web.http.urls import local_path, only, url
from riverui.web.live.notices import Notice
from riverui.web.live.operation_run import Operation, OperationStatus
from riverui.web.live.operation_store import OperationStore
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.facts import fact
from riverui.web.view.render import done, respond

_ROWS = 50
"""Operations of a page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationView:
    """One operation as shown."""

    id: str
    verb: JobVerb
    given: tuple[tuple[str, str | int], ...]
    """What the verb was given besides the jobs: labels and values."""
    pace: str
    """How fast it was asked to go, as a sentence; empty for full speed."""
    trying: bool
    """Whether the jobs tried first have not all ended yet."""
    watched: tuple[int, int] | None
    """How many of the newest outcomes are failures, and how many there are; None if not watched."""
    filter_text: str
    user: str
    cutoff_at: datetime
    """Jobs that came later are left alone."""
    started_at: datetime
    ended_at: datetime | None
    status: str
    """running, stopping, done, stopped or failed."""
    total: int
    total_exact: bool
    changed: int
    requested: int
    seen: int
    """Jobs dealt with so far, skipped ones included."""
    skipped: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Why jobs were left as they were, in words; how many; the first few ids."""
    error: str
    unread: tuple[str, ...]
    """Columns of its row that cannot be read: it is not carried out."""
    stopped_by: str | None
    """Who asked it to stop; None where nobody did."""
    holder: str
    """The dashboard that works on it, or did so last; empty for one of this process alone."""
    waiting: bool
    """Whether no dashboard works on it just now."""
    url: str
    jobs_url: str
    """The list it was started from; empty where it names more jobs than a search can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationsIndex:
    """Operations, newest first."""

    template: ClassVar[str] = "operations/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"operations-list": "operations/_list.html"}

    operations: tuple[OperationView, ...]
    shared: bool
    """Whether every dashboard of the database sees them."""
    remedy: str
    """The command after which they are shared; empty where none helps."""
    others: int
    """Other dashboards that are seen on this database, where operations are not shared."""
    self_url: str
    first_url: str
    """The first page; empty where this is it."""
    older_url: str
    """The page after this one; empty where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationsShow:
    """One operation."""

    template: ClassVar[str] = "operations/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"operation": "operations/_operation.html"}

    operation: OperationView
    self_url: str


async def index(request: Request) -> Response:
    """Answer with a page of operations."""
    only(request, "before")
    board, before = dashboard(request), request.query_params.get("before") or None
    store = await board.operation_store()
    found = await store.page(before=before, limit=_ROWS)
    here = url(request, "operations.index")
    possible = {OPERATIONS, OWN_TABLES}.issubset(board.driver.capabilities)
    return respond(
        request,
        OperationsIndex(
            operations=tuple(_view(request, operation) for operation in found.operations),
            shared=store.shared,
            remedy=OPERATION_TABLE.remedy if possible else "",
            others=0 if store.shared else await _others(board),
            self_url=f"{here}?{urlencode({'before': before})}" if before else here,
            first_url=here if before else "",
            older_url=f"{here}?{urlencode({'before': found.older})}" if found.older else "",
        ),
    )


async def show(request: Request) -> Response:
    """Answer with one operation."""
    _, operation = await find(request)
    view = _view(request, operation)
    return respond(request, OperationsShow(operation=view, self_url=view.url))


async def stop(request: Request) -> Response:
    """Stop an operation after the chunk at hand."""
    store, operation = await find(request)
    need(request, operation.verb.right)
    posted = await form(request)
    ended = operation.ended
    await store.halt(operation, user=access(request).user)
    title = "It had already finished" if ended else "Stopping after the current batch"
    here = url(request, "operations.show", id=operation.id)
    next_url = local_path(request, posted.get("next"), default=here)
    return done(request, Notice(level="info", title=title), next=next_url, changed="operations")


async def find(request: Request) -> tuple[OperationStore, Operation]:
    """Return the operation that the address names, and where it is kept; NotFound."""
    board, asked = dashboard(request), request.path_params["id"]
    store = await board.operation_store()
    if operation := await store.find(asked):
        return store, operation
    # It may have been started before the database had the table.
    if operation := board.operations.get(asked):
        return board.operations, operation
    when = "30 days after their end" if store.shared else "when the dashboard restarts"
    told = f"Operation not found: operations are forgotten {when}."
    if not store.shared and await _others(board):
        told += " Another dashboard of this database may know it: each knows only its own."
    raise NotFound(told)


async def _others(board: Dashboard) -> int:
    """Return how many other dashboards are connected to the database; those that are part of
    another program cannot be told from it and are not counted.
    """
    if SERVER not in board.driver.capabilities:
        return 0
    names = await fact(board.driver, lambda executor: SERVER.on(executor).dashboard_list())
    return 0 if isinstance(names, DatabaseError) else len(set(names) - {board.name})


def _view(request: Request, operation: Operation) -> OperationView:
    through, watch = operation.status is OperationStatus.DONE, operation.watch
    return OperationView(
        id=operation.id,
        verb=operation.verb,
        given=tuple(
            (parameter.label, operation.given[parameter.name])
            for parameter in operation.verb.parameters
            if parameter.name in operation.given
        ),
        pace=operation.pace.words,
        trying=bool(operation.pace.canary and watch and not watch.passed and not operation.ended),
        watched=(watch.failed, len(watch.outcomes)) if watch else None,
        filter_text=operation.filter_text,
        user=operation.user,
        cutoff_at=operation.cutoff.at,
        started_at=operation.started_at,
        ended_at=operation.ended_at,
        status=operation.status.value,
        total=operation.seen if through else max(operation.total.value, operation.seen),
        total_exact=through or operation.total.kind is CountKind.EXACT,
        changed=operation.changed,
        requested=operation.requested,
        seen=operation.seen,
        skipped=tuple(
            (SKIPPED[reason], number, operation.skipped_samples.get(reason, ()))
            for reason, number in operation.skipped.items()
        ),
        error=operation.error,
        unread=tuple(operation.unread),
        stopped_by=operation.stopped_by,
        holder=operation.holder,
        waiting=operation.waiting,
        url=url(request, "operations.show", id=operation.id),
        jobs_url=_list_url(request, operation),
    )


def _list_url(request: Request, operation: Operation) -> str:
    """Return the list that an operation was started from; empty where no address holds it."""
    if not query.searchable(operation.filter_text):
        return ""
    if not operation.verb.on_dead_letters:
        return jobs_url(request, operation.filter.terms, operation.filter.states)
    asked = dead_letter_filter.params(operation.filter)
    given = {"kind": asked.kind, "queue": asked.queue, "match": asked.error}
    pairs = {name: text for name, text in given.items() if text}
    home = url(request, "dead_letters.index")
    return f"{home}?{urlencode(pairs)}" if pairs else home
