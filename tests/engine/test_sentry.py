"""Reports of jobs to Sentry, seen by a transport that keeps them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest
import sentry_sdk
from psycopg.rows import DictRow
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.dedupe import DedupeIntegration
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from riverui.contrib.sentry import SentryPlugin, monitor_config, slug_of
from riverui.domain.json import read_object
from riverui.domain.retries import Retry
from riverui.domain.schedules import CronSchedule, NeverSchedule, PeriodicInterval, Schedule
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.periodic import PeriodicJob
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job, JobCancel, JobSnooze
from tests.engine.conftest import Playground, Task

HOUR = timedelta(hours=1)


class Kept(Transport):
    """Keeps what would be sent, by its type."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[tuple[str, dict[str, Any]]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            found = item.payload.json
            assert isinstance(found, dict)
            self.items.append((item.type or "", found))

    def of(self, type: str) -> list[dict[str, Any]]:
        return [found for kind, found in self.items if kind == type]

    @property
    def event(self) -> dict[str, Any]:
        (event,) = self.of("event")
        return event

    @property
    def transaction(self) -> dict[str, Any]:
        (transaction,) = self.of("transaction")
        return transaction


@pytest.fixture(scope="module", autouse=True)
def _logging_is_left_as_it_was() -> Iterator[None]:
    call_handlers = logging.Logger.callHandlers
    yield
    logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]


@pytest.fixture
def sentry() -> Iterator[Callable[[], Kept]]:
    def init() -> Kept:
        kept = Kept()
        sentry_sdk.init(
            dsn="https://key@sentry.example/1",
            default_integrations=False,
            auto_enabling_integrations=False,
            integrations=[DedupeIntegration(), LoggingIntegration()],
            release="shop@1.4",
            traces_sample_rate=1.0,
            transport=kept,
        )
        return kept

    yield init
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


async def worked(
    play: Playground,
    work: Callable[[Job[Task]], Any],
    plugin: SentryPlugin,
    args: Task | None = None,
    *,
    job_timeout: timedelta = timedelta(minutes=1),
    **columns: Any,
) -> DictRow:
    """Return a job's row after one attempt by a client with this plugin."""
    play.worker(work)
    await play.start(plugins=[plugin], job_timeout=job_timeout)
    return await play.work(None, args, **columns)


async def test_a_failed_attempt_is_reported_once_with_its_job_and_its_log(
    play: Playground, sentry: Callable[[], Kept]
) -> None:
    kept = sentry()

    async def fail(job: Job[Task]) -> None:
        # The root logger's level is WARNING, as it is in most web servers.
        logging.getLogger("shop.mail").info("to %s", "ann")
        raise ConnectionError("refused")

    plugin = SentryPlugin(dashboard_url="https://jobs.example/riverui/")
    row = await worked(play, fail, plugin, Task(value="secret"), max_attempts=3)

    event = kept.event
    assert event["exception"]["values"][0]["type"] == "ConnectionError"
    assert event["exception"]["values"][0]["mechanism"] == {"type": "riverui", "handled": False}
    assert event["release"] == "shop@1.4"
    assert event["tags"] == {"river.kind": "task", "river.queue": "default"}
    assert event["transaction"] == "task"
    about = event["contexts"]["river job"]
    assert about["id"] == row["id"]
    assert (about["attempt"], about["max_attempts"]) == (1, 3)
    assert about["url"] == f"https://jobs.example/riverui/jobs/{row['id']}"
    assert "secret" not in str(about)
    crumbs = [(crumb["category"], crumb["message"]) for crumb in event["breadcrumbs"]["values"]]
    assert crumbs == [("shop.mail", "to ann")]
    assert kept.transaction["contexts"]["trace"]["status"] == "internal_error"


async def test_lines_that_sentry_sees_by_itself_are_breadcrumbs_once(
    play: Playground, sentry: Callable[[], Kept]
) -> None:
    kept = sentry()

    def fail(job: Job[Task]) -> None:
        logging.getLogger("shop.mail").warning("slow")
        raise ValueError

    await worked(play, fail, SentryPlugin(), max_attempts=3)
    assert [crumb["message"] for crumb in kept.event["breadcrumbs"]["values"]] == ["slow"]


