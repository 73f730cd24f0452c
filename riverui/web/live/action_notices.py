"""What an action did, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request

from riverui.actions.jobs import Verb
from riverui.domain.jobs import JobState
from riverui.storage.interface.params import JobChanges, SkipReason
from riverui.web.auth.access import access
from riverui.web.live.notices import Notice

FITS = {
    Verb.RETRY: frozenset(
        {
            JobState.SCHEDULED,
            JobState.RETRYABLE,
            JobState.COMPLETED,
            JobState.DISCARDED,
            JobState.CANCELLED,
        }
    ),
    Verb.CANCEL: frozenset(
        {
            JobState.PENDING,
            JobState.SCHEDULED,
            JobState.AVAILABLE,
            JobState.RUNNING,
            JobState.RETRYABLE,
        }
    ),
    Verb.DELETE: frozenset(JobState) - {JobState.RUNNING},
}
"""States in which a verb does something that a person may want."""

REASONS: Mapping[SkipReason, str] = {
    SkipReason.NOT_FOUND: "not found",
    SkipReason.RUNNING: "still running",
    SkipReason.FINALIZED: "already finished",
    SkipReason.ALREADY_AVAILABLE: "already available",
    SkipReason.UNIQUE_CONFLICT: "another active job has the same unique properties",
    SkipReason.LOCKED: "locked by another transaction; try again in a moment",
}

_CHANGED = {
    Verb.RETRY: "{} will run again now",
    Verb.CANCEL: "{} cancelled",
    Verb.DELETE: "{} deleted",
}
_NOTHING = {
    Verb.RETRY: "No job was retried",
    Verb.CANCEL: "No job was cancelled",
    Verb.DELETE: "No job was deleted",
}
_SHOWN = 5


def fitting(states: Sequence[JobState]) -> tuple[Verb, ...]:
    """Verbs that make sense for any of these states (none: all of them)."""
    return tuple(verb for verb in Verb if FITS[verb].intersection(states or JobState))


def allowed(request: Request, states: Sequence[JobState]) -> tuple[str, ...]:
    """Those of the fitting verbs that the viewer has the right to."""
    held = access(request)
    return tuple(verb.value for verb in fitting(states) if held.may(f"jobs.{verb.value}"))


def jobs(number: int) -> str:
    """ "1 job" or "1,203 jobs"."""
    return f"{number:,} job{'' if number == 1 else 's'}"


def skipped(number: int, reason: SkipReason, ids: Sequence[int] = ()) -> str:
    """ "2 skipped, already finished: #12, #14"."""
    shown = ", ".join(f"#{job_id}" for job_id in ids[:_SHOWN])
    more = f" and {number - _SHOWN:,} more" if number > _SHOWN and ids else ""
    return f"{number:,} skipped, {REASONS[reason]}{f': {shown}{more}' if shown else ''}"


def notice(verb: Verb, changes: JobChanges, link: tuple[str, str] | None = None) -> Notice:
    """What happened to the jobs that were asked for."""
    parts = []
    if changes.changed:
        parts.append(_CHANGED[verb].format(jobs(len(changes.changed))))
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
        return Notice(level="warning", title=_NOTHING[verb], details=details)
    return Notice(level="success", title=", ".join(parts), details=details, link=link)
