"""One kind of jobs: how many end and fail, how long they wait and run, and its newest jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.figures import OTHER, WINDOWS, Figures, Tally, Window
from riverui.domain.jobs import FINALIZED, JobListRow, JobState
from riverui.domain.sketch import Sketch
from riverui.errors import DatabaseError, NotFound, RiveruiError
from riverui.features.incidents.domain import Incident
from riverui.storage.interface.params import Field, JobFilter, JobOrder, JobPage, JobPageParams
from riverui.web.http.context import access, dashboard
from riverui.web.http.periodic_runs import PERIODIC_HISTORIES
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import linked, only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url, new_job_url
from riverui.web.search.figure_addresses import (
    WindowChoice,
    read_window,
    window_choices,
    with_window,
)
from riverui.web.sections.kinds.index import kind_troubles
from riverui.web.view.chart_cards import ChartCard, chart_cards
from riverui.web.view.facts import fact
from riverui.web.view.format import absolute, plain
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond
from riverui.web.view.run_bars import RunBar

_CHARTS = ("ended", "wait", "run")
_RUNS = 60
"""Newest jobs drawn as bars."""
_NEWEST = 10
"""Newest jobs listed."""
_QUEUES = 8
"""Most queues, and most periodic jobs, listed."""
_ENDED = tuple(state for state in JobState if state in FINALIZED)


@dataclass(frozen=True, kw_only=True, slots=True)
class KindQueue:
    """A queue in which jobs of the kind ended."""

    name: str
    """Empty for the sum of all other queues."""
    url: str
    """Address of its page; empty for viewers without the right to see it."""
    tally: Tally


@dataclass(frozen=True, kw_only=True, slots=True)
class KindsShow:
    """One kind."""

    template: ClassVar[str] = "kinds/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"kind": "kinds/_kind.html"}

    kind: str
    figures: Figures
    total: Tally
    """Of the whole window."""
    charts: tuple[ChartCard, ...]
    windows: tuple[WindowChoice, ...]
    trouble: Incident | None
    """The open incident that it is the cause of."""
    trouble_url: str
    """Its address; empty if there is none."""
    usual: Sketch | None
    """Run times of its completed jobs in the last 7 days; None if unknown, or if the window covers
    them.
    """
    queues: tuple[KindQueue, ...]
    bars: tuple[RunBar, ...]
    """The newest jobs that ended, the oldest first."""
    cards: tuple[tuple[str, object], ...]
    """Cards that sections add: a template, and the value that it draws as `card`."""
    newest: tuple[JobListRow, ...]
    periodic: tuple[str, ...]
    """Names of the periodic jobs of this kind, as far as they are known."""
    jobs_url: str
    new_url: str
    """The form for a new job of this kind; empty for viewers who cannot insert jobs."""
    self_url: str
    problem: Problem | None
    """Why the newest jobs are missing."""


async def show(request: Request) -> Response:
    """Answer with one kind. Raises NotFound if it has neither jobs nor figures."""
    only(request, "window")
    kind, window, board = request.path_params["kind"], read_window(request), dashboard(request)
    figures = await board.figures.read(window, kind=kind)
    term = query.equal(Field.KIND, kind)
    ended = await _jobs(request, kind, _ENDED, _RUNS)
    newest = await _jobs(request, kind, (), _NEWEST)
    problem = None
    for found in (ended, newest):
        if isinstance(found, DatabaseError):
            page = error_page(request, found)[1]
            problem = Problem(title=page.title, detail=page.detail)
    rows = () if isinstance(newest, DatabaseError) else newest.rows
    total = figures.total
    if not rows and not problem and not total.ended and not total.failed:
        raise NotFound(f"Kind not found: {plain(kind, 60)}. It has no jobs.")

    def address(other: Window) -> str:
        return with_window(url(request, "kinds.show", kind=kind), other)

    trouble = (await kind_troubles(request)).get(kind)
    cards = [(card.template, await card.read(request, kind)) for card in board.sections.kind_cards]
    return respond(
        request,
        KindsShow(
            kind=kind,
            figures=figures,
            total=total,
            charts=await chart_cards(request, _CHARTS, figures, kind=kind),
            windows=window_choices(window, address),
            trouble=trouble,
            trouble_url=linked(request, "incidents.show", id=trouble.id) if trouble else "",
            usual=await _usual(request, kind, window),
            queues=tuple(_queues(request, figures)),
            bars=() if isinstance(ended, DatabaseError) else _bars(request, ended.rows),
            cards=tuple((path, card) for path, card in cards if card is not None),
            newest=tuple(rows),
            periodic=await _periodic(request, kind),
            jobs_url=jobs_url(request, (term,)),
            new_url=new_job_url(request, kind=kind),
            self_url=address(window),
            problem=problem,
        ),
    )


async def _jobs(
    request: Request, kind: str, states: Sequence[JobState], limit: int
) -> JobPage | DatabaseError:
    """Return the newest jobs of a kind; none for viewers without the right to see jobs."""
    if not access(request).may("jobs.read"):
        return JobPage(rows=(), more=False)
    board = dashboard(request)
    wanted = JobPageParams(
        filter=JobFilter(states=tuple(states), terms=(query.equal(Field.KIND, kind),)),
        order=JobOrder.TIME_DESC if states else JobOrder.ID_DESC,
        limit=limit,
        window=board.config.search_window,
    )
    return await fact(board.driver, lambda executor: executor.jobs.list(wanted))


async def _usual(request: Request, kind: str, window: Window) -> Sketch | None:
    week = WINDOWS["7d"]
    if window.span >= week.span:
        return None
    run = (await dashboard(request).figures.read(week, kind=kind)).total.run
    return run if run.n else None


def _queues(request: Request, figures: Figures) -> Iterator[KindQueue]:
    may = access(request).may("queues.read")
    busiest = sorted(figures.by_queue.items(), key=lambda pair: (-pair[1].ended, pair[0]))
    for name, tally in busiest[:_QUEUES]:
        other = name == OTHER
        yield KindQueue(
            name="" if other else name,
            url=url(request, "queues.show", name=name) if may and not other else "",
            tally=tally,
        )


def _bars(request: Request, rows: Sequence[JobListRow]) -> tuple[RunBar, ...]:
    return tuple(
        RunBar(
            state=row.state.value,
            waited=_between(row.scheduled_at, row.attempted_at),
            ran=_between(row.attempted_at, row.finalized_at),
            url=url(request, "jobs.show", id=row.id),
            words=f"job {row.id} {row.state.value} {absolute(row.matters_at)}",
        )
        for row in reversed(rows)
    )


def _between(begin: datetime | None, end: datetime | None) -> timedelta | None:
    return max(timedelta(0), end - begin) if begin is not None and end is not None else None


async def _periodic(request: Request, kind: str) -> tuple[str, ...]:
    """Return the ids of the periodic jobs that inserted jobs of this kind."""
    if not access(request).may("jobs.read"):
        return ()
    try:
        found = await dashboard(request).get(PERIODIC_HISTORIES).get()
    except RiveruiError:
        return ()
    return tuple(each.id or each.kind for each in found.histories if each.kind == kind)[:_QUEUES]
