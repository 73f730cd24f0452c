"""Where the actions of a health report lead."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from riverui.domain.health import HealthAction, HealthReport, HealthSection
from riverui.domain.jobs import JobState
from riverui.storage.interface.params import Field
from riverui.web.auth.access import access
from riverui.web.http.urls import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url

_RIGHTS = {"queue": "queues.read", "queues": "queues.read", "about": "about.read"}
"""What it takes to open a page; `jobs.read` for all others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictLine:
    """One answer of the health report on a page."""

    section: HealthSection
    url: str
    """Where its action leads; empty without one, and for viewers without the right to go there."""


def verdict_lines(request: Request, report: HealthReport) -> tuple[VerdictLine, ...]:
    """Return the three answers as a page shows them."""
    may = access(request).may
    return tuple(
        VerdictLine(
            section=section,
            url=action_url(request, section.action)
            if section.action is not None and may(_RIGHTS.get(section.action.page, "jobs.read"))
            else "",
        )
        for section in report.sections
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
