"""Why a job stands still, as far as the database tells."""

from __future__ import annotations

from datetime import datetime, timedelta

from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.queues import LeaderRow, QueueListRow, QueueRow
from riverui.errors import DatabaseError
from riverui.web.view.format import absolute, duration

_SILENT = timedelta(minutes=25)
"""Clients touch the row of a queue that they serve every 10 minutes; twice that and a little is
silence.
"""
_RESCUED_AFTER = timedelta(hours=1)
"""River's default for how long a job may run before the leader takes it for lost."""
_UNHEARD = timedelta(minutes=1)
"""How long a worker may take to end a job that it was asked to cancel, before that is remarkable.
"""
_LATE = timedelta(seconds=15)
"""The leader looks for due jobs every 5 seconds."""


def stuck(job: JobShowRow, queue: QueueRow | DatabaseError | None, now: datetime) -> str | None:
    """Why a running job looks stuck, in words; None when it does not. The queue may be an error
    that kept it from being read.
    """
    if job.state is not JobState.RUNNING or job.attempted_at is None:
        return None
    if job.cancel_attempted_at and (since := now - job.cancel_attempted_at) > _UNHEARD:
        return (
            f"Cancellation was requested {duration(since)} ago, but it is still running: "
            "its worker may be gone or not listening, or the job may be ignoring the cancellation."
        )
    running = now - job.attempted_at
    if silence := _silence(queue, now):
        return (
            f"{silence} The worker of this job may be gone; River's leader rescues such jobs after"
            " an hour."
        )
    if running > _RESCUED_AFTER:
        return (
            f"It has been running for {duration(running)}. Unless it has a long timeout of its own,"
            " its worker may be gone; River's leader rescues such jobs after an hour by default."
        )
    return None


def waiting(
    job: JobShowRow,
    queue: QueueListRow | DatabaseError | None,
    leader: LeaderRow | DatabaseError | None,
    now: datetime,
) -> str | None:
    """Why a waiting job is not worked yet, as far as the database tells; None when it is not
    waiting. Queue and leader may be errors that kept them from being read.
    """
    if job.state is JobState.PENDING:
        return (
            "River does not start pending jobs by itself: whatever inserted the job must release"
            " it, such as a workflow once its dependencies are done."
        )
    if job.state in (JobState.SCHEDULED, JobState.RETRYABLE):
        return _until_due(job, queue, leader, now)
    if job.state is not JobState.AVAILABLE:
        return None
    if job.scheduled_at > now:
        return f"It is due in {duration(job.scheduled_at - now)}."
    if hindrance := _hindrance(queue, now):
        return hindrance
    if queue is None or isinstance(queue, DatabaseError):
        return None
    others = max(0, queue.available - 1)
    ahead = f"{others:,} other jobs are waiting" if others != 1 else "1 other job is waiting"
    running = f"{queue.running:,} are running" if queue.running != 1 else "1 is running"
    return (
        f"{ahead} in this queue and {running}. The lowest priority number goes first, then the"
        " earliest."
    )


def _until_due(
    job: JobShowRow,
    queue: QueueListRow | DatabaseError | None,
    leader: LeaderRow | DatabaseError | None,
    now: datetime,
) -> str:
    reason = "It will be retried" if job.state is JobState.RETRYABLE else "It is due"
    led = isinstance(leader, LeaderRow) and leader.expires_at > now
    if job.scheduled_at > now:
        text = f"{reason} in {duration(job.scheduled_at - now)}."
    else:
        late = now - job.scheduled_at
        text = (
            f"It was due {duration(late)} ago, and becomes available when River's leader next"
            " checks."
        )
        if led and late > _LATE:
            text = (
                f"It was due {duration(late)} ago, but River's leader has not made it available"
                " yet."
            )
    if not led and not isinstance(leader, DatabaseError):
        text += (
            " There is no leader at the moment, and only the leader makes scheduled jobs available."
        )
    hindrance = _hindrance(queue, now)
    return f"{text} {hindrance}" if hindrance else text


def _hindrance(queue: QueueListRow | DatabaseError | None, now: datetime) -> str:
    """What keeps the whole queue from being worked."""
    if isinstance(queue, DatabaseError):
        return ""
    if queue is None:
        return "No client has ever served its queue."
    if queue.queue.paused_at:
        return f"Its queue has been paused since {absolute(queue.queue.paused_at)}."
    return _silence(queue.queue, now)


def _silence(queue: QueueRow | DatabaseError | None, now: datetime) -> str:
    if queue is None or isinstance(queue, DatabaseError):
        return ""
    if queue.updated_at is None:
        return "No client has ever served its queue."
    silent = now - queue.updated_at
    if silent > _SILENT:
        return f"No client has served its queue for {duration(silent)}."
    return ""
