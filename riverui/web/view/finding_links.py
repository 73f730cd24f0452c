"""Addresses of the pages that findings link to."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from starlette.requests import Request

from riverui.domain.findings import Finding, Link
from riverui.domain.jobs import JobState
from riverui.storage.interface.params import Field
from riverui.web.http.context import access
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url

_RIGHTS = {
    "database": "about.read",
    "incident": "figures.read",
    "queue": "queues.read",
    "queue_limits": "queues.read",
    "queues": "queues.read",
    "workers": "queues.read",
}
"""The right that a page needs; `jobs.read` for all others."""


def page_url(request: Request, link: Link) -> str:
    """Return the address of the page that a link names; the list of jobs if it names no page."""
    if link.page == "queue":
        return url(request, "queues.show", name=link.name)
    if link.page == "queue_limits":
        return f"{url(request, 'queues.limits')}?{urlencode({'name': link.name})}"
    if link.page == "job" and link.name.isdecimal():
        return url(request, "jobs.show", id=int(link.name))
    if link.page == "incident":
        return url(request, "incidents.show", id=link.name)
    if link.page == "workflow":
        return url(request, "workflows.show", id=link.name)
    if link.page in ("database", "periodic", "queues", "workers"):
        return url(request, f"{link.page}.index")
    if link.page == "errors":
        kind = f"?{urlencode({'open': 'worst', 'kind': link.kind})}" if link.kind else ""
        return f"{url(request, 'errors.index')}{kind}"
    named = ((Field.QUEUE, link.queue), (Field.KIND, link.kind))
    terms = tuple(query.equal(field, name) for field, name in named if name)
    states = tuple(state for state in JobState if state == link.state)
    return jobs_url(request, terms, states=states)


def link_url(request: Request, link: Link | None) -> str:
    """Return the address of a link; empty without one, and for viewers without the right to see
    the page.
    """
    if link is None or not access(request).may(_RIGHTS.get(link.page, "jobs.read")):
        return ""
    return page_url(request, link)


def check_links(request: Request, checks: Iterable[Finding]) -> dict[str, tuple[str, str]]:
    """Return the links of checks by their names: address and label."""
    return {
        check.name: (address, check.link.label)
        for check in checks
        if check.link is not None and (address := link_url(request, check.link))
    }
