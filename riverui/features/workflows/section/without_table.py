"""Redirects for the addresses of workflows on a database without riverui's tables."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.storage.interface import SQL
from riverui.storage.interface.params import Field
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http import cookies
from riverui.web.http.context import dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url


def workflows(request: Request) -> Response:
    """Redirect to all jobs, as no search finds those of all workflows."""
    return _redirect(
        request,
        url(request, "jobs.index"),
        "There is no page for workflows yet: this is the list of all jobs.",
        "The search metadata.workflow_id:ID finds the jobs of one workflow, "
        "and GET /api/pro/workflows lists them all.",
    )


def workflow(request: Request, id: str) -> Response:
    """Redirect to the jobs of a workflow."""
    return _redirect(
        request,
        jobs_url(request, (query.contains(Field.METADATA, "workflow_id", id),)),
        "There is no page for workflows yet: these are the jobs of this one.",
    )


def _redirect(request: Request, where: str, title: str, *details: str) -> Response:
    response = RedirectResponse(where, status_code=302)
    if SQL in dashboard(request).driver.capabilities:
        details += (f"The pages come with {MISSING}: run {REMEDY}.",)
    cookies.keep_notice(request, response, Notice(level="info", title=title, details=details))
    return response
