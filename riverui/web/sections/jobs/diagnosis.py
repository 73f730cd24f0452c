"""Tells why a job stands still, as far as the database knows."""

from __future__ import annotations

from datetime import datetime

from riverui.domain import explain
from riverui.domain.job_facts import Unread
from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.queues import LeaderRow, QueueListRow, QueueRow
from riverui.errors import DatabaseError
from riverui.web.view.format import absolute, duration


def stuck(job: JobShowRow, queue: QueueRow | DatabaseError | None, now: datetime) -> str | None:
    """Return why a running job looks stuck, in words; None when it does not.

    `queue` is None where the queue has no row, and an error where it could not be read.
    """
    found = Unread(why=queue.public) if isinstance(queue, DatabaseError) else queue
    return explain.stuck(job, found, now)


def waiting(
    job: JobShowRow,
    queue: QueueListRow | DatabaseError | None,
    leader: LeaderRow | DatabaseError | None,
    now: datetime,
) -> str | None:
    """Return why a waiting job is not worked yet, in words; None when it is not waiting, or when
    its queue could not be read.

    `queue` and `leader` are None where they have no row, and errors where they could not be read.
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
    """Return when a scheduled or retryable job is due, and what keeps it from being worked then."""
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
        if led and late > explain.LATE_AFTER:
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
    """Return what keeps the whole queue from being worked; empty where nothing is known to."""
    if isinstance(queue, DatabaseError):
        return ""
    if queue is None:
        return "No client has ever served its queue."
    if queue.queue.paused_at:
        return f"Its queue has been paused since {absolute(queue.queue.paused_at)}."
    return _silence(queue.queue, now)


def _silence(queue: QueueRow | DatabaseError | None, now: datetime) -> str:
    """Return how long nobody has served the queue; empty where somebody does."""
    if queue is None or isinstance(queue, DatabaseError):
        return ""
    if queue.updated_at is None:
        return "No client has ever served its queue."
    silent = now - queue.updated_at
    if silent > explain.SILENT_AFTER:
        return f"No client has served its queue for {duration(silent)}."
    return ""
