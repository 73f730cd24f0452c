"""The page of one error group: what its jobs have in common, and some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import JOB_VERBS
from riverui.domain.jobs import JobListRow
from riverui.domain.text import client_host
from riverui.errors import DatabaseError
from riverui.features.error_groups.domain.groups import ErrorGroup, ErrorState
from riverui.features.error_groups.section.charts import chart_start, group_chart
from riverui.features.error_groups.section.groups import find, line
from riverui.features.error_groups.section.other_pages import listed_term
from riverui.features.error_groups.section.samples import Sample, samples
from riverui.features.error_groups.section.table import ErrorLine
from riverui.features.error_groups.verbs import ERROR_VERBS, RIGHT, ErrorVerb
from riverui.storage.interface.params import Field, JobFilter, JobPageParams
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import preferences
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.chart_data import TimeChart
from riverui.web.view.facts import fact
from riverui.web.view.figure_charts import chart_marks
from riverui.web.view.render import respond

_NEWEST = 10
"""Newest jobs on the page."""
_OLDEST = 3
"""Oldest jobs on the page, which show how it started."""
_NAMES = 12
"""Kinds, queues, workers or releases on the page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorsShow:
    """The page of one group."""

    template: ClassVar[str] = "errors/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"error": "errors/_group.html"}

    line: ErrorLine
    chart: TimeChart
    span: str
    """The chart's span, in words."""
    shares: tuple[tuple[str, tuple[tuple[str, int], ...], int], ...]
    """By kind and queue if there are several, by host and release: a heading, names with their
    numbers, and the number of names left out.
    """
    samples: tuple[Sample, ...]
    """The newest jobs."""
    oldest: tuple[Sample, ...]
    """The oldest jobs, if there are more than the newest shown."""
    same_args: tuple[str, ...]
    """Names of the args that are the same in all samples."""
    args: bool
    """Whether args are shown."""
    verbs: tuple[ErrorVerb, ...]
    """The verbs that this viewer may use."""
    retry_url: str
    """The preview of a retry of all jobs; empty if the viewer may not retry."""
    jobs_url: str
    """The list of the newest jobs; empty if there are none."""
    listed: int
    """The number of jobs in that list."""
    looked_at: int
    more: bool
    remembered: bool
    missing: str
    remedy: str
    self_url: str


async def show(request: Request) -> Response:
    """Show one group. Raise NotFound if it is unknown."""
    only(request)
    seen, group = await find(request)
    reading, now = seen.reading, seen.now
    shown = line(request, seen, group, group.jobs)
    marks = await dashboard(request).marks_since(chart_start(group, now))
    chart, span = group_chart(group, now, since=reading.since, marks=chart_marks(marks))
    newest = [job.id for job in group.jobs[:_NEWEST]]
    oldest = [job.id for job in group.jobs[_NEWEST:][-_OLDEST:]]
    rows = await _rows(request, [*newest, *oldest])
    shown_jobs, same = samples([rows[n] for n in (*newest, *oldest) if n in rows])
    begun = [sample for sample in shown_jobs if sample.row.id in oldest]
    listed, viewer, retry = listed_term(group), access(request), JOB_VERBS["retry"]
    here = url(request, "errors.show", fingerprint=group.fingerprint)
    preview = f"{url(request, 'jobs.bulk')}?verb=retry&group={group.fingerprint}&next={here}"
    return respond(
        request,
        ErrorsShow(
            line=shown,
            chart=chart,
            span=span,
            shares=tuple(_shares(group)),
            samples=shown_jobs[: len(shown_jobs) - len(begun)],
            oldest=tuple(begun),
            same_args=same,
            args=_shows_args(request),
            verbs=_verbs(shown) if reading.remembered and viewer.may(RIGHT) else (),
            retry_url=preview if group.jobs and viewer.may(retry.right) else "",
            jobs_url=jobs_url(request, (listed,)) if group.jobs else "",
            listed=len(listed.values),
            looked_at=reading.looked_at,
            more=reading.more,
            remembered=reading.remembered,
            missing=MISSING,
            remedy=REMEDY,
            self_url=here,
        ),
    )


def _shows_args(request: Request) -> bool:
    """Return whether args are shown to this viewer."""
    shown = preferences(request).show_args
    return not dashboard(request).config.hide_args if shown is None else shown


def _verbs(shown: ErrorLine) -> tuple[ErrorVerb, ...]:
    """Return the verbs for a group in its state."""
    return tuple(
        verb
        for verb in ERROR_VERBS.values()
        if verb.state is not shown.state or verb.state is ErrorState.IGNORED
    )


def _shares(group: ErrorGroup) -> Sequence[tuple[str, tuple[tuple[str, int], ...], int]]:
    hosts: Counter[str] = Counter()
    for worker, number in group.workers.items():
        hosts[client_host(worker)] += number
    found = (
        ("Kinds", group.kinds if len(group.kinds) > 1 else {}),
        ("Queues", group.queues if len(group.queues) > 1 else {}),
        ("Hosts", dict(hosts.most_common())),
        ("Releases", group.releases),
    )
    return [
        (heading, tuple(islice(counted.items(), _NAMES)), max(0, len(counted) - _NAMES))
        for heading, counted in found
        if counted
    ]


async def _rows(request: Request, ids: Sequence[int]) -> Mapping[int, JobListRow]:
    """Return these jobs by id; none if they cannot be read in time."""
    if not ids:
        return {}
    params = JobPageParams(
        filter=JobFilter(terms=(query.equal(Field.ID, *ids),)), limit=_NEWEST + _OLDEST
    )
    page = await fact(dashboard(request).driver, lambda executor: executor.jobs.list(params))
    return {} if isinstance(page, DatabaseError) else {row.id: row for row in page.rows}
