"""The address of the form for a new job."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import url


def new_job_url(request: Request, **params: str) -> str:
    """Return the address of the form; empty if the viewer cannot insert jobs."""
    if dashboard(request).inserter is None or not access(request).may("jobs.insert"):
        return ""
    return url(request, "jobs.new") + (f"?{urlencode(params)}" if params else "")
