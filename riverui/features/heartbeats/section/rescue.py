"""The rescue of the jobs of a silent client on request."""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, SchemaMissing
from riverui.features.heartbeats.verbs import ClientRescue, rescue_client
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.view.format import plain
from riverui.web.view.notices import done

log = logging.getLogger("riverui.actions")

_BECAME = (
    (JobState.RETRYABLE, "to be retried"),
    (JobState.DISCARDED, "discarded: all their attempts are used up"),
    (JobState.CANCELLED, "cancelled as requested"),
)
"""The possible outcomes of rescued jobs, in words."""


async def rescue(request: Request) -> Response:
    """Declare a silent client dead, and rescue its jobs."""
    posted = await form(request)
    client_id = posted.get("client")
    if not client_id:
        raise BadRequest("Choose a worker.")
    rescued = await carry_out(request, client_id)
    details = [
        f"{rescued.states[state]:,} {words}"
        for state, words in _BECAME
        if rescued.states.get(state)
    ]
    title = "1 job was rescued" if rescued.jobs == 1 else f"{rescued.jobs:,} jobs were rescued"
    notice = Notice(
        level="success",
        title=f"{title} from {plain(rescued.client.host or client_id, 60)}",
        details=tuple(details),
    )
    next_url = local_path(request, posted.get("next"), default=url(request, "workers.index"))
    return done(request, notice, next=next_url, changed="workers")


async def carry_out(request: Request, client_id: str) -> ClientRescue:
    """Rescue the jobs of a silent client and write the log line.

    Raise NotFound without such a client, BadRequest if it is not silent or if clients are not
    recorded.
    """
    board, user = dashboard(request), access(request).user
    try:
        rescued = await rescue_client(
            board.driver,
            client_id,
            by=user or "a dashboard",
            time_limit=board.config.action_timeout,
        )
    except SchemaMissing as error:
        raise BadRequest(f"Clients are unknown: {MISSING} are missing. Run `{REMEDY}`.") from error
    log.info(
        "client %r, silent since %s, declared dead by %r: %d jobs rescued",
        client_id,
        f"{rescued.client.silent_since:%Y-%m-%d %H:%M:%S %Z}",
        user,
        rescued.jobs,
    )
    return rescued
