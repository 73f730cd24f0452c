"""Jobs that run in an order: what a job waits for in its workflow or its sequence."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.domain.explain.facts import JobFacts
from riverui.domain.findings import Finding, Link, capital, cut, failed, known, listed
from riverui.domain.jobs import JobState
from riverui.domain.text import counted
from riverui.features.sequences.domain import SequencePlace
from riverui.features.workflows.domain.pages import FAILED_TASKS, TaskNeighbour

_NAMED = 3
"""Tasks of a workflow that are named; the others are counted."""
_ENDED = (JobState.CANCELLED, JobState.DISCARDED)
"""States in which a job may halt its sequence."""


def in_workflow(facts: JobFacts) -> Finding | None:
    """Return what the tasks are doing that the job waits for as a task of a workflow."""
    state = facts.job.state
    if facts.workflow is None or state not in (JobState.PENDING, JobState.CANCELLED):
        return None
    place = known(facts.workflow)
    workflow = f"its workflow {cut(place.workflow_name or place.workflow_id)}"
    link = Link(label="the workflow", page="workflow", name=place.workflow_id)
    if state is JobState.CANCELLED:
        ended = [task for task in place.unfinished if task.state in FAILED_TASKS]
        if not ended:
            return None
        verb = "has" if len(ended) == 1 else "have"
        tasks = _tasks(ended, len(ended))
        return failed(f"{tasks} of {workflow} {verb} failed, and it waited for that.", link)
    if place.unfinished:
        count = max(place.waits_for, len(place.unfinished))
        return failed(f"It waits for {_tasks(place.unfinished, count)} of {workflow}.", link)
    if place.state == "wait":
        evidence = (
            "The tasks that it waits for have completed. It still waits for its own terms in"
            f" {workflow}: signals, timers or conditions."
        )
    else:
        evidence = (
            f"All that it waits for in {workflow} has completed: it becomes available when a client"
            " that knows workflows looks next."
        )
    return failed(evidence, link)


def _tasks(tasks: Sequence[TaskNeighbour], count: int) -> str:
    """Return the first tasks by name with their states, and how many more there are."""
    named = [f"“{cut(task.name)}” ({task.state})" for task in tasks[:_NAMED]]
    more = [counted(count - len(named), "more task")] if count > len(named) else []
    return listed([*named, *more])


def in_sequence(facts: JobFacts) -> Finding | None:
    """Return what comes before the job in its sequence, or what it holds up itself."""
    job = facts.job
    if facts.sequence is None or job.state not in (JobState.PENDING, *_ENDED):
        return None
    place = known(facts.sequence)
    sequence = f"its sequence {cut(place.key)}"
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
            f"It is pending, but has no place in the line of {sequence}: somebody changed its row."
            " A retry puts it back in line."
        )
    verb = "waits" if place.ahead == 1 else "wait"
    waiting = f" {capital(counted(place.ahead, 'other job', place.cap))} {verb}"
    if place.head_id is None:
        before = f"{waiting} before it." if place.ahead else ""
        evidence = (
            f"No job of {sequence} is at work. The leader, a client of riverui, looks for the next"
            f" one every second.{before}"
        )
        return failed(evidence, Link(label="the workers", page="workers"))
    between = f"{waiting} between them." if place.ahead else ""
    if place.halted_at is not None:
        evidence = (
            f"{capital(sequence)} is halted: job {place.head_id}, which stands before it, was"
            f" {place.head_state}. It goes on once that job is retried, skipped or deleted."
        )
    elif place.head_state is None:
        evidence = (
            f"Job {place.head_id}, which stood before it in {sequence}, is gone. The leader, a"
            " client of riverui, lets the next one run within seconds."
        )
    else:
        evidence = (
            f"It waits for job {place.head_id} ({place.head_state}), which stands before it in"
            f" {sequence}."
        )
    head = Link(label=f"job {place.head_id}", page="job", name=str(place.head_id))
    return failed(evidence + between, head)


def _halts(state: JobState, place: SequencePlace, *, job_id: int, sequence: str) -> Finding | None:
    """Return what an ended job holds up in its sequence."""
    if place.head_id == job_id and place.halted_at is not None:
        count = place.ahead + place.behind
        jobs = capital(counted(count, "job", place.cap))
        waits = f"{jobs} {'waits' if count == 1 else 'wait'} behind it"
        return failed(
            f"It halts {sequence}: it was {state.value}."
            f" {waits if count else 'Nothing waits behind it yet'}; the sequence goes on once this"
            " job is retried, skipped or deleted."
        )
    if place.waiting:
        return failed(
            f"It was {state.value} while it waited in {sequence}, which halts when its turn comes,"
            " unless it is retried, skipped or deleted before."
        )
    return None
