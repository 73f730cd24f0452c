"""The front page: the incident that matters most or that nothing needs anybody, and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.domain.figures import OTHER, Figures, Tally, Window
from riverui.domain.findings import Finding, Level
from riverui.domain.health import HealthReport
from riverui.domain.health.usual import percent
from riverui.domain.queues import QueueListRow
from riverui.domain.time import duration
from riverui.errors import DatabaseError
from riverui.features.incidents.domain import Incident, troubles
from riverui.features.incidents.section.incident_view import IncidentView, incident_view
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search.figure_addresses import (
    WindowChoice,
    read_window,
    window_choices,
    with_window,
)
from riverui.web.sections.overview.facts import queue_cap, queue_rows
from riverui.web.view.chart_cards import ChartCard, chart_cards
from riverui.web.view.contributions import Event
from riverui.web.view.events import events
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond

_CHARTS = ("ended", "wait", "run")
_QUEUES = 8
"""Most queues shown, the worst first."""
_KINDS = 8
"""Most kinds shown."""
_EVENTS = 8
"""Most recent events shown."""
_LATELY = timedelta(days=1)
"""How long ago the events shown may be: older ones explain nothing that is seen now."""
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
    tally: Tally
    run: timedelta | None
    """The 95th percentile of the run times of completed jobs."""
    share: float
    """The time that it spent, relative to that of the first kind, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewIndex:
    """The front page."""

    template: ClassVar[str] = "overview/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"overview": "overview/_overview.html"}

    view: IncidentView | None
    """The worst open incident; None without any."""
    others: Sequence[Incident]
    """The other open incidents, the worst first."""
    shared: bool
    """Whether all dashboards of the database share incidents."""
    calm: bool
    """Whether it was measured that nothing is wrong."""
    title: str
    """What is so if there is no open incident, in a sentence."""
    words: str
    """The rest of it, in one or two sentences."""
    checks: Sequence[Finding]
    """All checks of the health report."""
    figures: Figures
    charts: tuple[ChartCard, ...]
    windows: tuple[WindowChoice, ...]
    queues: tuple[QueueNeed, ...] | None
    """None if they cannot be read, or if the viewer has no right to see queues."""
    queue_cap: int
    kinds: tuple[KindShare, ...]
    """The kinds with the longest total run time."""
    events: Sequence[Event] | None
    """What happened lately, the newest first; None if it cannot be read."""
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
    board, window, now = dashboard(request), read_window(request), datetime.now(UTC)
    # Look whether riverui's own tables exist: the navigation depends on them.
    await board.own_tables.seen()
    figures = await board.figures.read(window)
    queues, problem = await _queues(request)
    watch = board.get(INCIDENTS)
    # The report first: meanwhile an incident of it may be opened.
    report, opened = await watch.report.get(), await watch.open()
    worst = sorted(opened.incidents, key=lambda found: (-found.level.badness, found.opened_at))
    calm, title, words = _standing(report, figures)
    if problem is not None:
        calm, title, words = False, "Cannot tell whether work is flowing.", ""

    def address(other: Window) -> str:
        return with_window(url(request, "root"), other)

    return respond(
        request,
        OverviewIndex(
            view=await incident_view(request, worst[0]) if worst else None,
            others=worst[1:],
            shared=opened.shared,
            calm=calm,
            title=title,
            words=words,
            checks=[check for section in report.sections for check in section.checks],
            figures=figures,
            charts=await chart_cards(request, _CHARTS, figures),
            windows=window_choices(window, address),
            queues=None if queues is None else tuple(_needs(request, queues, figures)),
            queue_cap=queue_cap(request),
            kinds=_kinds(request, figures.by_kind),
            events=await _events(request, now),
            self_url=address(window),
            problem=problem,
        ),
    )


def _standing(report: HealthReport, figures: Figures) -> tuple[bool, str, str]:
    """Return whether nothing is wrong, and the words for a page without an open incident."""
    suspect = next((finding for _, finding in troubles(report)), None)
    if suspect is not None:
        # A second look has to agree.
        title = f"Looking closer: {suspect.title.rstrip('.')}?"
        return False, title, suspect.headline or suspect.evidence
    unsure = [section for section in report.sections if section.level is not Level.OK]
    if unsure:
        others = " ".join(section.title for section in unsure[1:])
        return False, unsure[0].title, f"{unsure[0].headline} {others}".strip()
    total = figures.total
    wait, failing = total.wait.quantile(0.95), total.failing
    if wait is None or failing is None:
        return True, "Nothing needs you.", f"{report.flow.headline} {report.success.headline}"
    words = (
        f"Jobs start {duration(wait)} after they are due (p95); {percent(failing)} of attempts"
        f" failed in the {figures.window.label}."
    )
    return True, "Nothing needs you.", words


async def _events(request: Request, now: datetime) -> Sequence[Event] | None:
    try:
        return (await events(request, now - _LATELY, now))[:_EVENTS]
    except DatabaseError:
        return None


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


def _kinds(request: Request, kinds: Mapping[str, Tally]) -> tuple[KindShare, ...]:
    """Return the kinds that spent most time, the most first."""
    found = sorted(kinds.items(), key=lambda pair: (-pair[1].spent, -pair[1].failed, pair[0]))
    most = max((tally.spent for tally in kinds.values()), default=timedelta(0))
    return tuple(
        KindShare(
            kind="" if kind == OTHER else kind,
            url="" if kind == OTHER else url(request, "kinds.show", kind=kind),
            tally=tally,
            run=tally.run.quantile(0.95),
            share=tally.spent / most if most else 0.0,
        )
        for kind, tally in found[:_KINDS]
        if tally.attempts or tally.ended
    )
