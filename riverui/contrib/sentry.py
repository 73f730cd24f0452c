"""Report errors of jobs, missed periodic jobs, and traces across inserts to Sentry.

Needs the extra `sentry`, and `sentry_sdk.init(…)` in the program itself. Spans and attributes have
the names of Sentry's Queues page.
"""

from __future__ import annotations

import logging
import re
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import sentry_sdk
from sentry_sdk.consts import OP, SPANDATA, SPANSTATUS
from sentry_sdk.crons import MonitorStatus, capture_checkin
from sentry_sdk.tracing import BAGGAGE_HEADER_NAME, SENTRY_TRACE_HEADER_NAME, TransactionSource
from sentry_sdk.utils import event_from_exception

from riverui.domain.json import read_object
from riverui.domain.schedules import CronSchedule, PeriodicInterval, Schedule
from riverui.engine.hooks import DoInner, Plugin
from riverui.engine.work.context import is_last_attempt
from riverui.engine.work.worker import JobCancel, JobSnooze

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sentry_sdk._types import MonitorConfig
    from sentry_sdk.tracing import Span

    from riverui.domain.jobs import JobRow
    from riverui.engine.insert.insert_opts import InsertRequest
    from riverui.engine.lead.periodic import PeriodicJob
    from riverui.storage.interface.engine_params import InsertResult

_HEADERS = (SENTRY_TRACE_HEADER_NAME, BAGGAGE_HEADER_NAME)
"""The metadata keys with the trace of a job's insert."""
_MAX_ARGS = 8_192
"""Maximum characters of args in a report: Sentry's limit."""
_MAX_SLUG = 50
"""Maximum characters of a monitor's name: Sentry's limit."""
_ORIGIN = "auto.queue.riverui"
_PERIODIC_ID = "river:periodic_job_id"
_UNITS: Sequence[tuple[Literal["day", "hour", "minute"], int]] = (
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)
"""Sentry's units for intervals of monitors, with their seconds."""


class SentryPlugin(Plugin):
    """Reports failed attempts with their job, its log as breadcrumbs, and a trace that continues
    that of the insert.

    Every failed attempt is an error; with `only_last_attempts` only those after which the job is
    discarded. JobSnooze, JobCancel and interruptions by a stop are not errors. `send_args` reports
    the job's args too, which may be personal or secret. `dashboard_url`
    (`https://jobs.example/riverui`) adds a link to the job's page. `propagate_traces` stores
    `sentry-trace` and `baggage` in the metadata of inserted jobs.

    `periodic_jobs`, the same list as the client's, creates a cron monitor for each with an id:
    attempts are check-ins, and Sentry reports missed ones. Intervals that are not whole minutes
    have no monitor, as Sentry does not support them.
    """

    def __init__(
        self,
        *,
        dashboard_url: str | None = None,
        only_last_attempts: bool = False,
        periodic_jobs: Iterable[PeriodicJob] = (),
        propagate_traces: bool = True,
        send_args: bool = False,
    ) -> None:
        self._dashboard_url = dashboard_url.rstrip("/") if dashboard_url else None
        self._monitors = {
            job.id: monitor
            for job in periodic_jobs
            if job.id is not None and (monitor := monitor_config(job.schedule)) is not None
        }
        self._only_last_attempts = only_last_attempts
        self._propagate = propagate_traces
        self._send_args = send_args

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        """Record a span of the insert, and store its trace in the metadata of the jobs."""
        with _publishing(requests) as span:
            if self._propagate:
                headers = dict(sentry_sdk.get_current_scope().iter_trace_propagation_headers(span))
                for request in requests:
                    # Periodic jobs have no caller: each begins a trace of its own.
                    if _PERIODIC_ID not in request.metadata:
                        request.metadata.update(headers)
            results = await do_inner(requests)
            if span is not None and len(results) == 1:
                span.set_data(SPANDATA.MESSAGING_MESSAGE_ID, str(results[0].job.id))
            return results

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        """Work a job in a scope and a transaction of its own, and report the result."""
        metadata = _metadata(job)
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_tag("river.kind", job.kind)
            scope.set_tag("river.queue", job.queue)
            scope.set_context("river job", self._about(job))
            headers = {
                name: found for name in _HEADERS if isinstance(found := metadata.get(name), str)
            }
            transaction = sentry_sdk.continue_trace(
                headers,
                op=OP.QUEUE_PROCESS,
                name=job.kind,
                source=TransactionSource.TASK,
                origin=_ORIGIN,
            )
            span = sentry_sdk.start_transaction(
                transaction, custom_sampling_context={"river_job": job}
            )
            with _within_span(span), self._checked_in(metadata.get(_PERIODIC_ID)):
                _describe(span, job)
                try:
                    await do_inner()
                except BaseException as error:
                    if _is_failure(error):
                        span.set_status(SPANSTATUS.INTERNAL_ERROR)
                        self._report(error)
                    else:
                        span.set_status(SPANSTATUS.CANCELLED)
                    raise
                span.set_status(SPANSTATUS.OK)

    def log_emit(self, record: logging.LogRecord) -> None:
        """Add a line of the job's log as a breadcrumb, unless Sentry's logging integration does."""
        if logging.getLogger(record.name).getEffectiveLevel() > record.levelno:
            sentry_sdk.add_breadcrumb(
                type="log",
                category=record.name,
                level=record.levelname.lower(),
                message=record.getMessage(),
                timestamp=datetime.fromtimestamp(record.created, UTC),
            )

    def _report(self, error: BaseException) -> None:
        if self._only_last_attempts and not is_last_attempt(error):
            return
        event, hint = event_from_exception(
            error,
            client_options=sentry_sdk.get_client().options,
            mechanism={"type": "riverui", "handled": False},
        )
        sentry_sdk.capture_event(event, hint=hint)

    def _about(self, job: JobRow) -> dict[str, Any]:
        about: dict[str, Any] = {
            "id": job.id,
            "kind": job.kind,
            "queue": job.queue,
            "attempt": job.attempt,
            "max_attempts": job.max_attempts,
            "priority": job.priority,
            "created_at": job.created_at.isoformat(),
            "scheduled_at": job.scheduled_at.isoformat(),
            "tags": ", ".join(job.tags),
        }
        if self._dashboard_url:
            about["url"] = f"{self._dashboard_url}/jobs/{job.id}"
        if self._send_args:
            about["args"] = job.args[:_MAX_ARGS]
        return about

    @contextmanager
    def _checked_in(self, periodic_id: object) -> Iterator[None]:
        """Send the check-ins of an attempt of a monitored periodic job."""
        monitor = self._monitors.get(periodic_id) if isinstance(periodic_id, str) else None
        if monitor is None:
            yield
            return
        slug, began = slug_of(str(periodic_id)), time.monotonic()
        check_in = capture_checkin(
            monitor_slug=slug, status=MonitorStatus.IN_PROGRESS, monitor_config=monitor
        )
        status = MonitorStatus.OK
        try:
            yield
        except BaseException as error:
            # Snoozed, cancelled or interrupted jobs did run when they were due.
            if _is_failure(error):
                status = MonitorStatus.ERROR
            raise
        finally:
            capture_checkin(
                monitor_slug=slug,
                check_in_id=check_in,
                status=status,
                duration=time.monotonic() - began,
                monitor_config=monitor,
            )


