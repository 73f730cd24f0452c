"""The preview of an action on all matches, and its start.

A preview's form carries verb, filter and cutoff, signed. Exactly these are started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from itsdangerous import BadData
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.verbs import JobVerb, VerbParameter
from riverui.domain.jobs import JobListRow
from riverui.errors import BadRequest
from riverui.features.operations.start import new_id, start
from riverui.features.operations.verbs import pace_parameters, read_pace
from riverui.storage.interface.params import Count, CountKind, JobCutoff
from riverui.web.http.action_notices import caution
from riverui.web.http.context import dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import url
from riverui.web.search import query, time_terms
from riverui.web.view.notices import done
from riverui.web.view.page_parts import Problem

_SALT = "riverui.bulk"
SAMPLES = 5
"""Jobs in a preview, so that the user sees at a glance which ones match."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkPreview:
    """What an action on all matches would change, before it starts."""

    template: ClassVar[str] = "operations/preview.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "operations/_preview.html"}

    verb: JobVerb
    action: str
    """The URL to which the form is sent."""
    noun: str
    """What matches, such as "job"."""
    found: str
    """How many match, in words, such as "3 discarded jobs"."""
    count: Count
    filter_text: str
    """The filter, e.g. `state:retryable kind:mail`; empty for all."""
    cutoff_at: datetime
    samples: tuple[JobListRow, ...]
    token: str
    """Posted back to start the operation; empty if nothing matches."""
    next: str
    """The URL to return to."""
    suggestions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Suggested values, by parameter of the verb."""
    paced: Mapping[str, int] = field(default_factory=dict)
    """The suggested pace, by parameter; empty for none."""
    narrowed: bool = False
    """Whether jobs in other states are left out because no state was named."""
    kinds: tuple[tuple[str, int], ...] = ()
    """The commonest kinds, with their numbers among the jobs read."""
    looked_at: int = 0
    problem: Problem | None = None

    @property
    def pace(self) -> tuple[VerbParameter, ...]:
        """The parameters of the pace."""
        return pace_parameters(self.verb)


def bulk_token(request: Request, verb: JobVerb, text: str, cutoff: JobCutoff, count: Count) -> str:
    """Return the content of a preview, signed; empty if nothing matches. Its id becomes that of the
    operation, so a form that is sent twice starts only one.
    """
    if count == Count(value=0):
        return ""
    shown = {
        "id": new_id(),
        "verb": verb.name,
        "filter": text,
        "cutoff_id": cutoff.id,
        "cutoff_at": time_terms.exact_text(cutoff.at),
        "count": count.value,
        "count_kind": count.kind.value,
    }
    return str(dashboard(request).signer.dumps(shown, salt=_SALT))


async def start_previewed(verb: JobVerb, request: Request) -> Response:
    """Start the operation of the preview whose form was posted. Raise BadRequest if the preview has
    expired, was changed, or was made for another verb.
    """
    board, posted = dashboard(request), await form(request)
    try:
        shown = board.signer.loads(
            posted.get("token", ""), salt=_SALT, max_age=board.limits.preview_seconds
        )
    except BadData:
        raise BadRequest("This preview has expired or was changed: open it again.") from None
    if shown["verb"] != verb.name:
        raise BadRequest("This preview was made for another action.")
    now = datetime.now(UTC)
    operation = await start(
        request,
        verb,
        query.parse_own(shown["filter"], now=now).filter(),
        given=verb.read(posted),
        pace=read_pace(verb, posted),
        cutoff=JobCutoff(id=shown["cutoff_id"], at=time_terms.parse(shown["cutoff_at"], now).start),
        total=Count(value=shown["count"], kind=CountKind(shown["count_kind"])),
        id=shown["id"],
    )
    warning = await caution(request, verb, operation.parameters)
    notice = Notice(
        level="warning" if warning else "info",
        title=f"{verb.label}, all matching: started",
        details=(warning,) if warning else (),
    )
    next_url = url(request, "operations.show", id=operation.id)
    return done(request, notice, next=next_url, changed="operations")
