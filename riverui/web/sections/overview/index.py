"""The front page: what ran recently, how long it took, and what needs attention."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.domain.figures import OTHER, Figures, Tally, Window
from riverui.domain.marks import Mark
from riverui.domain.queues import QueueListRow
from riverui.domain.spikes import spikes
from riverui.errors import DatabaseError
from riverui.features.operations.runner import OPERATIONS
from riverui.features.operations.store import Operation, OperationStatus
from riverui.features.operations.verbs import OPERATION_VERBS
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search.figure_addresses import (
    WindowChoice,
    jobs_link,
    read_window,
    window_choices,
    with_window,
)
from riverui.web.sections.overview.facts import HEALTH, queue_cap, queue_rows
from riverui.web.sections.overview.verdict import VerdictLine, verdict_lines
from riverui.web.view.chart_cards import ChartCard, chart_cards
from riverui.web.view.figure_charts import step_words
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond

log = logging.getLogger("riverui.web")

_CHARTS = ("ended", "wait", "run")
_QUEUES = 8
"""Most queues shown, the worst first."""
_KINDS = 8
"""Most kinds in each table."""
_EVENTS = 8
"""Most recent events shown."""
_LATE = timedelta(seconds=15)
"""How long a job may wait before its queue needs attention: three poll intervals of a client."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueNeed:
    """A queue that needs attention."""

    row: QueueListRow
    url: str
    wait: timedelta | None
    """The 95th percentile of the waits of jobs that ended in the window; None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindShare:
    """One kind's share of the figures of the window."""

    kind: str
    """Empty for the sum of all other kinds."""
    url: str
    """Address of its page; empty for the sum of other kinds."""
    ended: int
    spent: timedelta
    """Total run time of its completed and failed attempts, as far as known."""
    run: timedelta | None
    """The 95th percentile of the run times of completed jobs."""
    failed: int
    failing: float | None
    """The share of attempts that failed, from 0 to 1."""
    share: float
    """Its value relative to that of the table's first line, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A recent event: a paused queue, a mark, an action on many jobs, or a spike."""

    at: datetime
    icon: str
    name: str
    """The queue's name; empty if the event is not about a queue."""
    words: str
    url: str
    """Where to read more; empty if nowhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewIndex:
    """The front page."""

    template: ClassVar[str] = "overview/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"overview": "overview/_overview.html"}

    verdict: tuple[VerdictLine, ...]
    """The three answers of the health report."""
    figures: Figures
    charts: tuple[ChartCard, ...]
    windows: tuple[WindowChoice, ...]
    queues: tuple[QueueNeed, ...] | None
    """None if they cannot be read, or if the viewer has no right to see queues."""
    queue_cap: int
    spent: tuple[KindShare, ...]
    """The kinds with the longest total run time."""
    failing: tuple[KindShare, ...]
    """The kinds that failed most often."""
    events: tuple[Event, ...]
    self_url: str
    problem: Problem | None
    """Why queues are missing."""


async def index(request: Request) -> Response:
    """Answer with the front page; redirect viewers without the right to figures to the list of
    jobs.
    """
    if not access(request).may("figures.read"):
        return RedirectResponse(url(request, "jobs.index"), status_code=302)
    only(request, "window")
    board, window = dashboard(request), read_window(request)
    # Look whether riverui's own tables exist: the navigation depends on them.
    await board.own_tables.seen()
    figures = await board.figures.read(window)
    marks = await board.marks_since(figures.columns[0].at)
    queues, problem = await _queues(request)
    kinds = figures.by_kind

    def address(other: Window) -> str:
        return with_window(url(request, "root"), other)

    return respond(
        request,
        OverviewIndex(
            verdict=tuple(verdict_lines(request, await board.get(HEALTH).get(), figures)),
            figures=figures,
            charts=await chart_cards(request, _CHARTS, figures),
            windows=window_choices(window, address),
            queues=None if queues is None else tuple(_needs(request, queues, figures)),
            queue_cap=queue_cap(request),
            spent=_kinds(request, kinds, lambda tally: tally.spent.total_seconds()),
            failing=_kinds(request, kinds, lambda tally: tally.failed),
            events=tuple(await _events(request, queues or (), marks, figures)),
            self_url=address(window),
            problem=problem,
        ),
    )


async def _queues(request: Request) -> tuple[Sequence[QueueListRow] | None, Problem | None]:
    """Return the queues; None, and the problem, if they cannot be read."""
    found = await queue_rows(request)
    if isinstance(found, DatabaseError):
        page = error_page(request, found)[1]
        return None, Problem(title=page.title, detail=page.detail)
    return found, None


def _needs(request: Request, rows: Sequence[QueueListRow], figures: Figures) -> Iterator[QueueNeed]:
    """Yield the queues with jobs that wait long, or wait in a queue that is paused or has no
    client; longest wait first.
    """
    waits = figures.by_queue
    found = []
    for row in rows:
        since = row.oldest_waiting_at
        waited = (figures.read_at or since) - since if since else timedelta(0)
        if since and (waited > _LATE or row.queue.paused_at or not row.queue.served):
            found.append((since, row))
    for _, row in sorted(found, key=lambda pair: (pair[0], pair[1].queue.name))[:_QUEUES]:
        name = row.queue.name
        tally = waits.get(name)
        yield QueueNeed(
            row=row,
            url=url(request, "queues.show", name=name),
            wait=tally.wait.quantile(0.95) if tally else None,
        )


def _kinds(
    request: Request, kinds: Mapping[str, Tally], measure: Callable[[Tally], float]
) -> tuple[KindShare, ...]:
    """Return the kinds with the largest values of a measure, largest first."""
    found = [(measure(tally), kind, tally) for kind, tally in kinds.items() if measure(tally)]
    found.sort(key=lambda line: (-line[0], line[1]))
    return tuple(
        KindShare(
            kind="" if kind == OTHER else kind,
            url="" if kind == OTHER else url(request, "kinds.show", kind=kind),
            ended=tally.ended,
            spent=tally.spent,
            run=tally.run.quantile(0.95),
            failed=tally.failed,
            failing=tally.failing,
            share=value / found[0][0],
        )
        for value, kind, tally in found[:_KINDS]
    )


async def _events(
    request: Request,
    queues: Sequence[QueueListRow],
    marks: Sequence[Mark],
    figures: Figures,
) -> list[Event]:
    """Return recent events, newest first: paused queues, marks such as deploys, actions on all
    matching jobs, and spikes of failures or inserts.
    """
    found = [
        Event(
            at=row.queue.paused_at,
            icon="pause",
            name=row.queue.name,
            words="paused",
            url=url(request, "queues.show", name=row.queue.name),
        )
        for row in queues
        if row.queue.paused_at
    ]
    found += [
        Event(at=mark.at, icon="flag", name="", words=_mark_words(mark), url=mark.url)
        for mark in marks
    ]
    found += _spikes(request, figures)
    if access(request).may("jobs.read"):
        try:
            operations = await dashboard(request).get(OPERATIONS).list(limit=_EVENTS)
        except DatabaseError:
            # The page already says that the database does not answer.
            log.debug("the newest operations could not be read")
        else:
            found += [_operation(request, operation) for operation in operations]
    return sorted(found, key=lambda event: event.at, reverse=True)[:_EVENTS]


def _spikes(request: Request, figures: Figures) -> Iterator[Event]:
    link, step = jobs_link(request), step_words(figures.window.step)
    kinds: tuple[tuple[str, Callable[[Tally], int]], ...] = (
        ("attempts failed", lambda tally: tally.failed),
        ("jobs inserted", lambda tally: tally.inserted),
    )
    for words, count in kinds:
        for spike in spikes(figures.columns, count):
            yield Event(
                at=spike.at,
                icon="activity",
                name="",
                words=f"up to {spike.most:,} {words} in a {step}, usually {spike.usual:,}",
                url=link(spike.at, spike.until) if link and words == "attempts failed" else "",
            )


def _mark_words(mark: Mark) -> str:
    return f"{mark.label} by {mark.user[:60]}" if mark.user else mark.label


def _operation(request: Request, operation: Operation) -> Event:
    n = operation.changed + operation.requested
    jobs = f"{n:,} job{'' if n == 1 else 's'} {OPERATION_VERBS[operation.verb].done}"
    by = f" by {operation.user[:60]}" if operation.user else ""
    status = "" if operation.status is OperationStatus.DONE else f" ({operation.status.value})"
    return Event(
        at=operation.started_at,
        icon="list-checks",
        name="",
        words=f"{jobs}{by}{status}",
        url=url(request, "operations.show", id=operation.id),
    )
