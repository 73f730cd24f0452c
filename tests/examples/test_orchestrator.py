"""`examples/orchestrator`, as its README tells it: a real process, from its start to its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from examples.orchestrator.app import Settings, make_deps
from examples.orchestrator.config import new_config
from examples.orchestrator.deps import Deps
from examples.orchestrator.repos import (
    CentroidRepo,
    DrawerRepo,
    GraphRepo,
    MessageRepo,
    PricingRepo,
)
from riverui import Client
from tests.worker.conftest import wait_for

ROOT = Path(__file__).parents[2]
DASHBOARD = {"Host": "river.localhost"}
OPS = httpx2.BasicAuth("ops", "river")


class Orchestrator:
    """The running example."""

    def __init__(self, database_url: str, **environ: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._database_url = database_url
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        given = {"DATABASE_URL": database_url} if database_url else {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.orchestrator"],
            cwd=ROOT,
            env={
                **inherited,
                **given,
                "PORT": str(port),
                "PYTHONDONTWRITEBYTECODE": "1",
                **environ,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_for(self._answers, seconds=60)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Return what the database holds."""
        with psycopg.connect(
            self._database_url,
            autocommit=True,
            row_factory=dict_row,
            options="-c search_path=orchestrator",
        ) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def worked(self, kind: str) -> dict[str, Any]:
        """Return the first job of that kind, once it is completed."""
        statement = (
            f"select * from river_job where kind = '{kind}' and state = 'completed' order by id"
            " limit 1"
        )
        found: list[dict[str, Any]] = wait_for(lambda: self.rows(statement))
        return found[0]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it; return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(40)
        self._reader.join(5)
        return code

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.lines
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(self.url).status_code == 200
        return False

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))


Start = Callable[..., Orchestrator]


@pytest.fixture
def start(empty_database_url: str) -> Iterator[Start]:
    """Start it on a database that has nothing in it."""
    running: list[Orchestrator] = []

    def run(**environ: str) -> Orchestrator:
        running.append(Orchestrator(empty_database_url, **environ))
        return running[-1]

    yield run
    for each in running:
        each.close()


def test_it_works_from_the_first_start_to_the_last_job(start: Start) -> None:
    app = start()
    # Migrated, in a schema of its own.
    assert {row["name"] for row in app.rows("select name from river_queue")} == {
        "memory_centroid_recompute",
        "memory_enrich",
        "memory_maintain",
        "memory_process",
        "message_cleanup",
        "pricing_refresh",
        "usage_write",
    }
    # Run at the start.
    assert app.worked("memory_process")["metadata"]["periodic"] is True
    assert app.worked("pricing_refresh")["metadata"]["output"] == {"models": ["large-1", "small-1"]}
    assert app.rows("select count(*) from model_pricing") == [{"count": 2}]

    # Ad hoc, from a request.
    answer = httpx2.post(f"{app.url}/chats/ada/messages", json={"text": "I like the Tate Modern"})
    assert answer.status_code == 201
    usage = app.worked("usage_write")
    assert usage["id"] == answer.json()["usage_job_id"]
    assert usage["args"]["workspace"] == "ada"
    assert usage["queue"] == "usage_write"
    for broken in (b"", b"[]", b'{"txt": 1}'):
        assert httpx2.post(f"{app.url}/chats/ada/messages", content=broken).status_code == 422
    assert app.rows("select count(*) from messages") == [{"count": 1}]

    # The hot path has sorted it; what it cannot sort is for the worker.
    httpx2.post(f"{app.url}/chats/ada/messages", json={"text": "Meet Bob in Kew Gardens"})
    wait_for(lambda: len(app.rows("select 1 from memory_drawers")) == 2)
    assert app.rows("select state, pipeline_tier from memory_drawers order by id") == [
        {"state": "processed", "pipeline_tier": "heuristic"},
        {"state": "raw", "pipeline_tier": None},
    ]
    for kind in ("memory_process", "memory_enrich", "memory_maintain", "memory_centroid_recompute"):
        # As one does while debugging.
        values = f"('{{}}', '{kind}', '{kind}')"
        by_hand = f"insert into river_job (args, kind, queue) values {values} returning id"
        (job,) = app.rows(by_hand)
        done = f"select 1 from river_job where id = {job['id']} and state = 'completed'"
        wait_for(partial(app.rows, done))
    assert app.rows(
        "select state, pipeline_tier, entity_count from memory_drawers order by id"
    ) == [
        {"state": "processed", "pipeline_tier": "heuristic", "entity_count": 2},
        {"state": "processed", "pipeline_tier": "llm", "entity_count": 3},
    ]
    assert app.rows("select memory_type from memory_type_centroids") == [{"memory_type": "event"}]
    logged = app.rows(
        "select metadata -> 'river:log' ->> 0 as log from river_job where metadata ? 'river:log'"
    )
    assert any("is a event" in row["log"] for row in logged)
    assert app.stop() == 0
    assert not [line for line in app.lines if "Traceback" in line or "ERROR" in line]


