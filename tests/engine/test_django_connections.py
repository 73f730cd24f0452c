"""Jobs that use Django's models outlive a database that goes away: a program of its own, as
settings are global.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import asyncio, sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

url, max_age, is_async = sys.argv[1], eval(sys.argv[2]), sys.argv[3] == "async"
parts = conninfo_to_dict(url)

from django.conf import settings
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"],
    "USER": parts.get("user", ""), "PASSWORD": parts.get("password", ""),
    "HOST": parts["host"], "PORT": parts.get("port", ""),
    "CONN_MAX_AGE": max_age, "OPTIONS": {"application_name": "django"},
}})
import django
django.setup()
from asgiref.sync import sync_to_async
from django.db import connection, transaction

import riverui


@dataclass
class Ask:
    kind: ClassVar[str] = "ask"

    leave_open: bool = False


workers = riverui.Workers()


def ask(job):
    if job.args.leave_open:
        # As code does that forgets to put it back.
        connection.ensure_connection()
        connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        print(job.id, job.attempt, cursor.fetchone()[0])


@workers.work(Ask)
def work(job):
    ask(job)


if is_async:
    workers = riverui.Workers()

    @workers.work(Ask)
    async def work(job):
        await sync_to_async(ask)(job)


async def backends(admin):
    rows = await admin.execute(
        "select pid, state from pg_stat_activity"
        " where application_name = 'django' and datname = current_database()"
    )
    return await rows.fetchall()


async def main():
    config = riverui.ClientConfig(
        fetch_poll_interval=timedelta(milliseconds=20),
        fetch_cooldown=timedelta(milliseconds=1),
        leader_election_disabled=True,
        queues={"default": riverui.QueueConfig(max_workers=1)},
        retry_policy=lambda job: datetime.now(UTC),
        threads=1,
        workers=workers,
    )
    client = riverui.Client(url, config)
    admin = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with client:
        with client.subscribe("job_completed", "job_failed") as events:
            async def ended():
                event = await anext(events)
                errors = event.job.errors
                print(event.kind.value, len(errors), *[error.error for error in errors])

            await client.insert(Ask())
            await ended()
            print("connections", len(await backends(admin)))
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'django' and datname = current_database()"
            )
            job = await client.insert(Ask())
            await ended()
            if not max_age == 0:
                await ended()
            await client.insert(Ask(leave_open=True))
            await ended()
            await client.insert(Ask())
            await ended()
            states = [state for _, state in await backends(admin)]
            print("in transaction", [state for state in states if "transaction" in state])
    await admin.close()

asyncio.run(main())
"""


def run(url: str, max_age: str, kind: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, url, max_age, kind],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_next_attempt_works_after_a_connection_broke(database_url: str, kind: str) -> None:
    """Connections that are kept: the first attempt finds out, as a request in Django would."""
    lines = run(database_url, "None", kind)
    ends = [line for line in lines if line.startswith("job_")]
    assert ends[0] == "job_completed 0"
    assert ends[1].startswith("job_failed 1 ")
    assert ends[2].startswith("job_completed 1 ")
    assert ends[3:] == ["job_completed 0", "job_completed 0"], "what a job left open is closed"
    assert "connections 1" in lines
    assert "in transaction []" in lines


def test_connections_that_are_not_kept_are_closed_after_each_job(database_url: str) -> None:
    lines = run(database_url, "0", "sync")
    assert [line for line in lines if line.startswith("job_")] == ["job_completed 0"] * 4
    assert "connections 0" in lines


def test_connections_that_are_not_kept_are_closed_before_each_asynchronous_job(
    database_url: str,
) -> None:
    lines = run(database_url, "0", "async")
    assert [line for line in lines if line.startswith("job_")] == ["job_completed 0"] * 4