async def test_a_discard_is_one_report_although_it_is_logged_as_an_error(
    play: Playground, sentry: Callable[[], Kept]
) -> None:
    kept = sentry()

    async def fail(job: Job[Task]) -> None:
        raise ValueError("no such order")

    row = await worked(play, fail, SentryPlugin(), max_attempts=1)
    assert row["state"] == "discarded"
    assert kept.event["contexts"]["river job"]["id"] == row["id"]


@pytest.mark.parametrize(("max_attempts", "reports"), [(1, 1), (2, 0)])
async def test_only_last_attempts(
    play: Playground, sentry: Callable[[], Kept], max_attempts: int, reports: int
) -> None:
    kept = sentry()

    async def fail(job: Job[Task]) -> None:
        raise ValueError

    plugin = SentryPlugin(only_last_attempts=True)
    await worked(play, fail, plugin, max_attempts=max_attempts)
    assert len(kept.of("event")) == reports


async def test_an_error_that_is_never_tried_again_is_that_of_a_last_attempt(
    play: Playground, sentry: Callable[[], Kept]
) -> None:
    kept = sentry()

    async def fail(job: Job[Task]) -> None:
        raise LookupError if job.args.number else ValueError

    play.worker(fail)
    plugin = SentryPlugin(only_last_attempts=True)
    await play.start(plugins=[plugin], retry=Retry(never=(LookupError,)))
    assert (await play.work(None, Task()))["state"] != "discarded"
    assert (await play.work(None, Task(number=1)))["state"] == "discarded"
    assert kept.event["exception"]["values"][-1]["type"] == "LookupError"


@pytest.mark.parametrize("said", [JobCancel("no"), JobSnooze(HOUR)])
async def test_what_a_job_says_on_purpose_is_no_error(
    play: Playground, sentry: Callable[[], Kept], said: Exception
) -> None:
    kept = sentry()

    async def work(job: Job[Task]) -> None:
        raise said

    await worked(play, work, SentryPlugin())
    assert kept.of("event") == []
    assert kept.transaction["contexts"]["trace"]["status"] == "cancelled"


async def test_a_time_limit_is_an_error(play: Playground, sentry: Callable[[], Kept]) -> None:
    kept = sentry()

    async def wait(job: Job[Task]) -> None:
        await asyncio.Event().wait()

    await worked(play, wait, SentryPlugin(), job_timeout=timedelta(milliseconds=50))
    assert kept.event["exception"]["values"][-1]["type"] == "JobTimedOut"


@pytest.mark.parametrize("sent", [True, False])
async def test_args_are_sent_where_that_is_wanted(
    play: Playground, sentry: Callable[[], Kept], sent: bool
) -> None:
    kept = sentry()

    async def fail(job: Job[Task]) -> None:
        raise ValueError

    await worked(play, fail, SentryPlugin(send_args=sent), Task(value="x" * 9_000))
    args = kept.event["contexts"]["river job"].get("args", "")
    assert ("xxx" in args) is sent
    assert len(args) <= 8_192


async def test_a_trace_continues_from_the_insert_to_the_work(
    play: Playground, sentry: Callable[[], Kept]
) -> None:
    kept = sentry()

    async def work(job: Job[Task]) -> None: ...

    play.worker(work)
    client = await play.start(plugins=[SentryPlugin()])
    with sentry_sdk.start_transaction(op="http.server", name="POST /orders"):
        job = (await client.insert(Task(), InsertOpts(tags=["vip"]))).job
    await play.event(job.id)

    # Either may have ended first.
    worked, request = sorted(
        kept.of("transaction"), key=lambda ended: ended["transaction"] != "task"
    )
    (publish,) = request["spans"]
    assert (publish["op"], publish["description"]) == ("queue.publish", "task")
    assert publish["data"]["messaging.message.id"] == str(job.id)
    assert publish["data"]["messaging.destination.name"] == "default"
    trace = worked["contexts"]["trace"]
    assert trace["trace_id"] == request["contexts"]["trace"]["trace_id"]
    assert trace["parent_span_id"] == publish["span_id"]
    assert (trace["op"], trace["origin"]) == ("queue.process", "auto.queue.riverui")
    assert trace["data"]["messaging.message.id"] == str(job.id)
    assert trace["data"]["messaging.message.retry.count"] == 0
    assert trace["data"]["messaging.message.receive.latency"] >= 0


