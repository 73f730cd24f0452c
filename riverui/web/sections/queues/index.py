"""The queue list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.queue_clients import QueueClients, queue_clients
from riverui.actions.queues import QUEUE_VERBS
from riverui.actions.verbs import QueueVerb
from riverui.domain.findings import Level, cut
from riverui.domain.health.baseline import Baseline
from riverui.domain.health.usual import grade_wait, usually
from riverui.domain.queues import QueueListRow, QueueMinute, time_to_empty
from riverui.domain.time import duration
from riverui.errors import BadRequest, DatabaseError, QueryTimeout
from riverui.features.figures.reader.figure_reader import promptly
from riverui.storage.interface.params import Field
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.facts import fact
from riverui.web.view.format import plain
from riverui.web.view.page_parts import Choice, Problem, order_choices
from riverui.web.view.queue_table import COUNTED, QueueLine, queue_table
from riverui.web.view.render import respond
from riverui.web.view.tables import Table

_SHOWN = 200
"""Most queues shown in the list."""
QUICK_CAP = 250
"""Jobs of a queue and state that are counted at first: most queues hold fewer."""
_EXACT_CAP = 20_000
"""Counts of a queue and state are exact up to this number …"""
_ENTRIES = 40_000
"""… unless all such counts together would read more entries of the index: they take some 6 ms …"""
_LEAST_CAP = 1_000
"""… but at least up to this number."""
_MATCH_LENGTH = 200
"""Longest text to match names with, in characters; the rest is ignored."""
_NEVER = datetime.max.replace(tzinfo=UTC)
"""Sorts queues without waiting jobs last."""
_WORST = "worst"
_CALM = 2
"""The rank of queues without trouble; those that wait or have no client are 0, paused ones 1."""
_SILENT = timedelta(minutes=25)
"""Clients report their queues every ten minutes: after this time two reports are missing."""
_FEWEST_MINUTES = 5
"""Fewest minutes with ended jobs for what is usual: fewer may all be odd."""

_ORDERS: Mapping[str, tuple[str, Callable[[QueueLine], Any]]] = {
    _WORST: (
        "Worst first",
        lambda line: (line.rank, -line.waited * (line.rank < _CALM), line.row.queue.name),
    ),
    "name": ("By name", lambda line: line.row.queue.name),
    "oldest": (
        "Oldest waiting first",
        lambda line: (line.row.oldest_waiting_at or _NEVER, line.row.queue.name),
    ),
    "available": (
        "Most available first",
        lambda line: (-line.row.available, line.row.queue.name),
    ),
}
"""Label and sort key of each order, by its name in the address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesIndex:
    """The queue list."""

    template: ClassVar[str] = "queues/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"queues-list": "queues/_list.html"}

    match: str
    orders: tuple[Choice, ...]
    """worst, by name, oldest waiting first, most available first."""
    summary: str
    """What is wrong with which queues, in sentences; empty for a search."""
    trouble: bool
    """Whether the summary is about trouble."""
    table: Table[QueueLine]
    more: bool
    """There are more queues than are shown."""
    verbs_all: tuple[QueueVerb, ...]
    """Verbs for all queues at once: those that would change at least one."""
    paused: int
    """Paused queues among those shown."""
    self_url: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Answer with the queues that match, in the order asked for."""
    board = dashboard(request)
    only(request, "match", "order")
    match = request.query_params.get("match", "")[:_MATCH_LENGTH]
    order = request.query_params.get("order") or _WORST
    if order not in _ORDERS:
        raise BadRequest(f"Unknown order; the orders are {', '.join(_ORDERS)}.")
    rows: Sequence[QueueListRow] = ()
    cap, problem, status = QUICK_CAP, None, 200
    try:
        async with board.driver.reading() as executor:
            rows = await executor.queues.list(match=match, cap=QUICK_CAP, limit=_SHOWN + 1)
        rows, cap = await exactly(request, rows)
    except QueryTimeout as error:
        status, page = error_page(request, error)
        problem = Problem(title=page.title, detail=page.detail)
    minutes = await queue_minutes(request)
    clients = await fact(board.driver, queue_clients)
    lines = [line(request, row, minutes, clients, cap=cap) for row in rows[:_SHOWN]]
    lines.sort(key=_ORDERS[order][1])
    verbs, self_url = allowed(request), _index_url(request, match, order)
    return respond(
        request,
        QueuesIndex(
            match=match,
            orders=order_choices(_ORDERS, order, partial(_index_url, request, match)),
            summary="" if match or problem else _summary(lines, known=bool(minutes)),
            trouble=any(each.rank < _CALM for each in lines),
            table=queue_table(
                lines,
                cap=cap,
                actions=bool(verbs),
                figures=minutes is not None,
                next_url=self_url,
            ),
            more=len(rows) > _SHOWN,
            verbs_all=tuple(verb for verb in verbs if any(verb.fits(row.queue) for row in rows)),
            paused=sum(each.row.queue.paused_at is not None for each in lines),
            self_url=self_url,
            problem=problem,
        ),
        status=status,
    )


def _summary(lines: Sequence[QueueLine], *, known: bool) -> str:
    """Return what is wrong with which queues; `known` is whether figures say what is usual."""
    if not lines:
        return ""
    late = sorted((each for each in lines if each.late), key=lambda each: each.waited)
    unserved = [each for each in lines if not each.row.queue.served]
    paused = [each for each in lines if each.row.queue.paused_at]
    sentences = []
    if late:
        worst = late[-1]
        name, wait = cut(worst.row.queue.name), duration(worst.waited)
        if len(late) == 1:
            sentences.append(f"Queue {name} has waited for {wait}{usually(worst.usual)}.")
        else:
            sentences.append(f"{len(late)} queues wait for longer than usual, {name} for {wait}.")
    if len(paused) == len(lines):
        sentences.append("Every queue is paused: no job starts.")
    elif paused:
        sentences.append(f"{_named(paused)} {'is' if len(paused) == 1 else 'are'} paused.")
    if unserved:
        sentences.append(f"{_named(unserved)} {'has' if len(unserved) == 1 else 'have'} no client.")
    if not late and len(paused) < len(lines):
        others = "The others wait no" if paused else "No queue waits"
        sentences.append(f"{others} longer than {'usual' if known else 'a minute'}.")
    return " ".join(sentences)


def _named(lines: Sequence[QueueLine]) -> str:
    return f"Queue {cut(lines[0].row.queue.name)}" if len(lines) == 1 else f"{len(lines):,} queues"


async def exactly(
    request: Request, rows: Sequence[QueueListRow]
) -> tuple[Sequence[QueueListRow], int]:
    """Return queues that were counted up to `QUICK_CAP` with counts that go further, and the number
    below which these are exact. They stay as they are if that takes too long.
    """
    full = [
        (row.queue.name, state)
        for row in rows
        for state in COUNTED
        if getattr(row, state) >= QUICK_CAP
    ]
    if not full:
        return rows, QUICK_CAP
    cap = max(_LEAST_CAP, min(_EXACT_CAP, _ENTRIES // len(full)))
    found = await fact(
        dashboard(request).driver, lambda executor: executor.queues.state_count(full, cap=cap)
    )
    if isinstance(found, DatabaseError):
        return rows, QUICK_CAP
    deeper: dict[str, dict[str, Any]] = {}
    for (name, state), jobs in found.items():
        deeper.setdefault(name, {})[state.value] = jobs
    return [replace(row, **deeper.get(row.queue.name, {})) for row in rows], cap


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
    request: Request,
    row: QueueListRow,
    minutes: Minutes | None = None,
    clients: QueueClients | DatabaseError | None = None,
    *,
    cap: int,
) -> QueueLine:
    """Return a queue's line with its links, figures and slots. Its counts are exact below `cap`."""
    queue, name, now = row.queue, row.queue.name, datetime.now(UTC)
    own = (minutes or {}).get(name, ())
    fitting = (verb for verb in allowed(request) if queue.pausable and verb.fits(queue))
    slots = clients.slots(name) if isinstance(clients, QueueClients) else None
    waited = max(now - (row.oldest_waiting_at or now), timedelta(0))
    usual = _usual_wait(own, waited)
    before = now - waited
    known = Baseline(before=before, minutes=len(own), wait=usual) if usual is not None else None
    late = queue.paused_at is None and grade_wait(waited, known) is not Level.OK
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
        slots=slots.most if slots else None,
        waited=waited,
        usual=usual,
        late=late,
        silent=queue.updated_at is not None and now - queue.updated_at > _SILENT,
        rank=0 if late or not queue.served else 1 if queue.paused_at else _CALM,
    )


def _usual_wait(minutes: Sequence[QueueMinute | None], waited: timedelta) -> timedelta | None:
    """Return the median wait (p95) of the minutes before the oldest job began to wait; None if they
    are too few: what goes on does not become usual.
    """
    known = minutes[: max(len(minutes) - 2 - waited // timedelta(minutes=1), 0)]
    waits = sorted(each.wait for each in known if each is not None and each.wait is not None)
    return waits[len(waits) // 2] if len(waits) >= _FEWEST_MINUTES else None


def _empty_in(
    row: QueueListRow, minutes: Sequence[QueueMinute | None], cap: int
) -> timedelta | None:
    """Return the time until the queue is empty; None if unknown."""
    if row.queue.paused_at or row.available >= cap:
        return None
    return time_to_empty(minutes[:-1], row.available)


def _index_url(request: Request, match: str, order: str) -> str:
    given = {"match": match, "order": "" if order == _WORST else order}
    pairs = {name: value for name, value in given.items() if value}
    return url(request, "queues.index") + (f"?{urlencode(pairs)}" if pairs else "")


def short_name(name: str) -> str:
    """Return a queue's name for a sentence."""
    return plain(name if len(name) <= 60 else f"{name[:60]}…")
