"""Queues: the list, one queue, pause and resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import queues as actions
from riverui.actions.verbs import QueueVerb
from riverui.domain.jobs import JobListRow, JobState
from riverui.domain.queues import ALL_QUEUES, QueueListRow
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.storage.interface.params import Count, Field
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.problems import error_page
from riverui.web.http.routes import GuardedRoute
from riverui.web.http.urls import local_path, only, url
from riverui.web.live.notices import Notice
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.format import plain
from riverui.web.view.page_parts import Choice, Problem
from riverui.web.view.render import done, respond

log = logging.getLogger("riverui.actions")

_SHOWN = 200
"""Queues in the list."""
_CAP = 1_000
"""Counts of one queue are exact up to this: with many busy queues, more would add up."""
_NAMED = 8
"""Queues that a notice names."""
_MATCH_LENGTH = 200
_COUNTED = (JobState.AVAILABLE, JobState.RUNNING, JobState.SCHEDULED, JobState.RETRYABLE)
_FAILED = (JobState.RETRYABLE, JobState.DISCARDED)
_NEVER = datetime.max.replace(tzinfo=UTC)

_ORDERS: Mapping[str, tuple[str, Callable[[QueueListRow], Any]]] = {
    "name": ("By name", lambda row: row.queue.name),
    "oldest": (
        "Oldest waiting first",
        lambda row: (row.oldest_waiting_at or _NEVER, row.queue.name),
    ),
    "available": ("Most available first", lambda row: (-row.available, row.queue.name)),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLine:
    """A queue in the list, with its links."""

    row: QueueListRow
    verb: QueueVerb | None
    """What its button does; None where nothing can be done to it on its own."""
    url: str
    jobs_urls: Mapping[JobState, str]
    """Lists of its available, running, scheduled and retryable jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesIndex:
    """The queue list."""

    template: ClassVar[str] = "queues/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"queues-list": "queues/_list.html"}

    match: str
    orders: tuple[Choice, ...]
    """name, oldest waiting first, most available first."""
    lines: tuple[QueueLine, ...]
    cap: int
    """Counts at or above it are shown as `10,000+`."""
    more: bool
    """There are more queues than are shown."""
    verbs_all: tuple[QueueVerb, ...]
    """What can be done to every queue at once: what changes one of them."""
    self_url: str
    problem: Problem | None
    may_pause: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class KindLine:
    """A kind of job waiting or running in a queue."""

    kind: str
    counts: Mapping[JobState, Count]
    url: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesShow:
    """One queue."""

    template: ClassVar[str] = "queues/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"queue": "queues/_queue.html"}

    line: QueueLine
    cap: int
    kinds: tuple[KindLine, ...]
    failures: tuple[JobListRow, ...]
    failures_url: str
    self_url: str
    may_pause: bool
    problem: Problem | None = None
    """Why kinds and failures are missing."""


async def index(request: Request) -> Response:
    """The queue list."""
    board = dashboard(request)
    only(request, "match", "order")
    match = request.query_params.get("match", "")[:_MATCH_LENGTH]
    order = request.query_params.get("order") or "name"
    if order not in _ORDERS:
        raise BadRequest(f"Unknown order; the orders are {', '.join(_ORDERS)}.")
    cap = min(board.config.count_cap, _CAP)
    rows: Sequence[QueueListRow] = ()
    problem, status = None, 200
    try:
        async with board.driver.reading() as executor:
            rows = await executor.queue_list(match=match, cap=cap, limit=_SHOWN + 1)
    except QueryTimeout as error:
        status, told = error_page(request, error)
        problem = Problem(title=told.title, detail=told.detail)
    shown = sorted(rows[:_SHOWN], key=_ORDERS[order][1])
    return respond(
        request,
        QueuesIndex(
            match=match,
            orders=tuple(
                Choice(
                    value=value,
                    label=label,
                    url=_index_url(request, match, value),
                    current=value == order,
                )
                for value, (label, _) in _ORDERS.items()
            ),
            lines=tuple(_line(request, row) for row in shown),
            cap=cap,
            more=len(rows) > _SHOWN,
            verbs_all=tuple(
                verb
                for verb in actions.QUEUE_VERBS.values()
                if access(request).may(verb.right) and any(verb.fits(row.queue) for row in rows)
            ),
            self_url=_index_url(request, match, order),
            problem=problem,
            may_pause=access(request).may("queues.pause"),
        ),
        status=status,
    )


