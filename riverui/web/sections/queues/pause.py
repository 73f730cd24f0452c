"""The verbs of queues: pause and resume, one of them or all."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import queues as actions
from riverui.actions.verbs import QueueVerb
from riverui.domain.queues import ALL_QUEUES
from riverui.errors import BadRequest
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.queues.index import short_name
from riverui.web.view.notices import done

log = logging.getLogger("riverui.actions")

_NAMED = 8
"""Queues that a notice names."""


async def act(verb: QueueVerb, request: Request) -> Response:
    """Do a verb to a queue, or to every queue."""
    board, posted = dashboard(request), await form(request)
    name, time_limit = posted.get("name"), board.config.action_timeout
    if posted.get("all"):
        name = ALL_QUEUES
        changed = await actions.apply_all(board.driver, verb, time_limit=time_limit)
    elif name is None:
        raise BadRequest("Choose a queue.")
    else:
        changed = await actions.apply(board.driver, verb, name, time_limit=time_limit)
    next_url = local_path(request, posted.get("next"), default=url(request, "queues.index"))
    log.info("queue %r %s by %r: %d changed", name, verb.done, access(request).user, len(changed))
    return done(request, _notice(verb, name, changed), next=next_url, changed="queues")


ROUTES = tuple(
    GuardedRoute(
        "POST", f"/queues/{verb.name}", f"queues.{verb.name}", verb.right, partial(act, verb)
    )
    for verb in actions.QUEUE_VERBS.values()
)
"""An address for each verb."""


def _notice(verb: QueueVerb, name: str, changed: Sequence[str]) -> Notice:
    """Return what a verb did to the queue of that name, or to every queue."""
    if not changed:
        unchanged = f"Queue {short_name(name)} was {verb.unchanged}"
        return Notice(level="info", title=verb.unchanged_all if name == ALL_QUEUES else unchanged)
    details = (verb.hint,) if verb.hint else ()
    if len(changed) == 1:
        title = f"Queue {short_name(changed[0])} {verb.done}"
    else:
        title = f"{len(changed):,} queues {verb.done}"
        names = ", ".join(short_name(queue) for queue in changed[:_NAMED])
        more = f" and {len(changed) - _NAMED:,} more" if len(changed) > _NAMED else ""
        details = (f"{names}{more}", *details)
    return Notice(level="success", title=title, details=details)
