"""A job's steps and attempts, derived from its row. What River does not store stays unknown."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from riverui.domain.jobs import FINALIZED, AttemptError, JobLog, JobShowRow, JobState
from riverui.domain.retries import NOT_TRIED_AGAIN
from riverui.web.view.bounds import Budget
from riverui.web.view.format import cancel_reason

RESCUE_ERROR = "Stuck job rescued by JobRescuer"
"""The error that River's rescuer writes for an attempt that it gives up."""

_NUMBER = re.compile(r"0x[0-9a-f]+|[0-9]+")
_SHAPE = 150
"""Characters of an error that are compared: lists of jobs show little more."""
_CANCEL_ERROR = "JobCancelError"
_INSTANT = timedelta(seconds=1)
"""Times closer together than this count as one: they come from several clocks."""
_LINES = 1_500
"""Most lines of one attempt's log, the last ones."""
_SHOWN = 100
"""Most attempts on the page, the newest: four times as many as River makes by default."""
_TEXTS = 300_000
"""Most bytes of markup of all errors, tracebacks and logs of a page together."""
_ERROR, _TRACE, _LOG = 60_000, 90_000, 200_000
"""Most bytes of markup of one of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One node of a job's timeline."""

    name: str
    """created, scheduled, waited, attempt, snoozed, retry, completed, discarded, cancelled,
    pending.
    """
    label: str
    state: str
    """done, active, waiting, failed, cancelled, todo; or unknown, if River stores no end of an
    attempt.
    """
    at: datetime | None
    """When it began, or is due."""
    span: timedelta | None
    """How long it took, or has taken since `at` if `ticking`."""
    ticking: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobAttempt:
    """One attempt; what River does not store is None, never an estimate."""

    number: int
    outcome: str
    """running, failed, completed, cancelled, discarded, snoozed or unknown."""
    started_at: datetime | None
    span: timedelta | None
    worker: str | None
    error: str | None
    trace: str
    log: str | None
    log_cut: bool
    error_cut: bool = False
    """Whether error or traceback were cut."""


def attempts(job: JobShowRow, now: datetime) -> tuple[JobAttempt, ...]:
    """Return the newest attempts that are recorded in the row or counted by it, the newest first.

    Long texts are cut so that all of them together fit into a page.
    """
    budget = Budget(_TEXTS)
    return tuple(_fitted(attempt, budget) for attempt in _attempts(job, now))


def grouped(attempts: Sequence[JobAttempt]) -> tuple[tuple[JobAttempt, ...], ...]:
    """Return attempts in groups: those in a row that failed with the same error, apart from its
    numbers, or of which nothing is known.
    """
    groups: list[list[JobAttempt]] = []
    for attempt in attempts:
        if groups and (alike := _alike(attempt)) and alike == _alike(groups[-1][0]):
            groups[-1].append(attempt)
        else:
            groups.append([attempt])
    return tuple(map(tuple, groups))


def _alike(attempt: JobAttempt) -> str:
    """Return a text that is the same for attempts of a group; empty for one that stands alone."""
    if attempt.error is not None:
        return f"error {shape(attempt.error)}"
    return "unknown" if attempt.outcome == "unknown" and attempt.log is None else ""


def shape(error: str) -> str:
    """Return the first line of an error without its numbers."""
    return _NUMBER.sub("0", error.partition("\n")[0][:_SHAPE])


def attempt_count(job: JobShowRow) -> int:
    """Return how many attempts are recorded in the row or counted by it."""
    odd = {number for number in _traced(job) if not 1 <= number <= job.attempt}
    return max(job.attempt, 0) + len(odd)


def _traced(job: JobShowRow) -> set[int]:
    last = _last_number(job)
    found = {error.attempt for error in job.errors} | {log.attempt for log in job.logs}
    return found if last is None else found | {last}


