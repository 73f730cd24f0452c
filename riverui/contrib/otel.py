"""Trace and measure inserts and attempts with OpenTelemetry, under the names of River's otelriver.

Needs the extra `otel`. Names are those of otelriver 0.12, so that dashboards and alerts for Go
clients work unchanged. The instrumentation scope is `riverui`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from riverui.domain.json import read_object
from riverui.engine.hooks import Metric, Plugin
from riverui.engine.work.worker import JobCancel, JobSnooze
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import TracerProvider

    from riverui.domain.jobs import JobRow
    from riverui.engine.insert.insert_opts import InsertRequest
    from riverui.storage.interface.engine_params import InsertResult

Attributes = dict[str, Any]

_TRACE_CONTEXT = TraceContextTextMapPropagator()


class OpenTelemetryPlugin(Plugin):
    """Creates spans `river.insert_many` and `river.work`, and metrics of their counts and
    durations.

    `duration_unit` is `s` or `ms`. `enable_work_span_job_kind_suffix` names spans
    `river.work/<kind>`. `enable_semantic_metrics` adds OpenTelemetry's own messaging metrics, which
    are always in seconds. `enable_trace_propagation` puts the trace context into each job's
    metadata (`traceparent`, `tracestate`) and links the span of its work to that of its insert,
    also between Go and Python. The default providers are the global ones. Raises ConfigError for
    another unit.
    """

    def __init__(
        self,
        *,
        duration_unit: Literal["s", "ms"] = "s",
        enable_semantic_metrics: bool = False,
        enable_trace_propagation: bool = False,
        enable_work_span_job_kind_suffix: bool = False,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        if duration_unit not in ("s", "ms"):
            raise ConfigError(f"duration_unit is {duration_unit!r}: use s or ms")
        meter = metrics.get_meter("riverui", meter_provider=meter_provider)
        self._tracer = trace.get_tracer("riverui", tracer_provider=tracer_provider)
        self._instruments = _Instruments(meter, duration_unit)
        self._semantic = _SemanticInstruments(meter) if enable_semantic_metrics else None
        self._propagate = enable_trace_propagation
        self._suffix = enable_work_span_job_kind_suffix
        self._scale = 1000 if duration_unit == "ms" else 1

    async def insert_many(
        self,
        requests: Sequence[InsertRequest],
        do_inner: Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]],
    ) -> Sequence[InsertResult]:
        """Put a span around an insert and measure it."""
        results: Sequence[InsertResult] = ()
        began = time.perf_counter()
        with self._span("river.insert_many", SpanKind.PRODUCER) as span:
            attributes: Attributes = {"status": "ok"}
            try:
                if self._propagate:
                    for request in requests:
                        _TRACE_CONTEXT.inject(request.metadata)
                results = await do_inner(requests)
            except BaseException as error:
                attributes["status"] = _status(error)
                _record(span, error)
                raise
            else:
                span.set_status(StatusCode.OK)
                return results
            finally:
                skipped = sum(result.unique_skipped_as_duplicate for result in results)
                span.set_attributes(attributes)
                span.set_attribute("kinds", sorted({request.kind for request in requests}))
                span.set_attribute("unique_skipped_as_duplicate_count", skipped)
                self._measure_insert(
                    len(requests), skipped, time.perf_counter() - began, attributes
                )

    async def work(self, job: JobRow, do_inner: Callable[[], Awaitable[None]]) -> None:
        """Put a span around an attempt and measure it."""
        began = time.perf_counter()
        name = f"river.work/{job.kind}" if self._suffix else "river.work"
        with self._span(
            name, SpanKind.CONSUMER, links=_links(job) if self._propagate else ()
        ) as span:
            attributes: Attributes = {
                "attempt": job.attempt,
                "kind": job.kind,
                "priority": job.priority,
                "queue": job.queue,
                "status": "ok",
                "tag": job.tags,
            }
            try:
                await do_inner()
            except JobSnooze as snooze:
                # A snooze is not a failure.
                attributes["snooze"] = True
                span.set_attribute("snooze.duration", go_duration(snooze.duration))
                span.set_status(StatusCode.OK)
                raise
            except BaseException as error:
                attributes["status"] = _status(error)
                if isinstance(error, JobCancel):
                    attributes["cancel"] = True
                _record(span, error)
                raise
            else:
                span.set_status(StatusCode.OK)
            finally:
                # Attributes with too many values for a metric are only on the span.
                span.set_attributes({"id": job.id, **attributes})
                span.set_attribute("created_at", _instant(job.created_at))
                span.set_attribute("scheduled_at", _instant(job.scheduled_at))
                self._measure_work(time.perf_counter() - began, attributes)

    def metric_emit(self, metric: Metric) -> None:
        """Record how long a fetch took and how many jobs it returned."""
        if metric.name == "job_get_available_duration":
            self._instruments.fetch_duration.record(
                metric.value * self._scale, {"queue": metric.queue}
            )
        elif metric.name == "job_get_available_count":
            self._instruments.fetch_count.record(int(metric.value), {"queue": metric.queue})

    @contextmanager
    def _span(self, name: str, kind: SpanKind, *, links: Sequence[Link] = ()) -> Iterator[Span]:
        # The code above decides which exceptions are failures.
        with self._tracer.start_as_current_span(
            name, kind=kind, links=links, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def _measure_insert(
        self, count: int, skipped: int, seconds: float, attributes: Attributes
    ) -> None:
        mine = self._instruments
        for number, duplicate in ((count - skipped, False), (skipped, True)):
            if number:
                mine.insert_count.add(
                    number, {**attributes, "unique_skipped_as_duplicate": duplicate}
                )
        mine.insert_many_count.add(1, attributes)
        mine.insert_many_duration.set(seconds * self._scale, attributes)
        mine.insert_many_duration_histogram.record(seconds * self._scale, attributes)
        if semantic := self._semantic:
            named = {"messaging.operation.name": "insert_many", "messaging.system": "river"}
            semantic.operation_duration.record(seconds, named)
            semantic.sent.add(count, named)

    def _measure_work(self, seconds: float, attributes: Attributes) -> None:
        mine = self._instruments
        mine.work_count.add(1, attributes)
        mine.work_duration.set(seconds * self._scale, attributes)
        mine.work_duration_histogram.record(seconds * self._scale, attributes)
        if semantic := self._semantic:
            named = {"messaging.operation.name": "work", "messaging.system": "river"}
            semantic.consumed.add(1, named)
            semantic.operation_duration.record(seconds, named)
            semantic.process_duration.record(seconds, named)


class _Instruments:
    """The metrics of otelriver."""

    def __init__(self, meter: Meter, unit: str) -> None:
        self.fetch_count = meter.create_histogram(
            "river.job_get_available_count", "{job}", "Jobs that one fetch gave"
        )
        self.fetch_duration = meter.create_histogram(
            "river.job_get_available_duration", unit, "How long a fetch took"
        )
        self.insert_count = meter.create_counter("river.insert_count", "{job}", "Jobs inserted")
        self.insert_many_count = meter.create_counter(
            "river.insert_many_count",
            "{job_batch}",
            "Batches inserted; a single job is a batch of one",
        )
        self.insert_many_duration = meter.create_gauge(
            "river.insert_many_duration", unit, "How long inserting a batch took"
        )
        self.insert_many_duration_histogram = meter.create_histogram(
            "river.insert_many_duration_histogram", unit, "How long inserting a batch took"
        )
        self.work_count = meter.create_counter("river.work_count", "{job}", "Attempts worked")
        self.work_duration = meter.create_gauge(
            "river.work_duration", unit, "How long an attempt took"
        )
        self.work_duration_histogram = meter.create_histogram(
            "river.work_duration_histogram", unit, "How long an attempt took"
        )


class _SemanticInstruments:
    """Metrics of OpenTelemetry's semantic conventions for messaging clients, in seconds."""

    def __init__(self, meter: Meter) -> None:
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages given to the program"
        )
        self.operation_duration = meter.create_histogram(
            "messaging.client.operation.duration", "s", "How long an operation of the client took"
        )
        self.process_duration = meter.create_histogram(
            "messaging.process.duration", "s", "How long working on a message took"
        )
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages handed to the broker"
        )


