"""Reads for the front page and the API's overview: queues, running and failed jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.requests import Request

from riverui.domain.jobs import JobListRow, JobState
from riverui.domain.queues import QueueListRow, QueueMinute
from riverui.errors import DatabaseError
from riverui.features.figures.reader.figure_reader import promptly
from riverui.features.incidents.watch import INCIDENTS
from riverui.storage.interface import Executor
from riverui.storage.interface.params import JobFilter, JobOrder, JobPageParams
from riverui.web.api.diagnoses import HealthReportAnswer
from riverui.web.http.context import access, dashboard
from riverui.web.view.facts import fact
from riverui.web.view.finding_links import page_url

QUEUES_READ = 201
"""Most queues to read: as many as the list of queues shows, and one more."""
QUEUE_CAP = 1_000
"""Counts of one queue are exact up to this number, as in the list of queues."""
_JOBS = 20
"""Most running jobs, and most failed jobs, in an answer: more than a terminal shows."""
_MINUTES = 5
"""Minutes over which a queue's pace is averaged: enough to be steady, few enough to be current."""


def queue_cap(request: Request) -> int:
    """Return the number up to which counts of one queue are exact."""
    return min(dashboard(request).config.count_cap, QUEUE_CAP)


async def health_answer(request: Request) -> HealthReportAnswer:
    """Return the health report with the open incidents."""
    watch = dashboard(request).get(INCIDENTS)
    opened = await watch.open()
    address = partial(page_url, request)
    return HealthReportAnswer.from_report(await watch.report.get(), opened.incidents, address)


async def queue_rows(request: Request) -> Sequence[QueueListRow] | DatabaseError | None:
    """Return at most `QUEUES_READ` queues; the error if they cannot be read; None for viewers
    without the right to see queues.
    """
    if not access(request).may("queues.read"):
        return None
    cap = queue_cap(request)
    return await fact(
        dashboard(request).driver,
        lambda executor: executor.queues.list(cap=cap, limit=QUEUES_READ),
    )


async def queue_paces(request: Request) -> Mapping[str, float]:
    """Return the average number of jobs ended per minute in each queue, where known."""
    board = dashboard(request)
    if not board.config.charts:
        return {}
    minutes = await promptly(board.figures.read_queues()) or {}
    paces = {name: _pace(known[:-1][-_MINUTES:]) for name, known in minutes.items()}
    return {name: pace for name, pace in paces.items() if pace is not None}


async def running_jobs(request: Request) -> Sequence[JobListRow] | DatabaseError:
    """Return the jobs that have been running longest."""
    running = JobFilter(states=(JobState.RUNNING,))
    params = JobPageParams(filter=running, order=JobOrder.TIME, limit=_JOBS)
    found = await fact(dashboard(request).driver, lambda executor: executor.jobs.list(params))
    return found if isinstance(found, DatabaseError) else found.rows


async def failed_jobs(request: Request) -> Sequence[JobListRow] | DatabaseError:
    """Return the jobs discarded last and the newest retryable ones, latest failure first."""
    return await fact(dashboard(request).driver, _failed)


async def _failed(executor: Executor) -> Sequence[JobListRow]:
    rows: list[JobListRow] = []
    # No index covers the time of the last attempt; these two orders stay cheap with many failures.
    for state, order in (
        (JobState.DISCARDED, JobOrder.TIME_DESC),
        (JobState.RETRYABLE, JobOrder.ID_DESC),
    ):
        params = JobPageParams(filter=JobFilter(states=(state,)), order=order, limit=_JOBS)
        rows += (await executor.jobs.list(params)).rows
    rows.sort(key=lambda row: row.attempted_at or row.matters_at, reverse=True)
    return rows[:_JOBS]


def _pace(minutes: Sequence[QueueMinute | None]) -> float | None:
    known = [minute.ended for minute in minutes if minute is not None]
    return sum(known) / len(known) if known else None