def _fitted(attempt: JobAttempt, budget: Budget) -> JobAttempt:
    error = None if attempt.error is None else budget.fit(attempt.error, _ERROR)
    trace = budget.fit(attempt.trace, _TRACE)
    log = None if attempt.log is None else budget.fit(attempt.log, _LOG, last=True)
    return replace(
        attempt,
        error=error,
        trace=trace,
        log=log,
        log_cut=attempt.log_cut or log != attempt.log,
        error_cut=error != attempt.error or trace != attempt.trace,
    )


def _attempts(job: JobShowRow, now: datetime) -> tuple[JobAttempt, ...]:
    errors: dict[int, list[AttemptError]] = defaultdict(list)
    for error in job.errors:
        errors[error.attempt].append(error)
    logs: dict[int, list[JobLog]] = defaultdict(list)
    for log in job.logs:
        logs[log.attempt].append(log)
    last = _last_number(job)
    counted = range(max(1, job.attempt - _SHOWN + 1), job.attempt + 1)
    numbers = {*counted, *_traced(job)}
    return tuple(
        _attempt(job, number, errors[number], logs[number], now, last=number == last)
        for number in sorted(numbers, reverse=True)[:_SHOWN]
    )


def steps(job: JobShowRow, now: datetime) -> tuple[Step, ...]:
    """Return the steps of a job from its insertion to its current one, and the next."""
    worked = tuple(reversed(_attempts(job, now)))
    first = next((attempt.started_at for attempt in worked if attempt.started_at), None)
    found = [Step(name="created", label="Created", state="done", at=job.created_at, span=None)]
    if job.state is JobState.PENDING:
        held = now - job.created_at
        found.append(
            Step(
                name="pending",
                label="Pending",
                state="waiting",
                at=job.created_at,
                span=held,
                ticking=True,
            )
        )
    elif not worked:
        found += _before_first(job, now)
    elif first:
        found.append(
            Step(name="waited", label="Waited", state="done", at=None, span=first - job.created_at)
        )
    for attempt in worked:
        found.append(_attempt_step(attempt))
    if worked and job.state not in FINALIZED and job.state is not JobState.RUNNING:
        found.append(_between(job, now))
    found.append(_end(job))
    return tuple(found)


def _last_number(job: JobShowRow) -> int | None:
    """Return the number of the attempt that `attempted_at` belongs to; None if unknown.

    A snooze or a stopping client decrements `attempt`, so the number is one more than the row's.
    """
    if job.attempted_at is None:
        return None
    if job.state is JobState.SCHEDULED or job.attempt == 0:
        return job.attempt + 1
    if job.state not in (JobState.AVAILABLE, JobState.PENDING) or _starts(job) == job.attempt:
        return job.attempt
    started = (error.at for error in job.errors if error.attempt == job.attempt and error.at)
    known = any(abs(at - job.attempted_at) < _INSTANT for at in started)
    return job.attempt if known else None


def _attempt(
    job: JobShowRow,
    number: int,
    errors: Sequence[AttemptError],
    logs: Sequence[JobLog],
    now: datetime,
    *,
    last: bool,
) -> JobAttempt:
    error = errors[-1] if errors else None
    started_at = job.attempted_at if last else None
    if started_at is None and error and error.error != RESCUE_ERROR:
        started_at = error.at
    outcome = _outcome(job, number, error, last=last)
    span = None
    if last and outcome == "running" and started_at:
        span = now - started_at
    elif (
        last
        and started_at
        and job.finalized_at
        and outcome in ("completed", "cancelled", "discarded")
    ):
        span = job.finalized_at - started_at
    lines = "\n".join(log.log.rstrip("\n") for log in logs).splitlines(keepends=True)
    return JobAttempt(
        number=number,
        outcome=outcome,
        started_at=started_at,
        span=max(span, timedelta(0)) if span is not None else None,
        worker=_worker(job, number, last=last),
        error=_words(error, outcome),
        trace=error.trace if error else "",
        log="".join(lines[-_LINES:]) if logs else None,
        log_cut=len(lines) > _LINES or any(len(log.log) < log.size for log in logs),
    )