def test_messages_that_nobody_answers_are_failed(start: Start) -> None:
    app = start()
    message = (
        "insert into messages (chat, text, state, created_at) values ('a', 'b', 'pending', now() -"
        " interval"
    )
    app.rows(f"{message} '6 min')")
    app.rows(f"{message} '4 min')")
    app.rows(
        "insert into river_job (args, kind, queue) values ('{}', 'message_cleanup',"
        " 'message_cleanup')"
    )
    app.worked("message_cleanup")
    assert [row["state"] for row in app.rows("select state from messages order by id")] == [
        "failed",
        "pending",
    ]


def test_the_dashboard_has_a_host_name_of_its_own(start: Start) -> None:
    app = start()
    assert "dashboard" in httpx2.get(f"{app.url}/").text
    assert httpx2.get(f"{app.url}/jobs", headers={"Host": "elsewhere.localhost"}).status_code == 404
    assert httpx2.get(f"{app.url}/jobs", headers=DASHBOARD).status_code == 401
    assert (
        httpx2.get(
            f"{app.url}/jobs", headers=DASHBOARD, auth=httpx2.BasicAuth("ops", "x")
        ).status_code
        == 401
    )
    app.worked("memory_process")
    page = httpx2.get(f"{app.url}/jobs?state=completed", headers=DASHBOARD, auth=OPS)
    assert page.status_code == 200
    assert "memory_process" in page.text
    (style,) = re.findall(r'href="(/static/[^"]+\.css)"', page.text)[:1]
    assert httpx2.get(app.url + style, headers=DASHBOARD).status_code == 200


def test_a_second_replica_finds_the_minutes_job_done(start: Start) -> None:
    if datetime.now(UTC).second > 40:
        time.sleep(25)
    one, two = start(), start()
    one.worked("memory_process")
    assert one.stop() == 0
    # The other one leads now, and has run at this start what is to run at each.
    wait_for(lambda: len(two.rows("select 1 from river_job where kind = 'pricing_refresh'")) == 2)
    time.sleep(0.5)
    assert len(two.rows("select 1 from river_job where kind = 'memory_process'")) == 1, (
        "once a minute"
    )


def test_it_stops_in_phases(start: Start) -> None:
    app = start(CLASSIFIER_SECONDS="60", SOFT_STOP_SECONDS="0.5")
    app.worked("pricing_refresh")
    app.rows(
        "insert into memory_drawers (workspace, content, state, importance) values ('a', 'b',"
        " 'raw', 3);insert into river_job (args, kind, queue) values ('{}', 'memory_process',"
        " 'memory_process')"
    )
    running = "select id from river_job where state = 'running'"
    wait_for(lambda: app.rows(running))
    (job,) = app.rows(running)
    began = time.monotonic()
    assert app.stop() == 0
    assert 0.4 < time.monotonic() - began < 10
    assert app.rows(f"select state, attempt from river_job where id = {job['id']}") == [
        {"state": "available", "attempt": 0}
    ]


def test_without_a_database_it_brings_its_own() -> None:
    app = Orchestrator("")
    try:
        assert "http://river.localhost:" in app.lines[0]
        assert app.stop(signal.SIGINT) == 0
        assert not [line for line in app.lines if "Traceback" in line or "ERROR" in line]
    finally:
        app.close()


def test_its_schedules_are_those_of_the_readme() -> None:
    deps = make_deps(Settings(database_url=""))
    now = datetime(2026, 11, 21, 14, 59, 30, tzinfo=UTC)  # a Saturday
    due = {}
    for job in new_config(deps).periodic_jobs:
        made = job.construct()
        assert made is not None
        due[type(made.args).__name__] = (f"{job.schedule.next(now):%a %H:%M:%S}", job.run_on_start)
    assert due == {
        "MemoryProcess": ("Sat 15:00:30", True),
        "MemoryEnrich": ("Sat 15:09:30", False),
        "MemoryMaintain": ("Sun 00:00:00", False),
        "MemoryCentroidRecompute": ("Sun 03:00:00", False),
        "MessageCleanup": ("Sat 15:00:30", False),
        "PricingRefresh": ("Sun 00:00:00", True),
    }


def test_what_is_switched_off_keeps_nothing_from_starting() -> None:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(open=False)
    repos = (
        DrawerRepo(pool),
        GraphRepo(pool),
        CentroidRepo(pool),
        MessageRepo(pool),
        PricingRepo(pool),
    )
    bare = Deps(
        db=pool,
        drawers=repos[0],
        graph=repos[1],
        centroids=repos[2],
        messages=repos[3],
        pricing=repos[4],
    )
    client = Client(pool, new_config(bare))
    assert len(client.config.queues) == 7
