"""Resolves and ignores error groups, after asking for what the verb takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.values import is_bigint
from riverui.errors import BadRequest
from riverui.features.error_groups import verbs as actions
from riverui.features.error_groups.domain.groups import ErrorGroup
from riverui.features.error_groups.reader import ERROR_GROUPS
from riverui.features.error_groups.section.groups import find
from riverui.features.error_groups.verbs import MAX_REASON, MAX_RELEASE, Asked, ErrorVerb
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import Form, form
from riverui.web.http.request_context import local_path, url
from riverui.web.view.format import plain
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

TERMS: Mapping[str, tuple[str, timedelta | None]] = {
    "": ("For good", None),
    "1h": ("For an hour", timedelta(hours=1)),
    "1d": ("For a day", timedelta(days=1)),
    "7d": ("For a week", timedelta(days=7)),
    "30d": ("For 30 days", timedelta(days=30)),
}
"""How long a group may be ignored: labels and spans, by their names in the form."""
_RELEASES = 20
"""Suggested releases."""
_NOTICE = 120
"""Longest title of a group in a notice, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorsDecide:
    """Asks for what a verb takes; it works with and without JavaScript."""

    template: ClassVar[str] = "errors/decide.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "errors/_decide.html"}

    verb: ErrorVerb
    group: ErrorGroup
    releases: tuple[str, ...]
    """Suggested releases."""
    terms: tuple[tuple[str, str], ...]
    """Names and labels of the spans to choose from."""
    most_reason: int
    most_release: int
    next: str


async def act(verb: ErrorVerb, request: Request) -> Response:
    """Apply a verb to a group; if the verb asks for something, only once the form has been sent."""
    posted = await form(request)
    here = url(request, "errors.show", fingerprint=request.path_params["fingerprint"])
    next_url = local_path(request, posted.get("next"), default=here)
    if verb.asks and posted.get("confirmed") != "1":
        group = await remembered(request)
        return respond(
            request,
            ErrorsDecide(
                verb=verb,
                group=group,
                releases=tuple(group.releases)[:_RELEASES],
                terms=tuple((name, label) for name, (label, _) in TERMS.items()),
                most_reason=MAX_REASON,
                most_release=MAX_RELEASE,
                next=next_url,
            ),
        )
    group = await decide(request, verb, _asked(posted))
    title = f"{verb.done.capitalize()}: {plain(group.signature.title, _NOTICE)}"
    return done(request, Notice(level="success", title=title), next=next_url, changed="errors")


async def decide(request: Request, verb: ErrorVerb, asked: Asked) -> ErrorGroup:
    """Apply a verb to the group in the URL; return the group as it was."""
    board, user = dashboard(request), access(request).user
    group = await remembered(request)
    await actions.apply(
        board.driver,
        verb,
        group,
        asked,
        username=user,
        time_limit=board.config.action_timeout,
    )
    board.get(ERROR_GROUPS).expire()
    log.info("error %s %s by %r: %s", group.fingerprint, verb.done, user, asked)
    return group


async def remembered(request: Request) -> ErrorGroup:
    """Return the group in the URL, for a decision. Raise BadRequest if the table of groups is
    missing, NotFound if the group is unknown.
    """
    seen, group = await find(request)
    if not seen.reading.remembered:
        raise BadRequest(
            f"Errors can be resolved and ignored once the database has {MISSING}: run {REMEDY}."
        )
    return group


def _asked(posted: Form) -> Asked:
    """Return what the form asks for. Raise BadRequest for an invalid field."""
    term = posted.get("until", "")
    if term not in TERMS:
        raise BadRequest("Choose for how long the error is ignored.")
    span = TERMS[term][1]
    return Asked(
        reason=posted.get("reason", "").strip(),
        release=posted.get("release", "").strip(),
        until_at=datetime.now(UTC) + span if span else None,
        until_rate=_number(posted, "rate"),
        until_total=_number(posted, "total"),
    )


def _number(posted: Form, name: str) -> int | None:
    text = posted.get(name, "").strip().replace(",", "")
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    if number < 1 or not is_bigint(number):
        raise BadRequest(f"The {name} must be a whole number from 1 on.")
    return number
