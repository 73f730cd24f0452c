"""The verbs on jobs, one record each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riverui.actions.verbs import Given, JobVerb, VerbParameter
from riverui.domain.jobs import FINALIZED, WAITING, JobState
from riverui.domain.values import MAX_QUEUE_NAME_BYTES, is_queue_name
from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import SkipReason

RETRY = JobVerb(
    name="retry",
    label="Retry",
    labels={JobState.RETRYABLE: "Retry now", JobState.SCHEDULED: "Retry now"},
    icon="rotate-cw",
    key="r",
    tone="primary",
    fits=frozenset({JobState.SCHEDULED, JobState.RETRYABLE} | FINALIZED),
    # Otherwise completed jobs would run twice, and scheduled ones too early.
    unnamed=frozenset({JobState.RETRYABLE, JobState.DISCARDED, JobState.CANCELLED}),
    call=lambda executor, ids, given: executor.jobs.retry_many(ids),
    reruns=True,
    done="retried",
    refuses={
        SkipReason.SEQUENCE: "Job {id} is in a sequence of River Pro, in which riverui"
        " run it again in its turn: retry it with a River Pro client.",
    },
    changed="{jobs} will run again now",
    effect=("It becomes available at once.", "They become available at once."),
    summary="Makes jobs available now, all or none; 409 if a unique job conflicts.",
    allows="retry jobs",
    fails=(404, 409),
)

CANCEL = JobVerb(
    name="cancel",
    label="Cancel",
    icon="ban",
    key="c",
    fits=frozenset({JobState.RUNNING} | WAITING),
    call=lambda executor, ids, given: executor.jobs.cancel_many(ids),
    done="cancelled",
    changed="{jobs} cancelled",
    effect=(
        "It will no longer be worked. Running jobs are asked to stop.",
        "They will no longer be worked. Running jobs are asked to stop.",
    ),
    summary="Cancels jobs, all or none; running ones are asked to stop.",
    allows="cancel jobs",
)


async def _served_queues(executor: Executor) -> Sequence[str]:
    rows = await executor.queues.row_list(limit=100)
    return [row.name for row in rows if is_queue_name(row.name)]


async def _queue_warning(executor: Executor, given: Given) -> str:
    """Return why jobs would not run in the queue that they are moved to; empty if they would."""
    if "queue" not in given:
        return ""
    row = await executor.queues.row_get(str(given["queue"]))
    if row is None:
        return (
            f"No client has served queue {given['queue']} recently: jobs wait there until one does."
        )
    if row.paused_at is not None:
        return f"Queue {row.name} is paused: jobs wait there until it is resumed."
    return ""


MOVE = JobVerb(
    name="move",
    label="Move",
    icon="inbox",
    key="m",
    fits=WAITING,
    call=lambda executor, ids, given: executor.jobs.move_many(ids, **given),
    parameters=(
        VerbParameter(
            name="queue",
            label="Queue",
            hint="as it is",
            refusal=(
                "The queue's name must be lower-case letters and digits, in between single"
                f" underscores, hyphens or bars; at most {MAX_QUEUE_NAME_BYTES} characters."
            ),
            max_length=MAX_QUEUE_NAME_BYTES,
            accepts=is_queue_name,
            suggest=_served_queues,
        ),
        VerbParameter(
            name="priority",
            label="Priority",
            hint="as it is",
            refusal="The priority must be a whole number from 1 (worked first) to 4.",
            numbers=range(1, 5),
        ),
    ),
    caution=_queue_warning,
    done="moved",
    changed="{jobs} moved to {given}",
    effect=(
        "Only a job that waits is moved: one that is running or has finished is skipped.",
        "Only jobs that wait are moved: running and finished ones are skipped.",
    ),
    refuses={
        SkipReason.RUNNING: "Job {id} is running: only jobs that wait can be moved.",
        SkipReason.FINALIZED: "Job {id} has finished: only jobs that wait can be moved.",
    },
    summary="Moves waiting jobs to another queue or priority, all or none; 400 if one runs or has"
    " finished.",
    allows="move jobs to other queues and priorities",
    extension=True,
)

DELETE = JobVerb(
    name="delete",
    label="Delete",
    icon="trash-2",
    key="d",
    tone="danger",
    fits=frozenset(JobState) - {JobState.RUNNING},
    call=lambda executor, ids, given: executor.jobs.delete_many(ids),
    done="deleted",
    changed="{jobs} deleted",
    confirms=True,
    removes=True,
    effect=(
        "It is removed from the database, with args, errors and logs. This cannot be undone."
        " Running jobs are skipped.",
        "They are removed from the database, with their args, errors and logs. This cannot be"
        " undone. Running jobs are skipped.",
    ),
    refuses={SkipReason.RUNNING: "Job {id} is running and can't be deleted until it finishes."},
    summary="Deletes jobs, all or none; 400 if one is running.",
    allows="delete jobs",
)

JOB_VERBS: Mapping[str, JobVerb] = {verb.name: verb for verb in (RETRY, CANCEL, MOVE, DELETE)}
"""Every verb on jobs by its name, in the order of their buttons."""

SKIPPED: Mapping[SkipReason, str] = {
    SkipReason.NOT_FOUND: "not found",
    SkipReason.RUNNING: "still running",
    SkipReason.FINALIZED: "already finished",
    SkipReason.ALREADY_AVAILABLE: "already available",
    SkipReason.UNCHANGED: "already there",
    SkipReason.UNIQUE_CONFLICT: "another active job has the same unique properties",
    SkipReason.LOCKED: "locked by another transaction; try again in a moment",
    SkipReason.SEQUENCE: "in a sequence of River Pro; retry it with a River Pro client",
    SkipReason.KEPT: "a dead letter has the same id; delete it first",
    SkipReason.WORKFLOW: "a task whose workflow has continued without it; retry the dead letter",
}
"""Why a verb skipped a job, in words."""
