"""Jobs in processes of their own: their environment, and their results."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_trace_id

from riverui.contrib.otel import OpenTelemetryPlugin
from riverui.domain.jobs import JobRow
from riverui.engine.hooks import DoInner, Middleware
from riverui.engine.work.context import record_output
from tests.engine.conftest import about
from tests.engine.processes import jobs
from tests.engine.processes.conftest import IsolatedPlayground
from tests.engine.processes.jobs import Counting

ROOT = Path(__file__).parents[3]


async def test_it_runs_in_the_main_thread_of_another_process(apart: IsolatedPlayground) -> None:
    row = await apart.acted("where", {"a": [1, None, "ü"]})
    assert row["state"] == "completed"
    output = row["metadata"]["output"]
    assert output.pop("pid") != os.getpid()
    assert output == {
        "args": {"a": [1, None, "ü"]},
        "attempt": 1,
        "current": row["id"],
        "main": True,
        "parent": os.getpid(),
        "stdin": "",
    }


async def test_a_worker_is_sent_once_and_keeps_its_state_in_its_process(
    apart: IsolatedPlayground,
) -> None:
    worker = Counting(10)
    apart.worker(worker)
    outputs = [(await apart.acted("counted"))["metadata"]["output"] for _ in range(3)]
    assert outputs == [11, 12, 13]
    assert worker.count == 10


async def test_errors_arrive_by_type_text_and_traceback(apart: IsolatedPlayground) -> None:
    errors: list[BaseException] = []
    apart.isolated()
    await apart.start(error_handler=lambda row, error: errors.append(error))

    async def failed(how: str) -> Any:
        row = await apart.acted("fail", how)
        assert row["state"] == "available", how  # retried in a second
        return row["errors"][0]

    poison = await failed("poison")
    assert poison["error"] == "Poison: poison number 7 with \ufffd and xxxxxxxxxx"
    assert "tests/engine/processes/jobs.py" in poison["trace"]
    assert "raise errors[job.args.value]" in poison["trace"]
    assert poison["trace"].startswith("Traceback (most recent call last):")
    assert "riverui/engine/work/processes" not in poison["trace"]
    assert (await failed("silent"))["error"] == "Silent"
    assert (await failed("exit"))["error"] == "SystemExit: 5"
    assert (await failed("interrupt"))["error"] == "KeyboardInterrupt"
    assert (await failed("local"))["error"] == "MadeHere: of this process"
    assert (await failed("unicode"))["error"].startswith("UnicodeDecodeError: 'utf-8' codec can't")
    missing = "FileNotFoundError: [Errno 2] No such thing: '/nowhere'"
    assert (await failed("os"))["error"] == missing

    by_name = {type(error).__name__: error for error in errors}
    assert isinstance(by_name["FileNotFoundError"], FileNotFoundError)
    assert by_name["FileNotFoundError"].errno == 2
    assert vars(by_name["Poison"])["number"] == 7
    assert isinstance(by_name["UnicodeDecodeError"], ValueError)


async def test_cancelling_and_snoozing(apart: IsolatedPlayground) -> None:
    cancelled = await apart.acted("fail", "cancel")
    assert cancelled["state"] == "cancelled"
    assert cancelled["errors"][0]["error"] == "JobCancelError: there is no such order"
    assert (await apart.acted("fail", "my_cancel"))["state"] == "cancelled"
    snoozed = await apart.acted("fail", "snooze")
    assert (snoozed["state"], snoozed["attempt"], snoozed["errors"]) == ("scheduled", 0, None)
    assert about(snoozed["scheduled_at"], datetime.now(UTC) + timedelta(hours=1), within=60)
    # As in one process: what a group holds counts.
    assert (await apart.acted("fail", "group"))["state"] == "scheduled"


async def test_logs_go_to_the_job_and_to_the_program_s_handlers(
    apart: IsolatedPlayground, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="tests.isolated"):
        row = await apart.acted("log")
    (entry,) = row["metadata"]["river:log"]
    assert "INFO tests.isolated: counting 3 words\n" in entry["log"]
    assert "ERROR tests.isolated: it went wrong\nTraceback" in entry["log"]
    assert "ValueError: inner" in entry["log"]
    assert "too low" not in entry["log"]
    first = next(record for record in caplog.records if record.name == "tests.isolated")
    assert vars(first)["words"] == 3
    assert first.funcName == "log"
    assert first.filename == "jobs.py"
    assert (first.process,) == apart.processes.pids


async def test_a_filter_that_raises_does_not_cost_the_job_its_process(
    apart: IsolatedPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError("not today")

    monkeypatch.setattr(jobs.LOGGER, "filters", [refuse])
    assert (await apart.acted("log_much", 2))["state"] == "completed"


async def test_the_log_is_there_while_the_job_runs(apart: IsolatedPlayground) -> None:
    apart.isolated()
    job_id = await apart.act("log", "wait")
    await apart.start(job_log_bytes=10_000)

    async def written() -> bool:
        return "counting 3 words" in str((await apart.row(job_id))["metadata"])

    await apart.until(written)
    assert (await apart.row(job_id))["state"] == "running"
    apart.release("go")
    await apart.in_state(job_id, "completed")


async def test_a_job_that_logs_without_end_leaves_what_fits(apart: IsolatedPlayground) -> None:
    apart.isolated()
    await apart.start(job_log_bytes=1_000)
    row = await apart.acted("log_much", 3_000)
    (entry,) = row["metadata"]["river:log"]
    assert len(entry["log"]) == 1_000
    assert "line 0\n" in entry["log"]


async def test_steps_go_on_where_the_last_attempt_failed(apart: IsolatedPlayground) -> None:
    row = await apart.acted("steps")
    assert row["errors"][0]["error"] == "ValueError: in the middle"
    assert row["metadata"]["river:resumable_step"] == "first"
    assert row["metadata"]["river:resumable_cursor"] == {"second": 2}
    row = await apart.in_state(row["id"], "completed")
    assert row["metadata"]["output"] == 2
    assert not (apart.folder / "first-2").exists()


async def test_steps_of_a_process_that_died_are_not_lost(apart: IsolatedPlayground) -> None:
    row = await apart.acted("steps", "die")
    assert row["metadata"]["river:resumable_step"] == "first"
    assert row["metadata"]["river:resumable_cursor"] == {"second": 2}


async def test_a_large_output_goes_through(apart: IsolatedPlayground) -> None:
    row = await apart.acted("large", "ü" * 20_000)
    assert row["metadata"]["output"] == "ü" * 4_000_000


async def test_what_is_too_large_is_the_job_s_error(apart: IsolatedPlayground) -> None:
    row = await apart.acted("too_large")
    assert "bytes are too many for one message between processes" in row["errors"][0]["error"]
    assert (await apart.acted("where"))["state"] == "completed"


async def test_there_is_no_client_in_the_process(apart: IsolatedPlayground) -> None:
    row = await apart.acted("client")
    assert "has no client there: use a SyncClient" in row["errors"][0]["error"]


async def test_a_coroutine_is_refused(apart: IsolatedPlayground) -> None:
    row = await apart.acted("a_coroutine")
    assert "is for plain functions" in row["errors"][0]["error"]


async def test_completing_in_a_transaction_of_its_own(apart: IsolatedPlayground) -> None:
    row = await apart.acted("complete", apart.database_url)
    assert (row["state"], row["errors"], row["metadata"]["before"]) == ("completed", None, 1)


async def test_a_copy_of_the_process_does_not_speak_for_it(apart: IsolatedPlayground) -> None:
    row = await apart.acted("fork")
    assert (row["state"], row["metadata"]["output"]) == ("completed", "from the job")


async def test_a_task_goes_by_its_name(apart: IsolatedPlayground) -> None:
    apart.workers = jobs.tasks
    client = await apart.start()
    job = (await jobs.add.insert(client, 2, second=3)).job
    await apart.event(job.id)
    row = await apart.row(job.id)
    assert row["metadata"]["output"][:2] == [5, job.id]
    assert row["metadata"]["output"][2] != os.getpid()
    assert pickle.loads(pickle.dumps(jobs.add)) is jobs.add


async def test_the_trace_goes_on_in_the_process(apart: IsolatedPlayground) -> None:
    provider = TracerProvider()
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    apart.isolated()
    await apart.start(plugins=[OpenTelemetryPlugin(tracer_provider=provider)])
    row = await apart.acted("trace")
    (span,) = [span for span in spans.get_finished_spans() if span.name == "river.work"]
    assert span.context is not None
    assert row["metadata"]["output"] == format_trace_id(span.context.trace_id)


_DJANGO = {
    "settings.py": """
