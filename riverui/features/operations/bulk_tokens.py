"""The preview of an action on all that match, and its start.

The form of a preview carries, signed, what it has shown: the verb, the filter and the cutoff. What
is started is that and nothing else.
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
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.urls import url
from riverui.web.live.action_notices import caution
from riverui.web.live.notices import Notice
from riverui.web.search import query, time_terms
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import done

_SALT = "riverui.bulk"
SAMPLES = 5
"""Jobs that a preview shows, so that its reader sees at a glance what is meant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkPreview:
    """What an action on all that match would change, before it starts."""

    template: ClassVar[str] = "operations/preview.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "operations/_preview.html"}

    verb: JobVerb
    action: str
    """The address that the form is sent to."""
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
    """What is posted back to start the operation; empty when nothing matches."""
    next: str
    """Where to go back to."""
    suggestions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Texts to choose from, by the name of the verb's parameter."""
    narrowed: bool = False
    """Whether jobs in other states are left out because no state was named."""
    kinds: tuple[tuple[str, int], ...] = ()
    """The commonest kinds, with their numbers among the jobs looked at."""
    looked_at: int = 0
    problem: Problem | None = None

    @property
    def pace(self) -> tuple[VerbParameter, ...]:
        """What may be asked for of its pace."""
        return pace_parameters(self.verb)


def bulk_token(request: Request, verb: JobVerb, text: str, cutoff: JobCutoff, count: Count) -> str:
    """Return what a preview has shown, signed; empty when nothing matches. Its id becomes that of
    the operation, so a form that is sent twice starts only one.
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
    """Start what the preview has shown whose form was posted. BadRequest if the preview is too old,
    was changed, or was made for another verb.
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