async def show(request: Request) -> Response:
    """One queue."""
    board, name = dashboard(request), request.path_params["name"]
    cap = min(board.config.count_cap, _CAP)
    async with board.driver.reading() as executor:
        row = await executor.queue_get(name, cap=cap)
    if row is None:
        raise NotFound(f"Queue not found: {_short(name)}. No client serves it, and it has no jobs.")
    kinds: Sequence[tuple[str, Mapping[JobState, Count]]] = ()
    failures: Sequence[JobListRow] = ()
    problem = None
    try:
        async with board.driver.reading() as executor:
            kinds = await executor.queue_kind_count(name, cap=cap)
            failures = await executor.queue_failure_list(name)
    except QueryTimeout as error:
        told = error_page(request, error)[1]
        problem = Problem(title=told.title, detail=told.detail)
    of_queue = query.equal(Field.QUEUE, name)
    return respond(
        request,
        QueuesShow(
            line=_line(request, row),
            cap=cap,
            kinds=tuple(
                KindLine(
                    kind=kind,
                    counts=counts,
                    url=jobs_url(request, (query.equal(Field.KIND, kind), of_queue)),
                )
                for kind, counts in kinds
            ),
            failures=tuple(failures),
            failures_url=jobs_url(request, (of_queue,), _FAILED),
            self_url=url(request, "queues.show", name=name),
            may_pause=access(request).may("queues.pause"),
            problem=problem,
        ),
    )


async def act(verb: QueueVerb, request: Request) -> Response:
    """Does a verb to a queue, or to every queue."""
    board, posted = dashboard(request), await form(request)
    name, time_limit = posted.get("name"), board.config.action_timeout
    if posted.get("all"):
        name = ALL_QUEUES
        changed = await actions.apply_all(board.driver, verb, time_limit=time_limit)
    elif name is None:
        raise BadRequest("Choose a queue.")
    else:
        changed = await actions.apply(board.driver, verb, name, time_limit=time_limit)
    next_url = local_path(request, posted.get("next"), default=url(request, "queues.index"))
    log.info("queue %r %s by %r: %d changed", name, verb.done, access(request).user, len(changed))
    return done(request, _notice(verb, name, changed), next=next_url, changed="queues")


VERB_ROUTES = tuple(
    GuardedRoute(
        "POST", f"/queues/{verb.name}", f"queues.{verb.name}", verb.right, partial(act, verb)
    )
    for verb in actions.QUEUE_VERBS.values()
)
"""An address for each verb."""


def _notice(verb: QueueVerb, name: str, changed: Sequence[str]) -> Notice:
    """Return what a verb did to the queue of that name, or to every queue."""
    if not changed:
        unchanged = f"Queue {_short(name)} was {verb.unchanged}"
        return Notice(level="info", title=verb.unchanged_all if name == ALL_QUEUES else unchanged)
    details = (verb.hint,) if verb.hint else ()
    if len(changed) == 1:
        title = f"Queue {_short(changed[0])} {verb.done}"
    else:
        title = f"{len(changed):,} queues {verb.done}"
        names = ", ".join(_short(queue) for queue in changed[:_NAMED])
        more = f" and {len(changed) - _NAMED:,} more" if len(changed) > _NAMED else ""
        details = (f"{names}{more}", *details)
    return Notice(level="success", title=title, details=details)


def _line(request: Request, row: QueueListRow) -> QueueLine:
    name = row.queue.name
    return QueueLine(
        row=row,
        verb=next(
            (
                verb
                for verb in actions.QUEUE_VERBS.values()
                if row.queue.pausable and verb.fits(row.queue)
            ),
            None,
        ),
        url=url(request, "queues.show", name=name),
        jobs_urls={
            state: jobs_url(request, (query.equal(Field.QUEUE, name),), (state,))
            for state in _COUNTED
        },
    )


def _index_url(request: Request, match: str, order: str) -> str:
    pairs = ([("match", match)] if match else []) + ([("order", order)] if order != "name" else [])
    return url(request, "queues.index") + (f"?{urlencode(pairs)}" if pairs else "")


def _short(name: str) -> str:
    """A queue's name for a sentence."""
    return plain(name if len(name) <= 60 else f"{name[:60]}…")