def go_duration(span: timedelta) -> str:
    """Return a duration in Go's notation: `1h2m3.5s`, `45s`, `250ms`, `0s`."""
    if timedelta(0) < span < timedelta(seconds=1):
        milliseconds = span / timedelta(milliseconds=1)
        return (
            f"{milliseconds:g}ms"
            if milliseconds >= 1
            else f"{span / timedelta(microseconds=1):g}µs"
        )
    minutes, seconds = divmod(span, timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    text = f"{seconds.seconds}.{seconds.microseconds:06}".rstrip("0").rstrip(".") + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _status(error: BaseException) -> str:
    """Return `error`, or `panic` for exceptions that end a program, such as SystemExit."""
    return "error" if isinstance(error, Exception | asyncio.CancelledError) else "panic"


def _record(span: Span, error: BaseException) -> None:
    span.set_status(Status(StatusCode.ERROR, str(error) or type(error).__name__))
    if not isinstance(error, JobCancel | asyncio.CancelledError):
        span.record_exception(error)


def _links(job: JobRow) -> Sequence[Link]:
    """Return a link to the span of the insert, if the metadata contain it.

    It is not the parent, as the job may be worked days later.
    """
    if '"traceparent"' not in job.metadata:
        return ()
    carrier = {
        key: value for key, value in read_object(job.metadata).items() if isinstance(value, str)
    }
    # Extract into an empty context: the current span is our own.
    extracted = _TRACE_CONTEXT.extract(carrier, context=Context())
    context = trace.get_current_span(extracted).get_span_context()
    return (Link(context),) if context.is_valid else ()


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
