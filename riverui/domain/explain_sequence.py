"""What the sequence of a job has to do with its not running."""

from __future__ import annotations

from riverui.domain.checks import Check, Place, PlaceKind, Result, check, cut, unread, up_to
from riverui.domain.job_facts import JobFacts, Unread
from riverui.domain.jobs import JobState
from riverui.features.sequences.domain import SequencePlace

_ENDED = (JobState.CANCELLED, JobState.DISCARDED)
"""States in which a job may halt its sequence."""
_LABEL = "Its sequence"
_NAME = "sequence"


def in_sequence(facts: JobFacts) -> Check | None:
    """Return what stands before the job in its sequence, or what it holds up itself."""
    job, place = facts.job, facts.sequence
    if place is None or job.state not in (JobState.PENDING, *_ENDED):
        return None
    if isinstance(place, Unread):
        return check(_NAME, _LABEL, Result.UNKNOWN, unread(place))
    of = f"its sequence {cut(place.key)}"
    if not place.ours:
        if job.state is not JobState.PENDING:
            return None
        evidence = (
            f"It waits in {of}, which is River Pro’s: a client of River Pro makes it available when"
            " its turn comes."
        )
        return check(_NAME, _LABEL, Result.FAILED, evidence)
    if job.state in _ENDED:
        return _halts(job.state, place, job_id=job.id, of=of)
    if not place.waiting:
        evidence = (
            f"It is pending, but has no place in the line of {of}: somebody changed its row. A"
            " retry puts it back in line."
        )
        return check(_NAME, _LABEL, Result.FAILED, evidence)
    if place.head_id is None:
        before = f" {_wait(place)} before it." if place.ahead else ""
        evidence = (
            f"No job of {of} is at work. The leader, a client of riverui, looks for the next one"
            f" every second.{before}"
        )
        return check(_NAME, _LABEL, Result.FAILED, evidence, _WORKERS)
    head = Place(kind=PlaceKind.JOB, words=f"job {place.head_id}", job_id=place.head_id)
    between = f" {_wait(place)} between them." if place.ahead else ""
    if place.halted_at is not None:
        evidence = (
            f"{_capital(of)} is halted: job {place.head_id}, which stands before it, was"
            f" {place.head_state}. It goes on once that job is retried, skipped or deleted."
            f"{between}"
        )
    elif place.head_state is None:
        evidence = (
            f"Job {place.head_id}, which stood before it in {of}, is gone. The leader, a client of"
            f" riverui, lets the next one run within seconds.{between}"
        )
    else:
        evidence = (
            f"It waits for job {place.head_id} ({place.head_state}), which stands before it in"
            f" {of}.{between}"
        )
    return check(_NAME, _LABEL, Result.FAILED, evidence, head)


_WORKERS = Place(kind=PlaceKind.WORKERS, words="the workers")


def _halts(state: JobState, place: SequencePlace, *, job_id: int, of: str) -> Check | None:
    """Return what an ended job holds up in its sequence."""
    if place.head_id == job_id and place.halted_at is not None:
        count = place.ahead + place.behind
        waits = "Nothing waits behind it yet" if not count else _waits(count, place.cap)
        evidence = (
            f"It halts {of}: it was {state.value}. {waits}; the sequence goes on once this job is"
            " retried, skipped or deleted."
        )
        return check(_NAME, _LABEL, Result.FAILED, evidence)
    if place.waiting:
        evidence = (
            f"It was {state.value} while it waited in {of}, which halts when its turn comes, unless"
            " it is retried, skipped or deleted before."
        )
        return check(_NAME, _LABEL, Result.FAILED, evidence)
    return None


def _wait(place: SequencePlace) -> str:
    verb = "waits" if place.ahead == 1 else "wait"
    return f"{up_to(place.ahead, place.cap, 'other job')} {verb}"


def _waits(count: int, cap: int) -> str:
    return f"{up_to(count, cap, 'job')} {'waits' if count == 1 else 'wait'} behind it"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
