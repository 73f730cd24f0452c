"""Actions on all matching dead letters: the preview, and the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import DEAD_LETTER_VERBS
from riverui.actions.pace import pace_parameters
from riverui.actions.verbs import JobVerb, VerbParameter
from riverui.domain.jobs import JobListRow
from riverui.errors import BadRequest
from riverui.features.dead_letters import filter as dead_letter_filter
from riverui.features.dead_letters.section.index import read_filter
from riverui.features.dead_letters.section.missing import missing_told
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage.interface.params import Count, JobCutoff, JobOrder
from riverui.web.auth.access import need
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.routes import GuardedRoute
from riverui.web.http.urls import local_path, only, url
from riverui.web.live import promises
from riverui.web.live.notices import Notice
from riverui.web.search import query
from riverui.web.view.render import done, respond

_SALT = "riverui.dead-letters"
_SAMPLES = 5
"""Dead letters that the preview shows."""
_BEYOND = 2**63 - 1
"""An id behind which there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLettersBulk:
    """What an action on all matching dead letters would touch, before it starts."""

    template: ClassVar[str] = "dead_letters/bulk.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "dead_letters/_bulk.html"}

    verb: JobVerb
    action: str
    """Where the form is sent."""
    pace: tuple[VerbParameter, ...]
    filter_text: str
    count: Count
    samples: tuple[JobListRow, ...]
    cutoff_at: datetime
    token: str
    """Signed: verb, filter and cutoff; empty when nothing matches."""
    next: str


async def preview(request: Request) -> Response:
    """Answer with what a verb would do to all dead letters of a list."""
    only(request, "kind", "queue", "match", "verb", "next")
    verb = _verb(request.query_params.get("verb", ""))
    need(request, verb.right)
    board, asked, now = dashboard(request), read_filter(request), datetime.now(UTC)
    home = url(request, "dead_letters.index")
    matching = dead_letter_filter.terms(kind=asked.kind, queue=asked.queue, error=asked.match)
    text = query.format(matching)
    if query.parse_own(text, now=now).filter() != matching:
        raise BadRequest("Such names cannot be written down: choose dead letters one by one.")
    params = replace(dead_letter_filter.params(matching), after=(now, _BEYOND), limit=_SAMPLES)
    with missing_told(BadRequest):
        async with board.driver.reading() as executor:
            letters = DeadLetterStore(executor)
            page = await letters.dead_job_list(params)
            count = await letters.dead_job_count(replace(params, window=board.config.count_cap))
    return respond(
        request,
        DeadLettersBulk(
            verb=verb,
            action=url(request, f"dead_letters.bulk_{verb.on_dead_letters.name}")
            if verb.on_dead_letters
            else "",
            pace=pace_parameters(verb),
            filter_text=text,
            count=count,
            samples=tuple(row.job for row in page.rows),
            cutoff_at=now,
            token=promises.token(
                request, verb, text, JobCutoff(id=_BEYOND, at=now), count, salt=_SALT
            ),
            next=local_path(request, request.query_params.get("next"), default=home),
        ),
    )


async def start(verb: JobVerb, request: Request) -> Response:
    """Start to do a verb to all dead letters of a preview."""
    operation = await promises.begin(
        request, verb, await form(request), salt=_SALT, order=lambda matching: JobOrder.TIME_DESC
    )
    notice = Notice(level="info", title=f"{verb.label}, all matching: started")
    next_url = url(request, "operations.show", id=operation.id)
    return done(request, notice, next=next_url, changed="operations")


def _verb(text: str) -> JobVerb:
    for verb in DEAD_LETTER_VERBS.values():
        if verb.on_dead_letters and verb.on_dead_letters.name == text:
            return verb
    raise BadRequest("Choose retry or delete.")


ROUTES = (
    GuardedRoute("GET", "/dead-letters/bulk", "dead_letters.bulk", "jobs.read", preview),
    *(
        GuardedRoute(
            "POST",
            f"/dead-letters/bulk/{verb.on_dead_letters.name}",
            f"dead_letters.bulk_{verb.on_dead_letters.name}",
            verb.right,
            partial(start, verb),
        )
        for verb in DEAD_LETTER_VERBS.values()
        if verb.on_dead_letters
    ),
)
"""The preview, and an address that starts each verb."""
