"""The words of notices: what an action did to jobs."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from riverui.actions.job_verbs import JOB_VERBS, SKIPPED
from riverui.actions.verbs import NOTHING, Given, JobVerb
from riverui.domain.jobs import JobState
from riverui.errors import DatabaseError
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.live.notices import Notice, NoticeForm
from riverui.web.view.facts import fact

_SHOWN = 5
"""Ids of skipped jobs that a notice names for each reason."""


def allowed(request: Request, states: Sequence[JobState]) -> tuple[JobVerb, ...]:
    """Return the verbs that fit any of these states (of all if none are given) and that the viewer
    has the right to.
    """
    held, shown = access(request), states or JobState
    return tuple(
        verb
        for verb in JOB_VERBS.values()
        if verb.fits.intersection(shown) and held.may(verb.right)
    )


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
    given: Given = NOTHING,
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
