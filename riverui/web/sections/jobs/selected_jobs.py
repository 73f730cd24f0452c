"""The verbs on selected jobs, confirmed first if the verb asks for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import jobs as actions
from riverui.actions.job_verbs import DELETE, JOB_VERBS
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import FINALIZED, JobListRow
from riverui.errors import BadRequest, DatabaseError
from riverui.storage.interface.params import Field, JobFilter, JobPageParams, Op, Term
from riverui.web.http import action_notices
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice, NoticeForm
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.facts import fact
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

_SAMPLES = 5
"""Jobs shown in the confirmation, enough to recognize the selection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsConfirm:
    """The confirmation before a verb is done to selected jobs, with a field for each parameter; the
    same page with or without JavaScript.
    """

    template: ClassVar[str] = "jobs/confirm.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "jobs/_confirm.html"}

    verb: JobVerb
    effect: str
    """What the verb will do, in sentences."""
    ids: tuple[int, ...]
    samples: tuple[JobListRow, ...]
    suggestions: Mapping[str, Sequence[str]]
    """Texts to choose from, by the name of the verb's parameter."""
    next: str
    """Where to go afterwards (a path below the base path)."""


class JobsCaution(Struct, frozen=True, kw_only=True):
    """A warning about the parameters that a form is about to send."""

    template: ClassVar[str] = "jobs/_caution.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    caution: str
    """Empty if there is none."""


async def warn(verb: JobVerb, request: Request) -> Response:
    """Answer with the warning about the parameters filled in so far, before the form is sent."""
    warning = ""
    with suppress(BadRequest):
        # Invalid values are rejected once the form is sent.
        warning = await action_notices.caution(request, verb, verb.read(request.query_params))
    return respond(request, JobsCaution(caution=warning))


async def act(verb: JobVerb, request: Request) -> Response:
    """Do a verb to the selected jobs; if it asks first, only once the form has been sent.

    Ended jobs that the notice can put back are deleted without a question.
    """
    posted = await form(request)
    ids, home = action_notices.selected_ids(posted), url(request, "jobs.index")
    next_url = local_path(request, posted.get("next"), default=home)
    if not ids:
        return done(request, Notice(level="warning", title="No job was selected"), next=next_url)
    board = dashboard(request)
    keeping = board.sections.job_keeping if verb is DELETE else None
    if keeping is not None and not await keeping.ready(request):
        keeping = None
    asks = verb.asks and posted.get("confirmed") != "1"
    if asks and not (keeping is not None and await _have_ended(request, ids)):
        return respond(
            request,
            JobsConfirm(
                verb=verb,
                effect=(keeping or verb).effect[len(ids) > 1],
                ids=ids,
                samples=await _samples(request, ids[:_SAMPLES]),
                suggestions=await suggestions(request, verb),
                next=next_url,
            ),
        )
    given = verb.read(posted)
    undo, limit = None, board.config.action_timeout
    if keeping is not None:
        changes, fields = await keeping.delete(request, ids)
        if fields:
            undo_url = url(request, keeping.undo_route)
            undo = NoticeForm("Undo", undo_url, (*fields, ("next", next_url)))
    else:
        changes = await actions.apply(
            board.driver, verb, ids, given, pilot=board.pilot, time_limit=limit
        )
    board.counts.expire()
    log.info(
        "%s%s by %r: %d changed, %d requested, %d skipped of jobs %s",
        verb.name,
        f" ({verb.words(given)})" if given else "",
        access(request).user,
        len(changes.changed),
        len(changes.requested),
        len(changes.skipped),
        ids[: action_notices.LINKED],
    )
    if verb.removes and any(
        next_url.partition("?")[0] == url(request, "jobs.show", id=job_id)
        for job_id in changes.changed
    ):
        next_url = home
    notice = action_notices.notice(
        verb,
        changes,
        given,
        caution=await action_notices.caution(request, verb, given) if changes.changed else "",
        link=None
        if verb.removes
        else action_notices.jobs_link(request, changes.changed + changes.requested),
        undo=undo,
    )
    return done(request, notice, next=next_url, changed="jobs")


ROUTES = (
    *(
        GuardedRoute(
            "POST", f"/jobs/{verb.name}", f"jobs.{verb.name}", verb.right, partial(act, verb)
        )
        for verb in JOB_VERBS.values()
    ),
    *(
        GuardedRoute(
            "GET",
            f"/jobs/{verb.name}/caution",
            f"jobs.{verb.name}_caution",
            "jobs.read",
            partial(warn, verb),
        )
        for verb in JOB_VERBS.values()
        if verb.caution
    ),
)
"""A route for each verb, and one for its warnings if it has any."""


async def suggestions(request: Request, verb: JobVerb) -> Mapping[str, Sequence[str]]:
    """Return suggestions for each parameter of the verb that has any, except those that cannot be
    read in time.
    """
    found: dict[str, Sequence[str]] = {}
    for parameter in verb.parameters:
        if parameter.suggest is not None:
            read = await fact(dashboard(request).driver, parameter.suggest)
            if not isinstance(read, DatabaseError):
                found[parameter.name] = read
    return found


async def _have_ended(request: Request, ids: Sequence[int]) -> bool:
    return all(row.state in FINALIZED for row in await _samples(request, ids, lean=True))


async def _samples(
    request: Request, ids: Sequence[int], *, lean: bool = False
) -> tuple[JobListRow, ...]:
    wanted = JobFilter(terms=(Term(field=Field.ID, op=Op.EQ, values=tuple(ids)),))
    params = JobPageParams(filter=wanted, limit=len(ids), lean=lean)
    async with dashboard(request).driver.reading() as executor:
        return (await executor.jobs.list(params)).rows
