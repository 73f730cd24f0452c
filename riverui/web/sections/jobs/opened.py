"""The page of a job with its encrypted args opened, for viewers with the right to open them."""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.domain.jobs import JsonText
from riverui.domain.sealed_args import sealed_args
from riverui.errors import DecryptionError, NotFound
from riverui.web.http.context import access, dashboard, need
from riverui.web.http.request_context import only, request_context, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.jobs import show
from riverui.web.sections.jobs.show import OpenedArgs

log = logging.getLogger("riverui.actions")

_MOST = 2_000_000
"""Longest encrypted args to open, in characters: ten times what a page shows of plain ones."""


async def index(request: Request) -> Response:
    """Answer with the page of a job and its opened args, and log who opened them.

    The page does not refresh itself. If this dashboard has no keys, or the args are not encrypted,
    it redirects to the ordinary page. Raises NotFound if there is no such job, and Forbidden for
    viewers without the right to see jobs.
    """
    only(request)
    job_id = show.path_id(request)
    closed = RedirectResponse(url(request, "jobs.show", id=job_id), status_code=303)
    keys = dashboard(request).config.encryption_keys
    if keys is None:
        return closed
    need(request, "jobs.read")
    async with dashboard(request).driver.reading() as executor:
        job = await executor.jobs.get(job_id, cut=_MOST)
    if job is None:
        raise NotFound(show.no_job(job_id))
    if sealed_args(job.args.text, job.args.size) is None:
        return closed
    found, problem = None, ""
    if not job.args.complete:
        problem = "They are too large to open in a browser."
    else:
        try:
            text = str(keys.open(job.args.text))
            found = JsonText(text=text, size=len(text))
        except DecryptionError as error:
            problem = str(error)
    log.info(
        "open args by %r: job %d of kind %r%s",
        access(request).user,
        job.id,
        job.kind,
        "" if found else ", failed",
    )
    # Do not reuse this page for other viewers.
    request_context(request).shared = False
    return await show.answer(request, job, opened=OpenedArgs(args=found, problem=problem))


async def closed(request: Request) -> Response:
    """Redirect to the ordinary page: a GET request opens nothing."""
    return RedirectResponse(url(request, "jobs.show", id=show.path_id(request)), status_code=302)


ROUTES = (
    GuardedRoute("GET", "/jobs/{id:river_bigint}/opened", "jobs.closed", "jobs.read", closed),
    GuardedRoute("POST", "/jobs/{id:river_bigint}/opened", "jobs.opened", show.DECRYPT, index),
)
"""The page, and the redirect of its GET requests."""
