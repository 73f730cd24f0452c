"""The queue list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.queues import QUEUE_VERBS
from riverui.actions.verbs import QueueVerb
from riverui.domain.queues import QueueListRow, QueueMinute, time_to_empty
from riverui.errors import BadRequest, QueryTimeout
from riverui.features.figures.reader.figure_reader import promptly
from riverui.storage.interface.params import Field
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.format import plain
from riverui.web.view.page_parts import Choice, Problem
from riverui.web.view.queue_table import COUNTED, QueueLine, queue_table
from riverui.web.view.render import respond
from riverui.web.view.tables import Table

_SHOWN = 200
"""Most queues shown in the list."""
COUNT_CAP = 1_000
"""Counts of one queue are exact up to this number: with many busy queues, more would take too long.
"""
_MATCH_LENGTH = 200
"""Longest text to match names with, in characters; the rest is ignored."""
_NEVER = datetime.max.replace(tzinfo=UTC)
"""Sorts queues without waiting jobs last."""

_ORDERS: Mapping[str, tuple[str, Callable[[QueueListRow], Any]]] = {
    "name": ("By name", lambda row: row.queue.name),
    "oldest": (
        "Oldest waiting first",
        lambda row: (row.oldest_waiting_at or _NEVER, row.queue.name),
    ),
    "available": ("Most available first", lambda row: (-row.available, row.queue.name)),
}
"""Label and sort key of each order, by its name in the address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesIndex:
    """The queue list."""

    template: ClassVar[str] = "queues/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"queues-list": "queues/_list.html"}

    match: str
    orders: tuple[Choice, ...]
    """name, oldest waiting first, most available first."""
    table: Table[QueueLine]
    more: bool
    """There are more queues than are shown."""
    verbs_all: tuple[QueueVerb, ...]
    """Verbs for all queues at once: those that would change at least one."""
    self_url: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Answer with the queues that match, in the order asked for."""
    board = dashboard(request)
    only(request, "match", "order")
    match = request.query_params.get("match", "")[:_MATCH_LENGTH]
    order = request.query_params.get("order") or "name"
    if order not in _ORDERS:
        raise BadRequest(f"Unknown order; the orders are {', '.join(_ORDERS)}.")
    cap = min(board.config.count_cap, COUNT_CAP)
    rows: Sequence[QueueListRow] = ()
    problem, status = None, 200
    try:
        async with board.driver.reading() as executor:
            rows = await executor.queues.list(match=match, cap=cap, limit=_SHOWN + 1)
    except QueryTimeout as error:
        status, page = error_page(request, error)
        problem = Problem(title=page.title, detail=page.detail)
    minutes = await queue_minutes(request)
    shown = sorted(rows[:_SHOWN], key=_ORDERS[order][1])
    verbs, self_url = allowed(request), _index_url(request, match, order)
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
            table=queue_table(
                [line(request, row, minutes, cap=cap) for row in shown],
                cap=cap,
                actions=bool(verbs),
                figures=minutes is not None,
                next_url=self_url,
            ),
            more=len(rows) > _SHOWN,
            verbs_all=tuple(verb for verb in verbs if any(verb.fits(row.queue) for row in rows)),
            self_url=self_url,
            problem=problem,
        ),
        status=status,
    )


def allowed(request: Request) -> list[QueueVerb]:
    """Return the queue verbs that this viewer has the right to."""
    return [verb for verb in QUEUE_VERBS.values() if access(request).may(verb.right)]


Minutes = Mapping[str, Sequence[QueueMinute | None]]


async def queue_minutes(request: Request) -> Minutes | None:
    """Return each queue's figures for the minutes of the last hour; empty if they cannot be read at
    once. None if this dashboard or this viewer has no figures.
    """
    board = dashboard(request)
    if not board.config.charts or not access(request).may("figures.read"):
        return None
    return await promptly(board.figures.read_queues()) or {}


def line(
    request: Request, row: QueueListRow, minutes: Minutes | None = None, *, cap: int
) -> QueueLine:
    """Return a queue's line with its links and figures. Its counts are exact below `cap`."""
    queue, name = row.queue, row.queue.name
    own = (minutes or {}).get(name, ())
    fitting = (verb for verb in allowed(request) if queue.pausable and verb.fits(queue))
    return QueueLine(
        row=row,
        verb=next(fitting, None),
        url=url(request, "queues.show", name=name),
        jobs_urls={
            state: jobs_url(request, (query.equal(Field.QUEUE, name),), (state,))
            for state in COUNTED
        },
        minutes=own,
        empty_in=_empty_in(row, own, cap),
    )


def _empty_in(
    row: QueueListRow, minutes: Sequence[QueueMinute | None], cap: int
) -> timedelta | None:
    """Return the time until the queue is empty; None if unknown."""
    newest, waiting = (minutes[-1] if minutes else None), row.available
    if waiting >= cap:
        # The figures count further than the list does.
        if newest is None or newest.waiting is None or newest.waiting_capped:
            return None
        waiting = newest.waiting
    return None if row.queue.paused_at else time_to_empty(minutes[:-1], waiting)


def _index_url(request: Request, match: str, order: str) -> str:
    pairs = ([("match", match)] if match else []) + ([("order", order)] if order != "name" else [])
    return url(request, "queues.index") + (f"?{urlencode(pairs)}" if pairs else "")


def short_name(name: str) -> str:
    """Return a queue's name for a sentence."""
    return plain(name if len(name) <= 60 else f"{name[:60]}…")
