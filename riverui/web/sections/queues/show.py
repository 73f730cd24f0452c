"""One queue: its kinds of jobs and its latest failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.figures import Figures, Window
from riverui.domain.health.slo import objectives
from riverui.domain.jobs import FAILED, JobListRow, JobState
from riverui.errors import NotFound, QueryTimeout
from riverui.features.figures.reader.figure_reader import promptly
from riverui.features.incidents.watch import INCIDENTS
from riverui.features.slo.reader import standing
from riverui.storage.interface.params import Count, Field
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import linked, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.search.figure_addresses import (
    WindowChoice,
    read_window,
    window_choices,
    with_window,
)
from riverui.web.sections.queues.index import QUICK_CAP, exactly, line, queue_minutes, short_name
from riverui.web.sections.queues.limits import QueueLimits, read_limits
from riverui.web.view.chart_cards import ChartCard, chart_cards
from riverui.web.view.format import newest_error
from riverui.web.view.page_parts import Problem
from riverui.web.view.queue_table import QueueLine
from riverui.web.view.render import respond
from riverui.web.view.timeline import shape

_CHARTS = ("flow", "wait")
_KINDS_CAP = 1_000
"""Jobs of each state that are counted by kind, which no index has."""
_FAILURES = 20
"""Newest failed jobs read; equal ones are shown once."""


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
    figures: Figures | None
    """The figures of the window; None if this dashboard or this viewer has none."""
    charts: tuple[ChartCard, ...]
    windows: tuple[WindowChoice, ...]
    kinds: tuple[KindLine, ...]
    failures: tuple[tuple[JobListRow, int], ...]
    """The newest failed jobs whose kinds or errors differ by more than numbers, and how many."""
    failures_url: str
    objective: str
    """How well its objective is met; empty without one."""
    limits: QueueLimits
    incident_url: str
    """The newest open incident of the queue; empty if there is none."""
    errors_url: str
    """The list of its failed jobs by error; empty if there are none."""
    self_url: str
    problem: Problem | None
    """Why kinds and failures are missing."""


async def show(request: Request) -> Response:
    """Answer with one queue. Raises NotFound if no client serves it and it has no jobs."""
    board, name = dashboard(request), request.path_params["name"]
    window = read_window(request)
    async with board.driver.reading() as executor:
        row = await executor.queues.get(name, cap=QUICK_CAP)
    if row is None:
        raise NotFound(
            f"Queue not found: {short_name(name)}. No client serves it, and it has no jobs."
        )
    (row,), cap = await exactly(request, [row])
    kinds: Sequence[tuple[str, Mapping[JobState, Count]]] = ()
    failures: Sequence[JobListRow] = ()
    problem = None
    try:
        async with board.driver.reading() as executor:
            kinds = await executor.queues.kind_count(name, cap=_KINDS_CAP)
            failures = await executor.queues.failure_list(name, limit=_FAILURES)
    except QueryTimeout as error:
        page = error_page(request, error)[1]
        problem = Problem(title=page.title, detail=page.detail)
    minutes = await queue_minutes(request)
    figures = None if minutes is None else await promptly(board.figures.read(window, queue=name))

    def address(other: Window) -> str:
        return with_window(url(request, "queues.show", name=name), other)

    of_queue = query.equal(Field.QUEUE, name)
    errors_url = linked(request, "errors.index")
    return respond(
        request,
        QueuesShow(
            line=line(request, row, minutes, cap=cap),
            cap=cap,
            figures=figures,
            charts=await chart_cards(request, _CHARTS, figures, queue=name) if figures else (),
            windows=window_choices(window, address) if figures else (),
            kinds=tuple(
                KindLine(
                    kind=kind,
                    counts=counts,
                    url=jobs_url(request, (query.equal(Field.KIND, kind), of_queue)),
                )
                for kind, counts in kinds
            ),
            failures=_folded(failures),
            errors_url=f"{errors_url}?{urlencode({'queue': name})}"
            if failures and errors_url
            else "",
            failures_url=jobs_url(request, (of_queue,), FAILED),
            objective=await _objective(request, name),
            limits=await read_limits(request, row.queue),
            incident_url=await _incident_url(request, name),
            self_url=address(window),
            problem=problem,
        ),
    )


def _folded(rows: Sequence[JobListRow]) -> tuple[tuple[JobListRow, int], ...]:
    newest: dict[tuple[str, str], JobListRow] = {}
    times: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = row.kind, shape(newest_error(row) or "")
        newest.setdefault(key, row)
        times[key] += 1
    return tuple((row, times[key]) for key, row in newest.items())


async def _incident_url(request: Request, name: str) -> str:
    if not access(request).may("figures.read"):
        return ""
    opened = await dashboard(request).get(INCIDENTS).open()
    found = next((each for each in opened.incidents if each.queue == name), None)
    return linked(request, "incidents.show", id=found.id) if found else ""


async def _objective(request: Request, queue: str) -> str:
    """Return how well the objective of a queue is met; empty without one."""
    board = dashboard(request)
    wanted = next((each for each in objectives(board.config.slo) if each.queue == queue), None)
    if wanted is None or not access(request).may("figures.read"):
        return ""
    found = await promptly(standing(board.figures, wanted))
    return f"Objective: {wanted.words}. Figures are being read." if found is None else found.words
