"""The verbs of queues: pause and resume, one of them or all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import queues as actions
from riverui.actions.verbs import QueueVerb
from riverui.domain.queues import ALL_QUEUES, MAX_NOTE
from riverui.errors import BadRequest
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice, NoticeForm
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections.queues.index import short_name
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

_NAMED = 8
"""Queues that a notice names."""
_MAX_UNDONE = 1_500
"""Characters of the names of the queues that a notice can undo: a cookie keeps it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuesPause:
    """Asks for a note before a queue is paused; it works with and without JavaScript."""

    template: ClassVar[str] = "queues/pause.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "queues/_pause.html"}

    verb: QueueVerb
    name: str | None
    """None for every queue."""
    most: int
    """Characters of a note."""
    next: str


async def act(verb: QueueVerb, request: Request) -> Response:
    """Do a verb to queues, or to every queue; with `ask`, ask for its note first."""
    board, posted, user = dashboard(request), await form(request), access(request).user
    names, every = posted.getlist("name"), bool(posted.get("all"))
    next_url = local_path(request, posted.get("next"), default=url(request, "queues.index"))
    if not names and not every:
        raise BadRequest("Choose a queue.")
    if posted.get("ask"):
        name = None if every else names[0]
        return respond(request, QueuesPause(verb=verb, name=name, most=MAX_NOTE, next=next_url))
    reason, limit = actions.reason(user, posted.get("note", "")), board.config.action_timeout
    changed: list[str] = []
    if every:
        changed += await actions.apply_all(board.driver, verb, reason, time_limit=limit)
    for name in () if every else names:
        changed += await actions.apply(board.driver, verb, name, reason, time_limit=limit)
    log.info("queue %r %s by %r: %d changed", names or "*", verb.done, user, len(changed))
    undo = _undo(request, verb, changed, next_url)
    notice = _notice(verb, ALL_QUEUES if every else names[0], changed, undo)
    return done(request, notice, next=next_url, changed="queues")


ROUTES = tuple(
    GuardedRoute(
        "POST", f"/queues/{verb.name}", f"queues.{verb.name}", verb.right, partial(act, verb)
    )
    for verb in actions.QUEUE_VERBS.values()
)
"""An address for each verb."""


def _undo(
    request: Request, verb: QueueVerb, changed: Sequence[str], next_url: str
) -> NoticeForm | None:
    """Return the button that does the opposite to these queues; None if they are too many for a
    notice, or one of them cannot be changed on its own.
    """
    if not changed or ALL_QUEUES in changed or len("".join(changed)) > _MAX_UNDONE:
        return None
    other = next(each for each in actions.QUEUE_VERBS.values() if each is not verb)
    names = (("name", name) for name in changed)
    return NoticeForm("Undo", url(request, f"queues.{other.name}"), (*names, ("next", next_url)))


def _notice(verb: QueueVerb, name: str, changed: Sequence[str], undo: NoticeForm | None) -> Notice:
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
    return Notice(level="success", title=title, details=details, undo=undo)
