"""Deleted jobs kept as dead letters: on the pages of jobs, which can put them back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from riverui.actions.job_verbs import DELETE
from riverui.domain.time import aware_instant
from riverui.errors import BadRequest, NotSupported
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.features.dead_letters.verbs import UNDELETE
from riverui.storage.interface.job_actions import JobChanges
from riverui.web.http import action_notices
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.contributions import JobKeeping, UndoFields
from riverui.web.view.notices import done

log = logging.getLogger("riverui.actions")

_KEPT = (
    "It moves to the dead letters and can be put back from there. Running jobs are skipped.",
    "They move to the dead letters and can be put back from there. Running jobs are skipped.",
)
"""What deleting does to one job and to several, if dead letters are kept."""


async def _ready(request: HTTPConnection) -> bool:
    return await dashboard(request).own_tables.there(DeadLetterStore)


async def _delete(request: Request, ids: Sequence[int]) -> tuple[JobChanges, UndoFields]:
    board = dashboard(request)
    deleted = await dead_letters.delete_jobs(
        board.driver,
        ids,
        user=access(request).user,
        pilot=board.pilot,
        time_limit=board.config.action_timeout,
    )
    at = deleted.died_at
    return deleted.changes, [] if at is None else [("deleted", at.isoformat())]


async def _page(request: Request, job_id: int) -> str:
    """Return the address of a job's dead letter; empty if it has none."""
    board = dashboard(request)
    if not await board.own_tables.there(DeadLetterStore):
        return ""
    async with board.driver.reading() as executor:
        found = await DeadLetterStore(executor).dead_job_get(job_id, cut=1, lean=True)
    return "" if found is None else url(request, "dead_letters.show", id=job_id)


async def undo(request: Request) -> Response:
    """Restore the jobs that this viewer deleted at the time given in the form."""
    posted = await form(request)
    next_url = local_path(request, posted.get("next"), default=url(request, "jobs.index"))
    board, user = dashboard(request), access(request).user
    died_at = aware_instant(posted.get("deleted", ""))
    if died_at is None:
        raise BadRequest("It is not known when the jobs were deleted.")
    try:
        changes = await dead_letters.undo(
            board.driver,
            died_at,
            user=user,
            pilot=board.pilot,
            time_limit=board.config.action_timeout,
        )
    except NotSupported as error:
        raise BadRequest(str(error)) from None
    board.counts.expire()
    log.info(
        "delete undone by %r: %d put back, %d skipped of jobs %s",
        user,
        len(changes.changed),
        len(changes.skipped),
        changes.changed[: action_notices.LINKED],
    )
    if not changes.changed and not changes.skipped:
        notice = Notice(
            level="warning",
            title="Nothing was put back",
            details=("The jobs were put back, retried or removed for good in the meantime.",),
        )
    else:
        link = action_notices.jobs_link(request, changes.changed)
        notice = action_notices.notice(UNDELETE, changes, link=link)
    return done(request, notice, next=next_url, changed="jobs")


KEEPING = JobKeeping(
    effect=_KEPT, ready=_ready, delete=_delete, undo_route="jobs.undelete", page=_page
)
ROUTES = (GuardedRoute("POST", "/jobs/undelete", "jobs.undelete", DELETE.right, undo),)
