"""Where the actions of a health report lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from riverui.domain.figures import Figures
from riverui.domain.health import HealthAction, HealthReport, HealthSection
from riverui.domain.jobs import JobState
from riverui.storage.interface.params import Field
from riverui.web.auth.access import access
from riverui.web.http.urls import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.chart_axes import Unit
from riverui.web.view.figure_charts import each, percentiles

_RIGHTS = {"queue": "queues.read", "queues": "queues.read", "about": "about.read"}
"""What it takes to open a page; `jobs.read` for all others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictLine:
    """One answer of the health report on a page."""

    section: HealthSection
    url: str
    """Where its action leads; empty without one, and for viewers without the right to go there."""
    spark: Sequence[float | None] = ()
    """What it is about, over the window shown; empty for what has no such line."""
    spark_label: str = ""
    spark_unit: Unit = Unit.JOBS


def verdict_lines(
    request: Request, report: HealthReport, figures: Figures
) -> tuple[VerdictLine, ...]:
    """Return the three answers as a page shows them, beside these figures."""
    columns, window = figures.columns, figures.window.label
    sparks: Mapping[str, tuple[Sequence[float | None], str, Unit]] = {
        "flow": (
            percentiles(columns, lambda tally: tally.wait, 0.95),
            f"Wait p95, {window}",
            Unit.SECONDS,
        ),
        "success": (
            each(columns, lambda tally: tally.failed),
            f"Failed attempts, {window}",
            Unit.JOBS,
        ),
    }
    nothing = ((), "", Unit.JOBS)
    may = access(request).may
    return tuple(
        VerdictLine(
            section=section,
            url=action_url(request, section.action)
            if section.action is not None and may(_RIGHTS.get(section.action.page, "jobs.read"))
            else "",
            spark=spark,
            spark_label=label,
            spark_unit=unit,
        )
        for section in report.sections
        for spark, label, unit in (sparks.get(section.name, nothing),)
    )


def action_url(request: Request, action: HealthAction) -> str:
    """Return the address of the page that an action names."""
    if action.page == "queue":
        return url(request, "queues.show", name=action.name)
    if action.page == "queues":
        return url(request, "queues.index")
    if action.page == "job":
        return url(request, "jobs.show", id=int(action.name))
    if action.page == "about":
        return url(request, "about")
    terms = tuple(
        query.equal(field, name)
        for field, name in ((Field.QUEUE, action.queue), (Field.KIND, action.kind))
        if name
    )
    states = (JobState(action.state),) if action.state else ()
    return jobs_url(request, terms, states=states)
