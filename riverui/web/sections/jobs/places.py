"""Addresses of what a check leads to."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from riverui.domain.checks import Place, PlaceKind
from riverui.domain.explain import Explanation
from riverui.web.auth.access import access
from riverui.web.http.urls import url


def place_url(request: Request, place: Place) -> str:
    """Return the page of a place; empty for who may not see it."""
    right = "jobs.read" if place.kind in (PlaceKind.JOB, PlaceKind.WORKFLOW) else "queues.read"
    if not access(request).may(right):
        return ""
    if place.kind is PlaceKind.JOB:
        return url(request, "jobs.show", id=place.job_id)
    if place.kind is PlaceKind.WORKFLOW:
        return url(request, "workflows.show", id=place.name)
    if place.kind is PlaceKind.WORKERS:
        return url(request, "workers.index")
    if place.kind is PlaceKind.QUEUE_LIMITS:
        return f"{url(request, 'queues.limits')}?{urlencode({'name': place.name})}"
    return url(request, "queues.show", name=place.name)


def check_links(request: Request, found: Explanation | None) -> dict[str, tuple[str, str]]:
    """Return where the checks lead, by their names: address and words."""
    if found is None:
        return {}
    return {
        check.name: (address, check.see.words)
        for check in found.checks
        if check.see is not None and (address := place_url(request, check.see))
    }