import os
from psycopg.conninfo import conninfo_to_dict

parts = conninfo_to_dict(os.environ["DATABASE_URL"])
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"],
    "USER": parts.get("user", ""), "PASSWORD": parts.get("password", ""),
    "HOST": parts["host"], "PORT": parts.get("port", ""),
    "CONN_MAX_AGE": 60,
}}
INSTALLED_APPS = ["django.contrib.contenttypes"]
""",
    "work.py": """
from django.contrib.contenttypes.models import ContentType  # needs django.setup()
from django.db import connection
import riverui

workers = riverui.Workers()

@workers.task(isolation="process")
def ask() -> list[object]:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        pid = cursor.fetchone()[0]
    connection.set_autocommit(False)  # as code does that forgets to put it back
    return [ContentType.__name__, pid]
""",
    "main.py": """
import asyncio, os
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django
django.setup()
from django.db import connection
from work import ask, workers
import riverui

connection.ensure_connection()
own = connection.connection.info.backend_pid

async def main() -> None:
    config = riverui.ClientConfig(
        isolation_processes=1,
        queues={"default": riverui.QueueConfig(max_workers=1)},
        workers=workers,
    )
    async with riverui.Client(os.environ["DATABASE_URL"], config) as client:
        with client.subscribe("job_completed", "job_failed") as events:
            for _ in range(2):
                await ask.insert(client)
                event = await anext(events)
                print(event.kind, *(event.job.output or event.job.errors))
    print(own)

asyncio.run(main())
""",
}


def test_django_s_models_have_connections_of_their_own_in_each_process(
    database_url: str, tmp_path: Path
) -> None:
    for name, text in _DJANGO.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "DATABASE_URL": database_url, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    first, second, own = done.stdout.splitlines()
    assert first.startswith("job_completed ContentType ")
    assert second.startswith("job_completed ContentType ")
    # What was left in a transaction is closed after the job, and nothing is inherited.
    assert len({first.split()[2], second.split()[2], own}) == 3


async def test_middleware_runs_around_it_in_the_client(apart: IsolatedPlayground) -> None:
    class Around(Middleware):
        async def work(self, job: JobRow, do_inner: DoInner) -> None:
            with pytest.raises(ValueError, match="of this process"):
                await do_inner(job._replace(args=job.args.replace("snooze", "local")))
            record_output("seen")

    apart.isolated()
    await apart.start(middleware=[Around()])
    row = await apart.acted("fail", "snooze")
    assert (row["state"], row["metadata"]["output"]) == ("completed", "seen")
