"""An incident as pages show it: its sentence, its chart, what it affects, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from starlette.requests import Request

from riverui.actions.job_verbs import JOB_VERBS
from riverui.domain.findings import Link, among, cut
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState
from riverui.domain.marks import Mark
from riverui.errors import DatabaseError
from riverui.features.incidents.alerts.domain import Silence
from riverui.features.incidents.domain import Incident, Measure
from riverui.features.incidents.watch import INCIDENTS
from riverui.storage.interface.params import Field, JobFilter, Term
from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.figure_addresses import jobs_link
from riverui.web.view.chart_axes import Unit
from riverui.web.view.chart_data import Series, Shape, TimeChart
from riverui.web.view.facts import fact
from riverui.web.view.figure_charts import chart_marks
from riverui.web.view.finding_links import link_url
from riverui.web.view.format import count_text
from riverui.web.view.time_chart import MAX_COLUMNS

_DEPLOYED = timedelta(minutes=10)
"""How long before its beginning a deploy may be that an incident is said to be of."""
_PACED_MINUTES = 15
"""Minutes that a retry of all jobs takes: soon enough, and slow enough to see how it goes."""
_TRIED = 10
"""Jobs that such a retry tries first."""
_QUEUES = 200
"""Most queues read to find those that are paused: as many as the health report knows."""
_MINUTE = timedelta(minutes=1)

_CHARTS = {
    Measure.FAILING: ("share of attempts that failed", Unit.SHARE, "s-discarded"),
    Measure.WAIT: ("wait", Unit.SECONDS, "s-retryable"),
    Measure.RUN: ("run time, median", Unit.SECONDS, "s-retryable"),
    Measure.ENDED: ("jobs that ended per minute", Unit.JOBS, "s-completed"),
}
"""The label of the chart of each measure, its unit and the class of its colour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """A button: a link, a dialog, or a form that does something at once."""

    label: str
    url: str
    icon: str = ""
    dialog: bool = False
    hint: str = ""
    """What it does beyond its label, in a sentence."""
    posted: tuple[tuple[str, str], ...] = ()
    """Names and values of the form; empty for a link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """A thing that an incident is about."""

    what: str
    name: str
    url: str
    """Empty if there is no page, or if the viewer may not see it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentView:
    """One incident as shown."""

    incident: Incident
    url: str
    chart: TimeChart | None
    """None without any minutes."""
    acts: Sequence[Act]
    """What to do, the most important first; only a link once the incident is closed."""
    affected: tuple[Affected, ...]
    silence: Silence | None
    """What silences its alerts."""


async def incident_view(request: Request, incident: Incident) -> IncidentView:
    """Return an incident for this viewer."""
    board = dashboard(request)
    since = incident.opened_at - timedelta(hours=1)
    opened = await board.get(INCIDENTS).open()
    marks = [] if board.marks is None else await board.marks.read(since, _end(incident))
    return IncidentView(
        incident=incident,
        url=url(request, "incidents.show", id=incident.id),
        chart=_chart(request, incident, marks),
        acts=await _acts(request, incident),
        affected=tuple(_affected(request, incident, marks)),
        silence=None if incident.closed_at else opened.silence(incident),
    )


def _end(incident: Incident) -> datetime:
    return (incident.closed_at or datetime.now(UTC)) + _MINUTE