def _words(error: AttemptError | None, outcome: str) -> str | None:
    """Return the error; of a cancelled attempt only the reason, as the page says that it was
    cancelled.
    """
    if error is None:
        return None
    return cancel_reason(error.error) if outcome == "cancelled" else error.error


def _outcome(job: JobShowRow, number: int, error: AttemptError | None, *, last: bool) -> str:
    taken_back = last and number > job.attempt
    if last and job.state is JobState.RUNNING:
        return "running"
    if taken_back:
        return "snoozed" if job.snoozes else "unknown"
    if last and job.state is JobState.COMPLETED:
        return "completed"
    if error is None:
        return "unknown"
    if last and job.state is JobState.CANCELLED and error.error.startswith(_CANCEL_ERROR):
        return "cancelled"
    # A job may also be discarded while it waits for its next attempt.
    ends = job.attempt >= job.max_attempts or NOT_TRIED_AGAIN in error.error
    return "discarded" if last and job.state is JobState.DISCARDED and ends else "failed"


def _worker(job: JobShowRow, number: int, *, last: bool) -> str | None:
    if last:
        return job.attempted_by[-1] if job.attempted_by else None
    # Each start adds an entry; its index is the attempt's number only if none was snoozed or
    # dropped.
    place = number - 1 - job.attempted_by_dropped
    if _starts(job) == job.attempt and 0 <= place < len(job.attempted_by):
        return job.attempted_by[place]
    return None


def _starts(job: JobShowRow) -> int:
    """Return how many entries `attempted_by` has in the row."""
    return len(job.attempted_by) + job.attempted_by_dropped


def _before_first(job: JobShowRow, now: datetime) -> list[Step]:
    found = []
    later = job.scheduled_at - job.created_at > _INSTANT
    due = job.scheduled_at <= now
    if later or job.state is JobState.SCHEDULED:
        found.append(
            Step(
                name="scheduled",
                label="Scheduled",
                state="done" if due else "waiting",
                at=job.scheduled_at,
                span=None,
            )
        )
    if job.state not in FINALIZED and due:
        waited = now - job.scheduled_at
        found.append(
            Step(
                name="waited",
                label="Waiting",
                state="waiting",
                at=job.scheduled_at,
                span=waited,
                ticking=True,
            )
        )
    return found


def _attempt_step(attempt: JobAttempt) -> Step:
    state = {
        "running": "active",
        "cancelled": "cancelled",
        "completed": "done",
        "snoozed": "done",
        "failed": "failed",
        "discarded": "failed",
    }
    return Step(
        name="snoozed" if attempt.outcome == "snoozed" else "attempt",
        label="Snoozed" if attempt.outcome == "snoozed" else f"Attempt {attempt.number}",
        state=state.get(attempt.outcome, "unknown"),
        at=attempt.started_at,
        span=attempt.span,
        ticking=attempt.outcome == "running",
    )


def _between(job: JobShowRow, now: datetime) -> Step:
    """Return the step of a job that waits after an attempt."""
    due = job.scheduled_at <= now
    if job.state is JobState.RETRYABLE:
        name, label = "retry", "Retry"
    elif job.state is JobState.PENDING:
        return Step(name="pending", label="Pending", state="waiting", at=None, span=None)
    else:
        name, label = ("waited", "Waiting") if due else ("scheduled", "Scheduled")
    return Step(
        name=name,
        label=label,
        state="waiting",
        at=job.scheduled_at,
        span=now - job.scheduled_at if due else None,
        ticking=due,
    )


def _end(job: JobShowRow) -> Step:
    if job.state not in FINALIZED:
        return Step(name="completed", label="Completed", state="todo", at=None, span=None)
    total = job.finalized_at - job.created_at if job.finalized_at else None
    note = ""
    if job.state is JobState.DISCARDED and '"unique_key_conflict"' in job.metadata.text:
        note = "another job with the same unique properties was active"
    return Step(
        name=job.state.value,
        label=job.state.value.capitalize(),
        state="failed" if job.state is JobState.DISCARDED else "done",
        at=job.finalized_at,
        span=total,
        note=note,
    )
