"""The public names, as somebody at a prompt meets them."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

import riverui
from riverui import (
    Client,
    ClientConfig,
    Job,
    JobRow,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    SyncClient,
)

SECRET = "postgresql://app:hunter2@db/shop"


@pytest.mark.parametrize(
    "name",
    [
        "errors.ConfigError",
        "testing.rolled_back",
        "connect",
        "migrate",
        "OpenTelemetryPlugin",
        "SentryPlugin",
    ],
)
def test_one_import_reaches_everything_public(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import riverui; print(riverui.{name})"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert name.partition(".")[0] in dir(riverui)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'riverui' has no attribute 'utils'"):
        _ = riverui.utils  # type: ignore[attr-defined]


def test_everything_that_is_public_can_be_imported_at_once() -> None:
    """Also where an extra's packages are not installed."""
    code = "import sys; sys.modules['opentelemetry'] = None; from riverui import *; print(Client)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_client_of_postgres_does_not_load_sqlite() -> None:
    code = "import sys; from riverui import Client, connect; print('sqlite3' in sys.modules)"
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output == "False\n"


def test_a_client_offers_what_programs_use() -> None:
    offered = {name for name in dir(Client(SECRET)) if not name.startswith("__")}
    assert offered >= {
        "dead_letters",
        "insert",
        "insert_tx",
        "job_cancel",
        "queue_list",
        "queues",
        "start",
        "stop",
        "subscribe",
        "workflows",
    }
    assert not any(name.startswith("_") for name in offered)
    assert not offered & {
        "events",
        "notify_limiter",
        "prepare_insert",
        "insert_requests",
        "extensions",
        "workflow_cancel",
    }


def the_config() -> ClientConfig:
    workers = riverui.Workers()
    return ClientConfig(
        id="me",
        periodic_jobs=[
            PeriodicJob(PeriodicInterval(timedelta(hours=1)), lambda: None, id="hourly")
        ],
        queues={"default": QueueConfig(max_workers=10), "mail": QueueConfig(max_workers=2)},
        workers=workers,
    )


def test_what_things_look_like_at_a_prompt() -> None:
    client = Client(SECRET, the_config())
    shown = {
        "client": repr(client),
        "inserts": repr(Client(SECRET, ClientConfig(id="me"))),
        "driver": repr(client.driver),
        "periodic": repr(client.periodic_jobs),
        "queues": repr(client.queues),
        "subscription": repr(client.subscribe("job_failed", "job_completed")),
        "sync": repr(SyncClient(SECRET, ClientConfig(schema="river"))),
        "workers": repr(the_config().workers),
    }
    assert shown == {
        "client": "<Client me: default=10, mail=2; not started>",
        "inserts": "<Client me: inserts only>",
        "driver": "<PostgresDriver not connected yet, schema ?>",
        "periodic": "<PeriodicJobs: hourly>",
        "queues": "<QueueBundle: default, mail>",
        "subscription": "<Subscription to job_completed, job_failed: 0 held>",
        "sync": "<SyncClient of river>",
        "workers": "<Workers: none>",
    }
    assert "hunter2" not in str(shown)


def row(**columns: Any) -> JobRow:
    values: dict[str, Any] = dict.fromkeys(JobRow._fields)
    return JobRow(**(values | {"args": "{}", "metadata": "{}"} | columns))


def test_the_json_of_a_row_can_be_had_as_a_dict() -> None:
    job = row(args='{"strings": ["b", "a"]}', metadata='{"output": 7}')
    assert job.args_dict == {"strings": ["b", "a"]}
    assert job.metadata_dict == {"output": 7}
    assert Job(job, None).metadata_dict == {"output": 7}
    assert row(args='{"n": ' + "7" * 5000 + ', "m": 1}').args_dict == {"n": math.inf, "m": 1}
    for odd in ("[" * 5000 + "]" * 5000, "[1]"):
        with pytest.raises(ValueError, match=r"nested|expected a JSON object"):
            _ = row(args=odd).args_dict
