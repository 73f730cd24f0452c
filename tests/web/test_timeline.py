"""What a row tells of a job's life, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.domain.explain.explanation import stuck
from riverui.domain.jobs import AttemptError, JobLog, JobShowRow, JobState, JsonText
from riverui.domain.queues import QueueRow
from riverui.web.view import timeline
from tests.cases import cases

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EMPTY = JsonText(text="{}", size=2)


def row(state: JobState, **changes: Any) -> JobShowRow:
    ended = state in (JobState.COMPLETED, JobState.CANCELLED, JobState.DISCARDED)
    plain = JobShowRow(
        id=1,
        state=state,
        attempt=0,
        max_attempts=25,
        attempted_at=None,
        created_at=NOW - 10 * MINUTE,
        finalized_at=NOW - MINUTE if ended else None,
        scheduled_at=NOW - 10 * MINUTE,
        priority=1,
        args=EMPTY,
        attempted_by=(),
        errors=(),
        kind="mail",
        metadata=EMPTY,
        output=None,
        logs=(),
        queue="default",
        tags=(),
        unique_key=None,
        unique_states=(),
        cancel_attempted_at=None,
        snoozes=0,
        rescues=0,
    )
    return replace(plain, **changes)


def error(attempt: int, ago: timedelta, text: str = "boom") -> AttemptError:
    return AttemptError(at=NOW - ago, attempt=attempt, error=text, trace="")


def names(job: JobShowRow) -> list[tuple[str, str]]:
    return [(step.name, step.state) for step in timeline.steps(job, NOW)]


def test_a_job_that_waits_for_its_first_attempt() -> None:
    job = row(JobState.AVAILABLE)
    assert names(job) == [("created", "done"), ("waited", "waiting"), ("completed", "todo")]
    waited = timeline.steps(job, NOW)[1]
    assert (waited.span, waited.ticking, waited.at) == (10 * MINUTE, True, job.scheduled_at)
    assert timeline.attempts(job, NOW) == ()


def test_a_job_that_is_due_later() -> None:
    job = row(JobState.SCHEDULED, scheduled_at=NOW + MINUTE)
    assert names(job) == [("created", "done"), ("scheduled", "waiting"), ("completed", "todo")]


def test_a_pending_job() -> None:
    assert names(row(JobState.PENDING)) == [
        ("created", "done"),
        ("pending", "waiting"),
        ("completed", "todo"),
    ]


def test_a_running_job() -> None:
    job = row(JobState.RUNNING, attempt=1, attempted_at=NOW - 2 * MINUTE, attempted_by=("a",))
    assert names(job) == [
        ("created", "done"),
        ("waited", "done"),
        ("attempt", "active"),
        ("completed", "todo"),
    ]
    [attempt] = timeline.attempts(job, NOW)
    assert (attempt.outcome, attempt.span, attempt.worker) == ("running", 2 * MINUTE, "a")
    assert timeline.steps(job, NOW)[1].span == 8 * MINUTE


def test_attempts_of_a_job_that_failed_twice_and_then_worked() -> None:
    job = row(
        JobState.COMPLETED,
        attempt=3,
        attempted_at=NOW - 3 * MINUTE,
        attempted_by=("a", "b", "c"),
        errors=(error(1, 8 * MINUTE), error(2, 6 * MINUTE, "again\nmore")),
        logs=(
            JobLog(attempt=2, log="one\n", size=4),
            JobLog(attempt=2, log="two", size=900),
            JobLog(attempt=3, log="x", size=1),
        ),
    )
    third, second, first = timeline.attempts(job, NOW)
    assert [attempt.number for attempt in (first, second, third)] == [1, 2, 3]
    assert [attempt.outcome for attempt in (first, second, third)] == [
        "failed",
        "failed",
        "completed",
    ]
    assert [attempt.worker for attempt in (first, second, third)] == ["a", "b", "c"]
    assert (third.span, second.span) == (2 * MINUTE, None)
    assert second.started_at == NOW - 6 * MINUTE
    assert (second.log, second.log_cut, third.log_cut) == ("one\ntwo", True, False)
    steps = timeline.steps(job, NOW)
    assert steps[-1].name == "completed"
    assert steps[-1].span == 9 * MINUTE


def test_attempts_of_the_same_error_are_a_group() -> None:
    job = row(
        JobState.RETRYABLE,
        attempt=6,
        attempted_at=NOW - MINUTE,
        errors=(
            error(1, 9 * MINUTE, "timeout after 30.02 s"),
            error(2, 8 * MINUTE, "timeout after 29.9 s"),
            error(3, 7 * MINUTE, "refused"),
            error(6, MINUTE, "timeout after 31 s"),
        ),
        scheduled_at=NOW + MINUTE,
    )
    groups = timeline.grouped(timeline.attempts(job, NOW))
    assert [[attempt.number for attempt in group] for group in groups] == [[6], [5, 4], [3], [2, 1]]


def test_a_retryable_job_waits_for_its_next_attempt() -> None:
    job = row(
        JobState.RETRYABLE,
        attempt=1,
        attempted_at=NOW - MINUTE,
        attempted_by=("a",),
        errors=(error(1, MINUTE),),
        scheduled_at=NOW + MINUTE,
    )
    assert names(job)[-3:] == [("attempt", "failed"), ("retry", "waiting"), ("completed", "todo")]
    assert timeline.steps(job, NOW)[-2].at == NOW + MINUTE


def test_a_snoozed_job_has_one_attempt_more_than_its_row_counts() -> None:
    job = row(
        JobState.SCHEDULED,
        attempted_at=NOW - MINUTE,
        attempted_by=("a",),
        snoozes=1,
        scheduled_at=NOW + MINUTE,
    )
    [attempt] = timeline.attempts(job, NOW)
    assert (attempt.number, attempt.outcome, attempt.worker) == (1, "snoozed", "a")
    assert ("snoozed", "done") in names(job)


def test_what_the_row_does_not_tell_is_not_guessed() -> None:
    # Completed once, then retried by hand: nothing says what became of the first attempt.
    job = row(JobState.AVAILABLE, attempt=1, attempted_at=NOW - MINUTE, attempted_by=("a",))
    [attempt] = timeline.attempts(job, NOW)
    assert (attempt.outcome, attempt.span, attempt.started_at) == ("unknown", None, NOW - MINUTE)
    assert ("attempt", "unknown") in names(job)
    # A snooze in between: whose time is attempted_at?
    job = row(
        JobState.AVAILABLE,
        attempt=2,
        attempted_at=NOW - MINUTE,
        attempted_by=("a", "b", "c"),
        snoozes=1,
    )
    assert [attempt.started_at for attempt in timeline.attempts(job, NOW)] == [None, None]
    assert [attempt.worker for attempt in timeline.attempts(job, NOW)] == [None, None]
    # Cancelled while it waited to be tried again: its end is not the end of the attempt.
    job = row(
        JobState.CANCELLED,
        attempt=1,
        attempted_at=NOW - 5 * MINUTE,
        attempted_by=("a",),
        errors=(error(1, 5 * MINUTE),),
    )
    [attempt] = timeline.attempts(job, NOW)
    assert (attempt.outcome, attempt.span) == ("failed", None)


def test_a_job_cancelled_at_work_and_one_discarded_at_last() -> None:
    at_work = row(
        JobState.CANCELLED,
        attempt=1,
        attempted_at=NOW - 2 * MINUTE,
        attempted_by=("a",),
        errors=(error(1, 2 * MINUTE, "JobCancelError: job cancelled remotely"),),
    )
    [attempt] = timeline.attempts(at_work, NOW)
    assert (attempt.outcome, attempt.span) == ("cancelled", MINUTE)
    assert attempt.error == "job cancelled remotely"
    step = next(step for step in timeline.steps(at_work, NOW) if step.name == "attempt")
    assert step.state == "cancelled"
    discarded = replace(
        at_work, state=JobState.DISCARDED, max_attempts=1, errors=(error(1, 2 * MINUTE),), rescues=1
    )
    [attempt] = timeline.attempts(discarded, NOW)
    assert (attempt.outcome, attempt.span) == ("discarded", MINUTE)
    assert names(discarded)[-1] == ("discarded", "failed")
    words = "ValueError: x\nNot tried again: its Retry never tries ValueError again"
    early = replace(discarded, max_attempts=25, errors=(error(1, 2 * MINUTE, words),))
    [attempt] = timeline.attempts(early, NOW)
    assert (attempt.outcome, attempt.error) == ("discarded", words)


def test_a_rescue_tells_when_it_came_and_not_when_the_attempt_began() -> None:
    job = row(
        JobState.RUNNING,
        attempt=2,
        attempted_at=NOW - MINUTE,
        attempted_by=("a", "b"),
        errors=(error(1, 3 * MINUTE, timeline.RESCUE_ERROR),),
    )
    assert timeline.attempts(job, NOW)[1].started_at is None


def test_a_unique_conflict_of_the_scheduler_is_told() -> None:
    job = row(
        JobState.DISCARDED,
        metadata=JsonText(text='{"unique_key_conflict": "scheduler_discarded"}', size=44),
    )
    assert "same unique properties" in timeline.steps(job, NOW)[-1].note


def test_odd_rows_break_nothing() -> None:
    for state in JobState:
        for attempt in (0, 1, 3, 32_767):
            for attempted_at in (None, NOW + MINUTE, datetime.min.replace(tzinfo=UTC)):
                job = row(
                    state,
                    attempt=attempt,
                    attempted_at=attempted_at,
                    created_at=datetime.max.replace(tzinfo=UTC),
                    scheduled_at=datetime.max.replace(tzinfo=UTC),
                    errors=(
                        AttemptError(at=None, attempt=-5, error="", trace=""),
                        error(99, MINUTE),
                    ),
                    logs=(JobLog(attempt=0, log="", size=0),),
                    snoozes=7,
                )
                assert timeline.steps(job, NOW)
                assert len(timeline.attempts(job, NOW)) <= 1_010
                stuck(job, None, NOW)


def test_why_a_running_job_looks_stuck() -> None:
    served = QueueRow(
        name="default",
        created_at=NOW - 100 * MINUTE,
        metadata=EMPTY,
        paused_at=None,
        updated_at=NOW - 5 * MINUTE,
    )
    asked = {"attempted_at": NOW - 3 * MINUTE, "cancel_attempted_at": NOW - 2 * MINUTE}
    silent = replace(served, updated_at=NOW - 60 * MINUTE)
    table: list[tuple[dict[str, Any], QueueRow, str]] = [
        ({"attempted_at": NOW - MINUTE}, served, ""),
        ({"attempted_at": NOW - 90 * MINUTE}, served, "running for 1 h 30 m"),
        (asked, served, "requested 2 m 0 s ago"),
        ({"attempted_at": NOW - MINUTE}, silent, "may have died"),
        ({"attempted_at": None}, served, ""),
    ]
    with cases() as case:
        for changes, queue, words in table:
            with case(words or changes):
                why = stuck(row(JobState.RUNNING, attempt=1, **changes), queue, NOW)
                assert words in (why or "")
                assert bool(why) is bool(words)
