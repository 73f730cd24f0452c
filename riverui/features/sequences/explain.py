"""A job's sequence as a reason why it is not running."""

from __future__ import annotations

from riverui.actions.explain import JobHold
from riverui.domain.explain.facts import JobFacts
from riverui.domain.findings import Finding, Link, capital, cut, failed
from riverui.domain.jobs import JobState
from riverui.domain.text import counted
from riverui.features.sequences.domain import SequencePlace
from riverui.features.sequences.verbs import place_tx

_ENDED = (JobState.CANCELLED, JobState.DISCARDED)
"""States in which a job may halt its sequence."""


def _in_sequence(facts: JobFacts, place: SequencePlace) -> Finding | None:
    """Return what comes before the job in its sequence, or what it blocks itself."""
    job, sequence = facts.job, f"its sequence {cut(place.key)}"
    if not place.ours:
        if job.state is not JobState.PENDING:
            return None
        return failed(
            f"It waits in {sequence}, which is River Pro’s: a client of River Pro makes it"
            " available when its turn comes."
        )
    if job.state in _ENDED:
        return _halts(job.state, place, job_id=job.id, sequence=sequence)
    if not place.waiting:
        return failed(
            f"It is pending, but has no place in the line of {sequence}: its row was changed."
            " A retry puts it back in line."
        )
    verb = "waits" if place.ahead == 1 else "wait"
    waiting = f" {capital(counted(place.ahead, 'other job', place.cap))} {verb}"
    if place.head_id is None:
        before = f"{waiting} before it." if place.ahead else ""
        evidence = (
            f"No job of {sequence} is running. The leader, a client of riverui, looks for the next"
            f" one every second.{before}"
        )
        return failed(evidence, Link(label="the workers", page="workers"))
    between = f"{waiting} between them." if place.ahead else ""
    if place.halted_at is not None:
        evidence = (
            f"{capital(sequence)} is halted: job {place.head_id}, which is before it, was"
            f" {place.head_state}. It continues once that job is retried, skipped or deleted."
        )
    elif place.head_state is None:
        evidence = (
            f"Job {place.head_id}, which was before it in {sequence}, was deleted. The leader, a"
            " client of riverui, lets the next one run within seconds."
        )
    else:
        evidence = (
            f"It waits for job {place.head_id} ({place.head_state}), which is before it in"
            f" {sequence}."
        )
    head = Link(label=f"job {place.head_id}", page="job", name=str(place.head_id))
    return failed(evidence + between, head)


def _halts(state: JobState, place: SequencePlace, *, job_id: int, sequence: str) -> Finding | None:
    """Return what an ended job blocks in its sequence."""
    if place.head_id == job_id and place.halted_at is not None:
        count = place.ahead + place.behind
        jobs = capital(counted(count, "job", place.cap))
        waits = f"{jobs} {'waits' if count == 1 else 'wait'} behind it"
        return failed(
            f"It halts {sequence}: it was {state.value}."
            f" {waits if count else 'Nothing waits behind it yet'}; the sequence continues once"
            " this job is retried, skipped or deleted."
        )
    if place.waiting:
        return failed(
            f"It was {state.value} while it waited in {sequence}, which halts when its turn comes,"
            " unless it is retried, skipped or deleted before."
        )
    return None


SEQUENCE = JobHold(
    name="sequence",
    label="Its sequence",
    after="state",
    states=(JobState.PENDING, *_ENDED),
    read=lambda executor, facts: place_tx(executor, facts.job),
    check=_in_sequence,
    pending="its sequence makes it available when its turn comes",
)