def _chart(request: Request, incident: Incident, marks: Sequence[Mark]) -> TimeChart | None:
    """Return the minutes of an incident, in columns of the same length, above what is usual."""
    minutes = incident.facts.minutes
    if not minutes:
        return None
    first, last = minutes[0][0], minutes[-1][0]
    step = -(-(last - first + 1) // MAX_COLUMNS)
    values: list[float | None] = [None] * ((last - first) // step + 1)
    for at, value in minutes:
        column = (at - first) // step
        if value is not None:
            values[column] = max(values[column] or 0.0, value)
    label, unit, css = _CHARTS[incident.measure]
    start, length = datetime.fromtimestamp(60 * first, UTC), step * _MINUTE
    shape = Shape.BAR if incident.measure in (Measure.FAILING, Measure.ENDED) else Shape.BAND
    series = [Series(name="value", label=label, css=css, values=values, shape=shape)]
    if (usual := incident.usual) is not None:
        band = [usual] * len(values)
        words = "usual before"
        series.insert(
            0, Series(name="usual", label=words, css="s-usual", values=band, shape=Shape.BAND)
        )
    queue = incident.queue if incident.measure is Measure.WAIT else ""
    link = jobs_link(request, queue=queue, kind=incident.kind)
    starts = [start + n * length for n in range(len(values))]
    return TimeChart(
        name=f"incident-{incident.id}",
        label=f"{label.capitalize()}, {step} min each",
        start=start,
        step=length,
        series=series,
        unit=unit,
        links=[link(at, at + length) for at in starts] if link else (),
        known=[value is not None for value in values],
        unfinished=False,
        marks=chart_marks(marks or [Mark(at=incident.opened_at, label="began")]),
    )


async def _acts(request: Request, incident: Incident) -> Sequence[Act]:
    """Return what to do about an incident, as far as the viewer may do it."""
    link, going_on = incident.facts.link, incident.closed_at is None
    address = link_url(request, link)
    found = [Act(label=link.label, url=address)] if link is not None and address else []
    errors = Link(label="Open the errors", page="errors", kind=incident.kind)
    if incident.cause is Cause.RETRY_STORM and (address := link_url(request, errors)):
        found.append(Act(label=errors.label, url=address))
    verb = await _verb(request, incident) if going_on else None
    if verb is None:
        return found
    # A failure is read before it is repeated; a pause is ended without reading more.
    return [*found, verb] if verb.dialog else [verb]


async def _verb(request: Request, incident: Incident) -> Act | None:
    """Return the button that does something about the cause; None if none fits."""
    cause, kind = incident.cause, incident.kind
    if incident.measure is Measure.FAILING and kind:
        return await _all(request, "retry", JobState.RETRYABLE, kind=kind)
    if cause in (Cause.FLOOD, Cause.UNKNOWN_KIND) and kind:
        return await _all(request, "cancel", JobState.AVAILABLE, kind=kind, queue=incident.queue)
    if cause is Cause.PAUSED and access(request).may("queues.pause"):
        names, hint = [incident.subject.name], ""
        if incident.subject.what != "queue":
            driver = dashboard(request).driver
            rows = await fact(driver, lambda executor: executor.queues.list(cap=1, limit=_QUEUES))
            known = () if isinstance(rows, DatabaseError) else rows
            paused = [row for row in known if row.queue.paused_at]
            # Those that have no jobs and were paused before may be paused for good.
            since = incident.opened_at - _MINUTE
            mine = [r for r in paused if r.available or (r.queue.paused_at or since) > since]
            names = [row.queue.name for row in mine]
            if others := [row.queue.name for row in paused if row not in mine]:
                stay = "stays" if len(others) == 1 else "stay"
                hint = f"{among(others)} {stay} paused: nothing waits there."
            idle = [row.queue.name for row in mine if not row.available]
            if 0 < len(idle) < len(mine) < len(known):
                were = "was" if len(idle) == 1 else "were"
                hint = f"{among(idle)} {were} paused with them. {hint}".strip()
        if names:
            label = f"Resume {names[0] if len(names) == 1 else f'{len(names):,} queues'}"
            posted = tuple(("name", name) for name in names)
            resume = url(request, "queues.resume")
            return Act(label=label, url=resume, icon="play", posted=posted, hint=hint)
    return None


async def _all(
    request: Request, name: str, state: JobState, *, kind: str, queue: str = ""
) -> Act | None:
    """Return the button that previews a verb on all jobs of a kind; None without any, and for
    viewers without the right.
    """
    board, verb = dashboard(request), JOB_VERBS[name]
    if not (access(request).may(verb.right) and access(request).may("jobs.read")):
        return None
    named = ((Field.KIND, kind), (Field.QUEUE, queue))
    terms: tuple[Term, ...] = tuple(query.equal(field, value) for field, value in named if value)
    matching = JobFilter(states=(state,), terms=terms)
    cap = board.config.count_cap
    count = await fact(board.driver, lambda executor: executor.jobs.count(matching, cap=cap))
    if isinstance(count, DatabaseError) or not count.value:
        return None
    asked = {"verb": name, "state": state.value, "q": query.format(JobFilter(terms=terms))}
    if verb.reruns:
        asked |= {"per_minute": str(max(60, count.value // _PACED_MINUTES)), "canary": str(_TRIED)}
        label = f"{verb.label} {count_text(count)} at a pace"
        hint = f"{label} tries {_TRIED} first, then the others within {_PACED_MINUTES} minutes."
    else:
        jobs = f"waiting {'job' if count.value == 1 else 'jobs'}"
        label = f"{verb.label} {count_text(count)} {jobs}"
        hint = f"{label} of {cut(kind)} if nobody needs them: they are not run any more."
    asked["next"] = request.url.path
    return Act(
        label=label,
        hint=hint,
        url=f"{url(request, 'jobs.bulk')}?{urlencode(asked)}",
        icon=verb.icon,
        dialog=True,
    )


def _affected(request: Request, incident: Incident, marks: Sequence[Mark]) -> Iterator[Affected]:
    may, subject = access(request).may, incident.subject
    if incident.queue:
        address = url(request, "queues.show", name=incident.queue) if may("queues.read") else ""
        yield Affected(what="queue", name=incident.queue, url=address)
    if incident.kind:
        address = url(request, "kinds.show", kind=incident.kind)
        yield Affected(what="kind", name=incident.kind, url=address)
    if subject.what == "client":
        address = url(request, "workers.index") if may("queues.read") else ""
        yield Affected(what="client", name=subject.name, url=address)
    if subject.what == "job" and subject.name.isdecimal():
        address = url(request, "jobs.show", id=int(subject.name)) if may("jobs.read") else ""
        yield Affected(what="job", name=subject.name, url=address)
    if incident.cause is Cause.DEPLOY:
        near = [mark for mark in marks if abs(incident.opened_at - mark.at) <= _DEPLOYED]
        for mark in near[-1:]:
            yield Affected(what="release", name=mark.label, url=mark.url)
