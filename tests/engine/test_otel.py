"""Spans and metrics under otelriver's names, seen through the SDK's exporters in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from riverui.contrib.otel import OpenTelemetryPlugin, go_duration
from riverui.domain.jobs import JobRow, JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.events import EventKind
from riverui.engine.hooks import Metric
from riverui.engine.insert.insert_opts import InsertRequest
from riverui.engine.work.worker import Job, JobCancel, JobSnooze
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import InsertResult
from tests.factory import job_row

NOW = datetime(2026, 11, 21, 12, 30, 15, 250_000, tzinfo=UTC)
JOB = job_row(
    id=42, attempt=3, attempted_at=NOW, created_at=NOW - timedelta(minutes=1), scheduled_at=NOW,
    priority=2, kind="mail", queue="mailers", tags=("eu", "vip"),
)  # fmt: skip


class Telemetry:
    """A plugin, and what came out of it."""

    def __init__(self, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.plugin = OpenTelemetryPlugin(
            meter_provider=MeterProvider([self._metrics], shutdown_on_exit=False),
            tracer_provider=self.tracer_provider,
            **options,
        )

    @property
    def span(self) -> ReadableSpan:
        (span,) = self._spans.get_finished_spans()
        return span

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._spans.get_finished_spans()

    def metrics(self) -> dict[str, list[tuple[Any, dict[str, Any]]]]:
        """Name to values (a histogram's sum) with their attributes."""
        found: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
        data = self._metrics.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "riverui"
                for metric in scope.metrics:
                    found[metric.name] = [
                        (
                            getattr(point, "value", None) or getattr(point, "sum", 0),
                            dict(point.attributes or {}),
                        )
                        for point in metric.data.data_points
                    ]
        return found

    def units(self) -> dict[str, str | None]:
        data = self._metrics.get_metrics_data()
        assert data
        return {
            metric.name: metric.unit
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    async def work(self, job: JobRow = JOB, error: BaseException | None = None) -> None:
        async def inner() -> None:
            if error is not None:
                raise error

        await self.plugin.work(job, inner)

    async def insert(
        self, *kinds: str, skipped: int = 0, error: Exception | None = None
    ) -> list[InsertRequest]:
        async def inner(requests: Sequence[InsertRequest]) -> Sequence[InsertResult]:
            if error is not None:
                raise error
            return [InsertResult(JOB, number < skipped) for number in range(len(requests))]

        requests = [request(kind) for kind in kinds]
        await self.plugin.insert_many(requests, inner)
        return requests


def request(kind: str) -> InsertRequest:
    return InsertRequest(
        args=None,
        kind=kind,
        encoded_args="{}",
        created_at=NOW,
        scheduled_at=None,
        max_attempts=25,
        metadata={},
        priority=1,
        queue="default",
        state=JobState.AVAILABLE,
        tags=[],
        unique_opts=None,
    )


async def test_work_is_a_span_with_the_jobs_attributes() -> None:
    telemetry = Telemetry()
    await telemetry.work()
    span = telemetry.span
    assert (span.name, span.kind, span.status.status_code) == (
        "river.work",
        SpanKind.CONSUMER,
        StatusCode.OK,
    )
    assert dict(span.attributes or {}) == {
        "id": 42,
        "attempt": 3,
        "kind": "mail",
        "priority": 2,
        "queue": "mailers",
        "status": "ok",
        "tag": ("eu", "vip"),
        "created_at": "2026-11-21T12:29:15Z",
        "scheduled_at": "2026-11-21T12:30:15Z",
    }


async def test_work_is_counted_and_timed() -> None:
    telemetry = Telemetry()
    await telemetry.work()
    await telemetry.work()
    found = telemetry.metrics()
    assert found.keys() == {
        "river.work_count",
        "river.work_duration",
        "river.work_duration_histogram",
    }
    ((count, attributes),) = found["river.work_count"]
    assert count == 2
    assert attributes == {
        "attempt": 3,
        "kind": "mail",
        "priority": 2,
        "queue": "mailers",
        "status": "ok",
        "tag": ("eu", "vip"),
    }, "no id, no times: too many values for a metric"
    ((seconds, _),) = found["river.work_duration_histogram"]
    assert 0 < seconds < 5


@pytest.mark.parametrize(
    ("error", "status", "code", "extra"),
    [
        (ValueError("it broke"), "error", StatusCode.ERROR, {}),
        (JobCancel("not wanted"), "error", StatusCode.ERROR, {"cancel": True}),
        (JobSnooze(timedelta(seconds=90)), "ok", StatusCode.OK, {"snooze": True}),
        (asyncio.CancelledError(), "error", StatusCode.ERROR, {}),
        (SystemExit(1), "panic", StatusCode.ERROR, {}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_every_outcome_is_reported(
    error: BaseException, status: str, code: StatusCode, extra: dict[str, bool]
) -> None:
    telemetry = Telemetry()
    with pytest.raises(type(error)):
        await telemetry.work(error=error)
    span = telemetry.span
    reported = dict(span.attributes or {})
    assert reported["status"] == status
    assert span.status.status_code is code
    ((_, attributes),) = telemetry.metrics()["river.work_count"]
    assert attributes["status"] == status
    for key in ("cancel", "snooze"):
        assert reported.get(key) == extra.get(key) == attributes.get(key)
    assert reported.get("snooze.duration") == ("1m30s" if "snooze" in extra else None)
    recorded = [event.name for event in span.events]
    assert recorded == (["exception"] if isinstance(error, ValueError | SystemExit) else [])


async def test_the_spans_name_may_end_with_the_kind() -> None:
    telemetry = Telemetry(enable_work_span_job_kind_suffix=True)
    await telemetry.work()
    assert telemetry.span.name == "river.work/mail"


async def test_an_insert_is_a_span_and_counted_by_job_and_by_batch() -> None:
    telemetry = Telemetry()
    await telemetry.insert("mail", "invoice", "mail", skipped=1)
    span = telemetry.span
    assert (span.name, span.kind) == ("river.insert_many", SpanKind.PRODUCER)
    assert dict(span.attributes or {}) == {
        "kinds": ("invoice", "mail"),
        "status": "ok",
        "unique_skipped_as_duplicate_count": 1,
    }
    found = telemetry.metrics()
    assert found.keys() == {
        "river.insert_count",
        "river.insert_many_count",
        "river.insert_many_duration",
        "river.insert_many_duration_histogram",
    }
    assert sorted(found["river.insert_count"], key=str) == [
        (1, {"status": "ok", "unique_skipped_as_duplicate": True}),
        (2, {"status": "ok", "unique_skipped_as_duplicate": False}),
    ]
    assert found["river.insert_many_count"] == [(1, {"status": "ok"})]


async def test_an_insert_that_fails_is_reported() -> None:
    telemetry = Telemetry()
    with pytest.raises(ValueError, match="no such queue"):
        await telemetry.insert("mail", error=ValueError("no such queue"))
    assert telemetry.span.status.description == "no such queue"
    assert telemetry.metrics()["river.insert_many_count"] == [(1, {"status": "error"})]


async def test_durations_come_in_seconds_or_milliseconds() -> None:
    for unit, scale in (("s", 1), ("ms", 1000)):
        telemetry = Telemetry(duration_unit=unit, enable_semantic_metrics=True)
        await telemetry.work()
        await telemetry.insert("mail")
        telemetry.plugin.metric_emit(
            Metric(name="job_get_available_duration", value=0.25, queue="mailers")
        )
        units = telemetry.units()
        for name, found in units.items():
            if name.startswith("river.") and "duration" in name:
                assert found == unit, name
            elif "duration" in name:
                assert found == "s", f"{name}: the conventions leave no choice"
        assert telemetry.metrics()["river.job_get_available_duration"] == [
            (0.25 * scale, {"queue": "mailers"})
        ]
    with pytest.raises(ConfigError, match="use s or ms"):
        Telemetry(duration_unit="h")


async def test_fetches_are_measured() -> None:
    telemetry = Telemetry()
    telemetry.plugin.metric_emit(Metric(name="job_get_available_count", value=7, queue="mailers"))
    telemetry.plugin.metric_emit(Metric(name="something_new", value=7, queue="mailers"))
    assert telemetry.metrics() == {"river.job_get_available_count": [(7, {"queue": "mailers"})]}


async def test_semantic_metrics_are_there_when_asked_for() -> None:
    telemetry = Telemetry(enable_semantic_metrics=True)
    await telemetry.work()
    await telemetry.insert("mail", "mail")
    found = telemetry.metrics()
    worked = {"messaging.operation.name": "work", "messaging.system": "river"}
    inserted = {"messaging.operation.name": "insert_many", "messaging.system": "river"}
    assert found["messaging.client.consumed.messages"] == [(1, worked)]
    assert found["messaging.client.sent.messages"] == [(2, inserted)]
    assert {
        attributes["messaging.operation.name"]
        for _, attributes in found["messaging.client.operation.duration"]
    } == {
        "work",
        "insert_many",
    }
    assert [attributes for _, attributes in found["messaging.process.duration"]] == [worked]


async def test_the_work_is_linked_to_what_inserted_it() -> None:
    telemetry = Telemetry(enable_trace_propagation=True)
    with telemetry.tracer_provider.get_tracer("shop").start_as_current_span("checkout") as checkout:
        (sent,) = await telemetry.insert("mail")
        await telemetry.work(JOB._replace(metadata=json.dumps(sent.metadata)))
    inserting, working, _ = telemetry.spans
    assert inserting.parent
    assert inserting.parent.span_id == checkout.get_span_context().span_id
    assert inserting.context
    assert [link.context.span_id for link in working.links] == [inserting.context.span_id]
    assert sent.metadata.keys() == {"traceparent"}


@pytest.mark.parametrize(
    "metadata",
    ["{}", '{"traceparent": 7}', '{"traceparent": "nonsense"}', '{"x": "\\"traceparent\\""}'],
)
async def test_without_a_trace_there_is_no_link(metadata: str) -> None:
    telemetry = Telemetry(enable_trace_propagation=True)
    with telemetry.tracer_provider.get_tracer("shop").start_as_current_span("around"):
        await telemetry.work(JOB._replace(metadata=metadata))
    assert not telemetry.spans[0].links, "least of all to what is under way here"


async def test_work_of_its_own_starts_inside_the_span() -> None:
    telemetry = Telemetry()
    tracer = telemetry.tracer_provider.get_tracer("shop")

    async def inner() -> None:
        with tracer.start_as_current_span("sql"):
            pass

    await telemetry.plugin.work(JOB, inner)
    sql, work = telemetry.spans
    assert sql.parent
    assert work.context
    assert sql.parent.span_id == work.context.span_id


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(microseconds=20), "20µs"),
        (timedelta(milliseconds=1.5), "1.5ms"),
        (timedelta(seconds=45), "45s"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(minutes=5), "5m0s"),
        (timedelta(days=2, minutes=1, seconds=3), "48h1m3s"),
    ],
)
def test_spans_of_time_are_written_as_go_writes_them(span: timedelta, text: str) -> None:
    assert go_duration(span) == text


@dataclass
class Mail:
    """Sent, unless its address is `nobody`."""

    kind: ClassVar[str] = "mail"

    to: str


async def test_a_clients_jobs_are_reported(driver: Driver) -> None:
    telemetry = Telemetry(enable_trace_propagation=True, enable_work_span_job_kind_suffix=True)
    workers = Workers()

    @workers.work(Mail)
    async def mail(job: Job[Mail]) -> None:
        if not job.args.to:
            raise ValueError("nobody")

    config = ClientConfig(
        plugins=[telemetry.plugin], queues={"default": QueueConfig(max_workers=2)}, workers=workers
    )
    async with Client(driver, config) as client:
        with client.subscribe(EventKind.JOB_COMPLETED, EventKind.JOB_FAILED) as events:
            await client.insert_many([Mail("ada"), Mail("")])
            kinds = {(await anext(events)).kind for _ in range(2)}
    assert kinds == {EventKind.JOB_COMPLETED, EventKind.JOB_FAILED}

    (inserting,) = [span for span in telemetry.spans if span.name == "river.insert_many"]
    assert inserting.context
    working = [span for span in telemetry.spans if span.name == "river.work/mail"]
    assert sorted(str((span.attributes or {})["status"]) for span in working) == ["error", "ok"]
    for span in working:
        assert [link.context.span_id for link in span.links] == [inserting.context.span_id]
    found = telemetry.metrics()
    assert sum(count for count, _ in found["river.work_count"]) == 2
    assert found["river.insert_count"] == [
        (2, {"status": "ok", "unique_skipped_as_duplicate": False})
    ]
    assert found["river.job_get_available_count"] == [(2, {"queue": "default"})]
    ((seconds, _),) = found["river.job_get_available_duration"]
    assert 0 < seconds < 10
