"""A job's workflow as a reason why it is not running."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.actions.explain import JobHold
from riverui.domain.explain.facts import JobFacts
from riverui.domain.findings import Finding, Link, cut, failed, listed
from riverui.domain.jobs import JobState
from riverui.domain.text import counted
from riverui.features.workflows.domain.pages import FAILED_TASKS, TaskNeighbour, TaskPlace
from riverui.features.workflows.verbs.workflows import place_tx

_NAMED = 3
"""Most tasks of a workflow that are named; the others are counted."""


def _in_workflow(facts: JobFacts, place: TaskPlace) -> Finding | None:
    """Return the state of the tasks that the job waits for in its workflow."""
    workflow = f"its workflow {cut(place.workflow_name or place.workflow_id)}"
    link = Link(label="the workflow", page="workflow", name=place.workflow_id)
    if facts.job.state is JobState.CANCELLED:
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
            " that supports workflows looks next."
        )
    return failed(evidence, link)


def _tasks(tasks: Sequence[TaskNeighbour], count: int) -> str:
    """Return the first tasks by name with their states, and how many more there are."""
    named = [f"“{cut(task.name)}” ({task.state})" for task in tasks[:_NAMED]]
    more = [counted(count - len(named), "more task")] if count > len(named) else []
    return listed([*named, *more])


WORKFLOW = JobHold(
    name="workflow",
    label="Its workflow",
    after="state",
    states=(JobState.PENDING, JobState.CANCELLED),
    read=lambda executor, facts: place_tx(executor, facts.job),
    check=_in_workflow,
    pending="its workflow makes it available",
)