def monitor_config(schedule: Schedule) -> MonitorConfig | None:
    """Return the monitor of a schedule; None if Sentry does not support it."""
    every = schedule.interval if isinstance(schedule, PeriodicInterval) else None
    zone = "UTC"
    if isinstance(schedule, CronSchedule):
        every, zone = schedule.every, str(schedule.zone)
        if every is None:
            return {"schedule": {"type": "crontab", "value": schedule.expression}, "timezone": zone}
    if every is None:
        return None
    seconds = every.total_seconds()
    for unit, length in _UNITS:
        if seconds >= length and seconds % length == 0:
            return {"schedule": {"type": "interval", "value": int(seconds // length), "unit": unit}}
    return None


def slug_of(periodic_id: str) -> str:
    """Return the name of a periodic job's monitor: its id in lower case, with `-` for all but
    letters, digits, `-` and `_`, at most 50 characters.
    """
    return re.sub(r"[^a-z0-9_-]+", "-", periodic_id.lower())[:_MAX_SLUG]


def _is_failure(error: BaseException) -> bool:
    return not isinstance(error, JobCancel | JobSnooze | CancelledError)


def _publishing(requests: Sequence[InsertRequest]) -> AbstractContextManager[Span | None]:
    """Return a span of an insert, if a transaction is current."""
    if sentry_sdk.get_current_span() is None:
        return nullcontext()
    kinds, queues = ({getattr(one, name) for one in requests} for name in ("kind", "queue"))
    span = sentry_sdk.start_span(
        op=OP.QUEUE_PUBLISH,
        name=kinds.pop() if len(kinds) == 1 else f"{len(requests)} jobs",
        origin=_ORIGIN,
    )
    span.set_data(SPANDATA.MESSAGING_SYSTEM, "river")
    if len(queues) == 1:
        span.set_data(SPANDATA.MESSAGING_DESTINATION_NAME, queues.pop())
    return span


@contextmanager
def _within_span(span: Span) -> Iterator[None]:
    """Make a span the current one without the status that Sentry sets for any exception."""
    span.__enter__()
    try:
        yield
    finally:
        span.__exit__(None, None, None)


def _describe(span: Span, job: JobRow) -> None:
    span.set_data(SPANDATA.MESSAGING_SYSTEM, "river")
    span.set_data(SPANDATA.MESSAGING_MESSAGE_ID, str(job.id))
    span.set_data(SPANDATA.MESSAGING_DESTINATION_NAME, job.queue)
    span.set_data(SPANDATA.MESSAGING_MESSAGE_RETRY_COUNT, job.attempt - 1)
    if job.attempted_at is not None:
        waited = max(timedelta(0), job.attempted_at - job.scheduled_at)
        span.set_data(
            SPANDATA.MESSAGING_MESSAGE_RECEIVE_LATENCY, waited / timedelta(milliseconds=1)
        )


def _metadata(job: JobRow) -> Mapping[str, Any]:
    """Return the metadata of a job, empty unless they may contain one of our keys."""
    if not any(name in job.metadata for name in (SENTRY_TRACE_HEADER_NAME, _PERIODIC_ID)):
        return {}
    return read_object(job.metadata)
