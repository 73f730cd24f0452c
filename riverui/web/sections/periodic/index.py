"""The list of periodic jobs: how often each runs, when it ran last, and what was missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.periodic import PeriodicHistories, PeriodicHistory, PeriodicRun
from riverui.domain.time import two_units
from riverui.errors import QueryTimeout
from riverui.features.durable_periodic.domain import DurablePeriodicRow
from riverui.features.durable_periodic.section.table import read, verbs
from riverui.features.durable_periodic.verbs import RIGHT, PeriodicVerb
from riverui.storage.interface.params import Field
from riverui.web.http.context import access, dashboard
from riverui.web.http.periodic_runs import PERIODIC_HISTORIES
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url, new_job_url
from riverui.web.view.format import absolute
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond
from riverui.web.view.run_bars import RunBar

KEY, PERIODIC = "river:periodic_job_id", "periodic"
"""The metadata keys that River sets on periodic jobs: the id, and the flag `true`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicLine:
    """One periodic job as shown."""

    name: str
    """Its id as its client names it; empty if it has none."""
    kind: str
    queue: str
    jobs: int
    every: str
    """How often it runs, in words; empty if unknown."""
    schedule: str
    """As a cron expression, if a live client reports it; else empty."""
    bars: tuple[RunBar, ...]
    """Its newest jobs, the oldest first."""
    last: PeriodicRun | None
    """None for a durable one without job rows."""
    last_url: str
    expected_at: datetime | None
    """When the next job is due by its schedule or usual interval; None if unknown or overdue."""
    overdue: timedelta | None
    """Time since the last job, if one seems to be missed."""
    missed: int
    """About how many runs are missing between those shown."""
    jobs_url: str
    """The list of its jobs."""
    run_url: str
    """The form for a job like the last one; empty for viewers who cannot insert jobs."""
    durable: DurablePeriodicRow | None
    """Its stored row; None if it is not durable."""
    verbs: tuple[PeriodicVerb, ...]
    """The verbs that this viewer may do to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicIndex:
    """The periodic jobs."""

    template: ClassVar[str] = "periodic/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"periodic-list": "periodic/_list.html"}

    lines: tuple[PeriodicLine, ...]
    """Overdue ones first, then by name."""
    coming: tuple[tuple[str, str], ...]
    """Ids and schedules of those without job rows."""
    complete: bool
    """False if only the newest jobs of the table were read."""
    self_url: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Answer with the periodic jobs found in job rows, and the durable ones."""
    only(request)
    board, now, status = dashboard(request), datetime.now(UTC), 200
    histories, problem = PeriodicHistories(histories=(), complete=True), None
    try:
        histories = await board.get(PERIODIC_HISTORIES).get()
    except QueryTimeout as error:
        status, page = error_page(request, error)
        problem = Problem(title=page.title, detail=page.detail)
    durable = await read(request)
    lines = [
        _line(request, history, now, durable.get(history.id)) for history in histories.histories
    ]
    seen = {history.id for history in histories.histories}
    lines += [_unseen(request, row) for row in durable.values() if row.id not in seen]
    lines.sort(key=lambda line: (line.overdue is None, line.name or line.kind))
    return respond(
        request,
        PeriodicIndex(
            lines=tuple(lines),
            coming=tuple(sorted((n, s) for n, s in histories.coming.items() if n not in durable)),
            complete=histories.complete,
            self_url=url(request, "periodic.index"),
            problem=problem,
        ),
        status=status,
    )


def words(history: PeriodicHistory) -> str:
    """Return how often a periodic job runs, as "about every 15 m"; empty if unknown."""
    usual = history.usual
    if usual is None:
        return ""
    if not history.steady:
        return "at uneven times"
    return f"about every {_round(usual)}"


def _round(span: timedelta) -> str:
    seconds = max(1, round(span.total_seconds()))
    for unit, per in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if (
            per <= seconds < 60 * per
            and abs(seconds - per * round(seconds / per)) <= 0.02 * seconds
        ):
            return f"{round(seconds / per)} {unit}"
    return two_units(seconds if seconds < 3_600 else round(seconds / 60) * 60)


def _unseen(request: Request, row: DurablePeriodicRow) -> PeriodicLine:
    """Return the line of a durable periodic job without job rows."""
    return PeriodicLine(
        name=row.id,
        kind="",
        queue="",
        jobs=0,
        every="",
        schedule=row.schedule or row.program_schedule,
        bars=(),
        last=None,
        last_url="",
        expected_at=None if row.paused_at else row.next_run_at,
        overdue=None,
        missed=0,
        jobs_url=jobs_url(request, (query.contains(Field.METADATA, KEY, row.id),)),
        run_url="",
        durable=row,
        verbs=_verbs(request, row),
    )


def _verbs(request: Request, row: DurablePeriodicRow | None) -> tuple[PeriodicVerb, ...]:
    return verbs(row) if row is not None and access(request).may(RIGHT) else ()


def _line(
    request: Request, history: PeriodicHistory, now: datetime, durable: DurablePeriodicRow | None
) -> PeriodicLine:
    last, overdue = history.runs[0], history.overdue(now)
    expected = None if overdue is not None else history.next_at(now) or history.expected_at
    schedule = history.schedule
    if durable is not None:
        # Its row is exact; its jobs allow only an estimate.
        overdue, expected = None, None if durable.paused_at else durable.next_run_at
        schedule = durable.schedule or durable.program_schedule or schedule
    terms = (
        (query.contains(Field.METADATA, KEY, history.id),)
        if history.id
        else (
            query.equal(Field.KIND, history.kind),
            query.contains(Field.METADATA, PERIODIC, True),
        )
    )
    return PeriodicLine(
        name=history.id,
        kind=history.kind,
        queue=history.queue,
        jobs=history.jobs,
        every=words(history),
        schedule=schedule,
        bars=tuple(_bar(request, run, now) for run in reversed(history.runs)),
        last=last,
        last_url=url(request, "jobs.show", id=last.id),
        expected_at=expected,
        overdue=overdue,
        missed=history.missed,
        jobs_url=jobs_url(request, terms),
        run_url=new_job_url(request, like=str(last.id)),
        durable=durable,
        verbs=_verbs(request, durable),
    )


def _bar(request: Request, run: PeriodicRun, now: datetime) -> RunBar:
    return RunBar(
        state=run.state.value,
        waited=run.waited,
        ran=run.ran(now),
        url=url(request, "jobs.show", id=run.id),
        words=f"{run.state.value}, due {absolute(run.scheduled_at)}",
    )
