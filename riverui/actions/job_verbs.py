"""The verbs on jobs, one record each."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import FINALIZED, WAITING, JobState
from riverui.storage.interface.job_actions import SkipReason

RETRY = JobVerb(
    name="retry",
    label="Retry",
    labels={JobState.RETRYABLE: "Retry now", JobState.SCHEDULED: "Retry now"},
    icon="rotate-cw",
    key="r",
    tone="primary",
    fits=frozenset({JobState.SCHEDULED, JobState.RETRYABLE} | FINALIZED),
    call=lambda executor, ids, given: executor.job_retry_many(ids),
    done="retried",
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
    call=lambda executor, ids, given: executor.job_cancel_many(ids),
    done="cancelled",
    changed="{jobs} cancelled",
    effect=(
        "It will no longer be worked. Running jobs are asked to stop.",
        "They will no longer be worked. Running jobs are asked to stop.",
    ),
    summary="Cancels jobs, all or none; running ones are asked to stop.",
    allows="cancel jobs",
)

DELETE = JobVerb(
    name="delete",
    label="Delete",
    icon="trash-2",
    key="d",
    tone="danger",
    fits=frozenset(JobState) - {JobState.RUNNING},
    call=lambda executor, ids, given: executor.job_delete_many(ids),
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

JOB_VERBS: Mapping[str, JobVerb] = {verb.name: verb for verb in (RETRY, CANCEL, DELETE)}
"""Every verb on jobs by its name, in the order of their buttons."""

SKIPPED: Mapping[SkipReason, str] = {
    SkipReason.NOT_FOUND: "not found",
    SkipReason.RUNNING: "still running",
    SkipReason.FINALIZED: "already finished",
    SkipReason.ALREADY_AVAILABLE: "already available",
    SkipReason.UNIQUE_CONFLICT: "another active job has the same unique properties",
    SkipReason.LOCKED: "locked by another transaction; try again in a moment",
}
"""Why a verb left a job as it was, in words."""
