"""Actions on selected jobs: which are meant, and the words of the notice of what was done."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request

from riverui.actions.job_verbs import SKIPPED
from riverui.actions.jobs import MAX_IDS
from riverui.actions.verbs import NO_PARAMETERS, Given, JobVerb
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, DatabaseError
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.params import Field
from riverui.web.http.context import dashboard
from riverui.web.http.cookies import Notice, NoticeForm
from riverui.web.http.forms import Form
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.facts import fact

_ID = re.compile(r"-?[0-9]{1,19}")
_SHOWN = 5
"""Ids of skipped jobs that a notice names for each reason."""
LINKED = 50
"""Jobs that the link of a notice can name: its address stays below 1,000 characters."""


def selected_ids(posted: Form, noun: str = "job") -> tuple[int, ...]:
    """Return the ids in a form, each once. BadRequest if one is not an id or they are too many."""
    texts = posted.getlist("ids")
    if len(texts) > MAX_IDS:
        raise BadRequest(f"One request takes at most {MAX_IDS:,} {noun}s.")
    if not all(_ID.fullmatch(text) and is_bigint(int(text)) for text in texts):
        raise BadRequest(f"The id of a {noun} must be a whole number.")
    return tuple(dict.fromkeys(map(int, texts)))


def jobs_link(request: Request, ids: Sequence[int]) -> tuple[str, str] | None:
    """Return the link of a notice to these jobs; None if there are none, or more than LINKED."""
    if not ids or len(ids) > LINKED:
        return None
    if len(ids) == 1:
        return f"Job {ids[0]}", url(request, "jobs.show", id=ids[0])
    return "Show them", jobs_url(request, (query.equal(Field.ID, *ids),))


async def caution(request: Request, verb: JobVerb, given: Given) -> str:
    """Return a warning about what the verb was given; empty if there is none, or if the database
    does not answer in time.
    """
    if verb.caution is None:
        return ""
    read = verb.caution
    found = await fact(dashboard(request).driver, lambda executor: read(executor, given))
    return "" if isinstance(found, DatabaseError) else found


def jobs(number: int) -> str:
    """Return "1 job" or "1,203 jobs"."""
    return f"{number:,} job{'' if number == 1 else 's'}"


def skipped(number: int, reason: SkipReason, ids: Sequence[int] = ()) -> str:
    """Return "2 skipped, already finished: #12, #14"."""
    shown = ", ".join(f"#{job_id}" for job_id in ids[:_SHOWN])
    more = f" and {number - _SHOWN:,} more" if number > _SHOWN and ids else ""
    return f"{number:,} skipped, {SKIPPED[reason]}{f': {shown}{more}' if shown else ''}"


def notice(
    verb: JobVerb,
    changes: JobChanges,
    given: Given = NO_PARAMETERS,
    *,
    caution: str = "",
    link: tuple[str, str] | None = None,
    undo: NoticeForm | None = None,
) -> Notice:
    """Return the notice of what happened to jobs; `caution` is added to it as a warning."""
    parts = []
    if changes.changed:
        number = jobs(len(changes.changed))
        parts.append(verb.changed.format(jobs=number, given=verb.words(given)))
    if changes.requested:
        running = (
            f"{len(changes.requested):,} running job{'' if len(changes.requested) == 1 else 's'}"
        )
        parts.append(f"{running} asked to stop")
    by_reason: dict[SkipReason, list[int]] = {}
    for job_id, reason in changes.skipped:
        by_reason.setdefault(reason, []).append(job_id)
    details = tuple(skipped(len(ids), reason, ids) for reason, ids in by_reason.items())
    if not parts:
        return Notice(level="warning", title=f"No job was {verb.done}", details=details)
    return Notice(
        level="warning" if caution else "success",
        title=", ".join(parts),
        details=(caution, *details) if caution else details,
        link=link,
        undo=undo,
    )
