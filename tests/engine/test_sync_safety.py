"""The client without asyncio among threads, under time limits, and in transactions that go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg.types.json import Jsonb

from riverui import (
    ClientConfig,
    JobListParams,
    JobState,
    SyncClient,
    UniqueOpts,
)
from riverui.errors import LockTimeout, NotFound, QueryTimeout, SchemaMissing, UniqueConflict
from riverui.storage.connect import connect_sync
from tests.guests import GUESTS, Begin


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    number: int


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield another connection."""
    with psycopg.connect(database_url, autocommit=True) as opened:
        yield opened


@pytest.fixture
def client(database_url: str) -> Iterator[SyncClient]:
    with SyncClient(database_url) as made:
        yield made


@pytest.fixture(params=GUESTS)
def begin(request: pytest.FixtureRequest, database_url: str) -> Begin:
    """Begin a transaction of each kind, in turn."""
    return GUESTS[request.param](database_url)


def test_threads_share_a_client(client: SyncClient, database_url: str) -> None:
    """More threads than connections, each with jobs of its own, by itself and in transactions."""

    def work(number: int) -> list[JobState]:
        states = []
        for turn in range(5):
            job = client.insert(Sort(number), queue=f"q{number}").job
            states.append(client.job_cancel(job.id).state)
            states.append(client.job_retry(job.id).state)
            with psycopg.connect(database_url) as tx:
                moved = client.job_move_tx(tx, job.id, queue=f"moved{number}")
                assert (moved.id, moved.queue) == (job.id, f"moved{number}")
                assert client.job_update_tx(tx, job.id, output=turn).metadata
            listed = client.job_list(JobListParams(queues=[f"moved{number}"])).jobs
            assert [row.id for row in listed] == [job.id]
            assert json.loads(listed[0].args) == {"number": number}
            assert client.job_delete(job.id).id == job.id
            with pytest.raises(NotFound, match=f"Job not found: {job.id}"):
                client.job_get(job.id)
        return states

    with ThreadPoolExecutor(12) as threads:
        for states in threads.map(work, range(12)):
            assert states == [JobState.CANCELLED, JobState.AVAILABLE] * 5


