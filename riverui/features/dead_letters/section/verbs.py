"""The verbs on selected dead letters: retry them, or remove them permanently."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.errors import BadRequest
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.section.missing import missing_table_as
from riverui.storage.interface.job_actions import JobChanges
from riverui.web.http import action_notices
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import Form, form
from riverui.web.http.request_context import local_path, url
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLettersConfirm:
    """Asks for confirmation before dead letters are removed permanently; it works with and without
    JavaScript.
    """

    template: ClassVar[str] = "dead_letters/confirm.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "dead_letters/_confirm.html"}

    verb: JobVerb
    ids: tuple[int, ...]
    next: str
    """Where to go afterwards."""


async def retry(request: Request) -> Response:
    """Put the selected dead letters back among the jobs."""
    posted = await form(request)
    ids, next_url = action_notices.selected_ids(posted, "dead letter"), _next(request, posted)
    if not ids:
        return _none(request, next_url)
    board = dashboard(request)
    with missing_table_as(BadRequest):
        changes = await dead_letters.retry(
            board.driver, ids, pilot=board.pilot, time_limit=board.config.action_timeout
        )
    board.counts.expire()
    link = action_notices.jobs_link(request, changes.changed)
    return _response(request, RETRY, changes, next_url, link=link)


async def delete(request: Request) -> Response:
    """Remove the selected dead letters permanently, once the confirmation form has been sent."""
    posted = await form(request)
    ids, next_url = action_notices.selected_ids(posted, "dead letter"), _next(request, posted)
    if not ids:
        return _none(request, next_url)
    if posted.get("confirmed") != "1":
        return respond(request, DeadLettersConfirm(verb=DELETE, ids=ids, next=next_url))
    board = dashboard(request)
    limit = board.config.action_timeout
    with missing_table_as(BadRequest):
        changes = await dead_letters.delete(board.driver, ids, time_limit=limit)
    return _response(request, DELETE, changes, next_url)


def log_changes(request: Request, verb: JobVerb, changes: JobChanges) -> None:
    """Log who did what to dead letters."""
    log.info(
        "dead letters %s by %r: %d changed, %d skipped of %s",
        verb.done,
        access(request).user,
        len(changes.changed),
        len(changes.skipped),
        [*changes.changed, *(job_id for job_id, _ in changes.skipped)][: action_notices.LINKED],
    )


def _response(
    request: Request,
    verb: JobVerb,
    changes: JobChanges,
    next_url: str,
    *,
    link: tuple[str, str] | None = None,
) -> Response:
    log_changes(request, verb, changes)
    gone = {url(request, "dead_letters.show", id=job_id) for job_id in changes.changed}
    if next_url.partition("?")[0] in gone:
        next_url = url(request, "dead_letters.index")
    notice = action_notices.notice(verb, changes, link=link)
    return done(request, notice, next=next_url, changed="jobs")


def _none(request: Request, next_url: str) -> Response:
    notice = Notice(level="warning", title="No dead letter was selected")
    return done(request, notice, next=next_url)


def _next(request: Request, posted: Form) -> str:
    return local_path(request, posted.get("next"), default=url(request, "dead_letters.index"))