def test_the_synchronous_client_names_the_trace_too(
    database_url: str, sentry: Callable[[], Kept]
) -> None:
    sentry()
    for propagate in (True, False):
        plugin = SentryPlugin(propagate_traces=propagate)
        with (
            SyncClient(database_url, ClientConfig(plugins=[plugin])) as client,
            sentry_sdk.start_transaction(name="import") as transaction,
        ):
            metadata = read_object(client.insert(Task()).job.metadata)
        assert ("sentry-trace" in metadata, "baggage" in metadata) == (propagate, propagate)
        if propagate:
            assert metadata["sentry-trace"].startswith(transaction.trace_id)


@dataclass
class Nightly:
    """The args of a periodic job."""

    kind: ClassVar[str] = "nightly"


@pytest.mark.parametrize(
    ("error", "status"), [(None, "ok"), (ValueError(), "error"), (JobSnooze(HOUR), "ok")]
)
async def test_attempts_of_periodic_jobs_are_check_ins(
    play: Playground,
    sentry: Callable[[], Kept],
    error: Exception | None,
    status: str,
) -> None:
    kept = sentry()
    periodic = [
        PeriodicJob(CronSchedule("@daily", "Europe/Berlin"), Nightly, id="Nightly.Report"),
        PeriodicJob(PeriodicInterval(HOUR), Nightly),
    ]

    async def work(job: Job[Task]) -> None:
        if error is not None:
            raise error

    await worked(
        play,
        work,
        SentryPlugin(periodic_jobs=periodic),
        metadata={"periodic": True, "river:periodic_job_id": "Nightly.Report"},
    )
    began, ended = kept.of("check_in")
    assert (began["status"], ended["status"]) == ("in_progress", status)
    assert began["check_in_id"] == ended["check_in_id"]
    assert began["monitor_slug"] == "nightly-report"
    assert began["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 0 * * *"},
        "timezone": "Europe/Berlin",
    }
    assert ended["duration"] >= 0


@pytest.mark.parametrize(
    "metadata", [{}, {"river:periodic_job_id": "other"}, {"river:periodic_job_id": 7}]
)
async def test_other_jobs_are_no_check_ins(
    play: Playground, sentry: Callable[[], Kept], metadata: dict[str, Any]
) -> None:
    kept = sentry()
    periodic = [PeriodicJob(PeriodicInterval(HOUR), Nightly, id="hourly")]

    async def work(job: Job[Task]) -> None: ...

    await worked(play, work, SentryPlugin(periodic_jobs=periodic), metadata=metadata)
    assert kept.of("check_in") == []


@pytest.mark.parametrize(
    ("schedule", "value"),
    [
        (PeriodicInterval(timedelta(minutes=90)), {"value": 90, "unit": "minute"}),
        (PeriodicInterval(timedelta(hours=36)), {"value": 36, "unit": "hour"}),
        (PeriodicInterval(timedelta(days=7)), {"value": 7, "unit": "day"}),
        (CronSchedule("@every 2h"), {"value": 2, "unit": "hour"}),
        (PeriodicInterval(timedelta(seconds=90)), None),
        (PeriodicInterval(timedelta(seconds=30)), None),
        (NeverSchedule(), None),
    ],
)
def test_intervals_of_whole_minutes_can_be_watched(
    schedule: Schedule, value: dict[str, Any] | None
) -> None:
    assert monitor_config(schedule) == (value and {"schedule": {"type": "interval", **value}})


def test_a_monitors_name_has_sentrys_characters() -> None:
    assert slug_of("Täglich: Bericht/7" + "x" * 60) == "t-glich-bericht-7" + "x" * 33