def test_what_takes_too_long_is_stopped(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    limit = timedelta(milliseconds=300)
    driver = connect_sync(database_url, action_timeout=limit, lock_timeout=limit * 10)
    with SyncClient(driver) as client:
        job = client.insert(Sort(1)).job
        with connection.transaction():
            connection.execute("lock table river_job in access exclusive mode")
            # By this side, as the server keeps no limit outside of transactions.
            with pytest.raises(QueryTimeout):
                client.job_get(job.id)
            # And by the server.
            with pytest.raises(QueryTimeout):
                client.job_cancel(job.id)
        # A transaction may take longer than each of its statements.
        with connection.transaction(), ThreadPoolExecutor(1) as thread:
            connection.execute("select from river_job for update")
            moved = thread.submit(client.job_move, job.id, queue="other")
            with pytest.raises((LockTimeout, QueryTimeout)):
                moved.result()
        assert client.job_cancel(job.id).state is JobState.CANCELLED
    driver.close()


def test_a_locked_row_raises_lock_timeout(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    driver = connect_sync(database_url, lock_timeout=timedelta(milliseconds=100))
    with SyncClient(driver) as client:
        job = client.insert(Sort(1)).job
        with connection.transaction():
            connection.execute("select from river_job for update")
            with pytest.raises(LockTimeout, match=f"Job {job.id} is locked"):
                client.job_cancel(job.id)
    driver.close()


def test_an_error_leaves_the_callers_transaction_usable(
    client: SyncClient, connection: psycopg.Connection[Any], begin: Begin
) -> None:
    unique = UniqueOpts(by_args=True)
    old = client.insert(Sort(1), unique_opts=unique).job
    connection.execute("update river_job set state = 'discarded', finalized_at = now()")
    new = client.insert(Sort(1), unique_opts=unique).job
    assert new.id != old.id
    with begin(True) as tx:
        for wrong in (old.id, 404):
            with pytest.raises((UniqueConflict, NotFound)):
                client.job_retry_tx(tx, wrong)
        client.insert_tx(tx, Sort(2))
    assert [row.id for row in client.job_list(JobListParams()).jobs][-1] > new.id
    assert client.job_get(old.id).state is JobState.DISCARDED


def test_workers_hear_of_it_when_the_transaction_commits(
    client: SyncClient, connection: psycopg.Connection[Any], begin: Begin
) -> None:
    job = client.insert(Sort(1)).job
    connection.execute(
        "update river_job set state = 'running', attempted_at = now(), attempted_by = '{w}'"
    )
    connection.execute(
        "insert into river_queue (name, metadata, updated_at) values ('q', %s, now())", [Jsonb({})]
    )
    connection.execute('listen "public.river_control"; listen "public.river_insert"')
    connection.execute('listen "public.river_leadership"')
    for keep in (False, True):
        with begin(keep) as tx:
            assert client.job_cancel_tx(tx, job.id).state is JobState.RUNNING
            assert client.queue_pause_tx(tx, "q") == ["q"]
            client.insert_tx(tx, Sort(2), queue="kept" if keep else "lost")
            client.request_resign_tx(tx)
            assert list(connection.notifies(timeout=0)) == []
    heard = [
        (notice.channel.removeprefix("public."), json.loads(notice.payload))
        for notice in connection.notifies(timeout=10, stop_after=4)
    ]
    assert [(topic, message.get("action")) for topic, message in heard] == [
        ("river_control", "cancel"),
        ("river_control", "pause"),
        ("river_insert", None),
        ("river_leadership", "request_resign"),
    ]
    assert heard[0][1]["job_id"] == job.id


def test_the_tables_are_not_there(database_url: str) -> None:
    with SyncClient(database_url, ClientConfig(schema="nowhere")) as client:
        for call in (lambda: client.job_get(1), lambda: client.job_cancel(1), client.queue_list):
            with pytest.raises(SchemaMissing, match="migrate-up"):
                call()


FORKS = """
import os, sys
from riverui import JsonArgs, SyncClient

client = SyncClient(sys.argv[1])
client.insert(JsonArgs("before", {}))
children = []
for number in range(3):
    child = os.fork()
    if not child:
        if number:
            client.insert(JsonArgs("child", {}))
        client.close()
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
client.insert(JsonArgs("after", {}))
client.close()
"""


def test_a_process_that_forks(database_url: str, connection: psycopg.Connection[Any]) -> None:
    """Web servers load the program, which may insert, and fork then."""
    subprocess.run([sys.executable, "-c", FORKS, database_url], check=True, timeout=60)
    kinds = connection.execute("select kind from river_job order by id").fetchall()
    assert kinds == [("before",), ("child",), ("child",), ("after",)]


DJANGO = """
import sys

sys.modules["psycopg"] = None  # then Django takes psycopg2
import django
from django.conf import settings

name, user, host, port = sys.argv[1:]
settings.configure(USE_TZ=True, TIME_ZONE="Asia/Tokyo", DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": user, "HOST": host,
    "PORT": port}})
django.setup()
from django.db import connection, transaction

connection.ensure_connection()
assert type(connection.connection).__module__.startswith("psycopg2"), connection.connection
del sys.modules["psycopg"]
from riverui import JobListParams, JsonArgs, SyncClient

river = SyncClient()
for keep in (False, True):
    with transaction.atomic():
        job = river.insert_tx(connection, JsonArgs("mail", {"to": "ann"}), tags=["one", "two"]).job
        assert river.job_cancel_tx(connection, job.id).state == "cancelled"
        assert river.job_retry_tx(connection, job.id).state == "available"
        row = river.job_update_tx(connection, job.id, output={"x": [1, None]})
        assert row.tags == ("one", "two") and row.output == {"x": [1, None]}, row
        assert row.created_at == job.created_at and row.created_at.utcoffset().seconds == 0
        assert river.job_list_tx(connection, JobListParams()).jobs == [row]
        with connection.cursor() as cursor:
            cursor.execute("select args ->> 'to' from river_job")
            assert cursor.fetchall() == [("ann",)]
        transaction.set_rollback(not keep)
"""


def test_django_on_psycopg2(database_url: str, connection: psycopg.Connection[Any]) -> None:
    info = connection.info
    where = [info.dbname, info.user, info.host, str(info.port)]
    subprocess.run([sys.executable, "-c", DJANGO, *where], check=True, timeout=60)
    assert connection.execute("select kind from river_job").fetchall() == [("mail",)]
