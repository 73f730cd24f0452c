"""`riverui demo` as a newcomer starts it: alive within seconds, and gone with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from riverui.demo.incidents import INCIDENTS
from riverui.domain.jobs import JobState
from tests.demo.conftest import data_dir
from tests.demo.test_postgres import alive, postgres, wait_for

# As it is before each test's own is taken away, so that every demo here runs the same Postgres.
ENVIRONMENT = dict(os.environ)


class Demo:
    """A running demo."""

    def __init__(self, home: Path, *flags: str, port: str = "0") -> None:
        self.home = home
        started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "riverui", "demo", "--data-dir", str(home), *flags],
            env=ENVIRONMENT | {"PORT": port},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.words = ""
        while "Ctrl-C" not in self.words:
            line = self.process.stdout.readline()
            assert line, self.words
            self.words += line
        found = re.search(r"http://\S+", self.words)
        assert found, self.words
        self.url = found[0]
        self.seconds = time.monotonic() - started
        self.postgres = postgres(home)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of the demo's own database."""
        host = (self.home / "socket").resolve()
        with psycopg.connect(f"postgresql://riverui@/shop?host={host}&port=5432") as connection:
            return connection.execute(statement.encode()).fetchall()

    def stop(self, number: int = signal.SIGINT) -> float:
        """Send the signal; return the seconds until the process is gone."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.words += self.process.communicate(timeout=30)[0]
        return time.monotonic() - started


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with data_dir() as home:
        running = Demo(home)
        yield running
        if running.process.poll() is None:
            running.stop()


def test_it_is_up_within_seconds(demo: Demo) -> None:
    # 4 s on an idle machine, ten times as long on a busy one.
    assert demo.seconds < 90


def test_its_pages_answer(demo: Demo) -> None:
    for path in ("", "jobs?state=running", "queues", "queues/billing", "about"):
        answer = httpx2.get(demo.url + path, follow_redirects=True, timeout=30)
        assert answer.status_code == 200, path
        assert "riverui" in answer.text
    assert httpx2.get(demo.url + "api/health-checks/complete").status_code == 200
    # Another site's name in place of its own.
    assert httpx2.get(demo.url + "jobs", headers={"Host": "evil.example"}).status_code == 403


def test_jobs_move(demo: Demo) -> None:
    def look() -> tuple[int, int]:
        return demo.ask(
            "select count(*) filter (where state = 'completed'), max(id) from river_job"
        )[0]

    before = look()

    def moved() -> bool:
        completed, newest = look()
        return completed > before[0] + 5 and newest > before[1]

    wait_for(moved, seconds=60)
    logging = "from river_job where state = 'running' and metadata ? 'river:log' and attempt = 1"
    wait_for(lambda: demo.ask(f"select id {logging}") != [], seconds=40)


def test_it_is_at_peace_and_plays_incidents(demo: Demo) -> None:
    def report() -> dict[str, Any]:
        found: dict[str, Any] = httpx2.get(demo.url + "api/health-report", timeout=30).json()
        return found

    wait_for(lambda: report()["level"] == "ok", seconds=60)
    page = httpx2.get(demo.url).text
    assert all(f'value="{name}"' in page for name in INCIDENTS)
    headers = {"Sec-Fetch-Site": "same-origin"}
    for name, cause in (("poison-job", "poison_job"), ("retry-storm", "retry_storm")):
        chosen = {"incident": name}
        answer = httpx2.post(demo.url + "demo/play", data=chosen, headers=headers, timeout=30)
        assert answer.status_code == 303
        wait_for(
            lambda cause=cause: cause in {each["cause"] for each in report()["sections"]},  # type: ignore[misc]
            seconds=60,
        )
    httpx2.post(demo.url + "demo/play", data={"incident": ""}, headers=headers, timeout=30)


def test_what_is_kept_is_rich(demo: Demo) -> None:
    counts = dict(demo.ask("select state::text, count(*) from river_job group by 1"))
    assert counts.keys() == set(JobState)
    assert counts["completed"] > 5_000
    assert demo.ask("select name from river_queue where paused_at is not null") == []
    checks = {
        "a Go trace": "select true from river_job where errors::text like '%.go:%' limit 1",
        "a Python trace": (
            "select true from river_job where errors::text like '%Traceback%' limit 1"
        ),
        "several attempts": "select true from river_job where cardinality(errors) > 4 limit 1",
        "an output": "select true from river_job where metadata ? 'output' limit 1",
        "a snooze": "select true from river_job where metadata ? 'snoozes' limit 1",
        "a unique key": "select true from river_job where unique_key is not null limit 1",
        "a large number": (
            "select true from river_job where (args ->> 'asset_id')::bigint > 2 ^ 53 limit 1"
        ),
        "a leader": "select true from river_leader where expires_at > now()",
        "several workers": (
            "select true from river_job, unnest(attempted_by) b having count(distinct b) > 4"
        ),
        "every priority": "select true from river_job having count(distinct priority) = 4",
    }
    for name, statement in checks.items():
        assert demo.ask(statement) == [(True,)], name


def test_a_second_one_reports_the_first(demo: Demo) -> None:
    command = [sys.executable, "-m", "riverui", "demo", "--port", "0", "--data-dir", str(demo.home)]
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode == 1
    assert "already running" in second.stderr
    assert "Traceback" not in second.stderr


def test_beside_a_taken_port_it_takes_the_next_one(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "riverui", "demo", "--data-dir", str(home)]
        flag = subprocess.run(
            [*command, "--port", str(port)], capture_output=True, text=True, timeout=60, check=False
        )
        assert flag.returncode == 1, "a port that its flag names is that one or none"
        assert str(port) in flag.stderr
        assert not home.exists(), "it looked at the port first"
        beside = Demo(home, port=str(port))
        beside.stop()
    assert int(beside.url.rstrip("/").rpartition(":")[2]) > port
    assert f"port {port} is taken" in beside.words


def test_ctrl_c_ends_it_and_the_data_stay(demo: Demo) -> None:
    newest = demo.ask("select max(id) from river_job")[0][0]
    folder = (demo.home / "socket").resolve()
    # 0.3 s on an idle machine.
    assert demo.stop() < 25
    assert demo.process.returncode == 0
    assert "Traceback" not in demo.words
    assert not alive(demo.postgres)
    assert not folder.exists()

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    again = Demo(demo.home, port=str(port))
    try:
        assert again.url == f"http://127.0.0.1:{port}/"
        assert again.ask("select max(id) from river_job")[0][0] >= newest
        assert again.ask("select count(*) from river_job where id < 4813000")[0][0] > 500, (
            "history is still there"
        )
    finally:
        assert again.stop(signal.SIGTERM) < 8
    assert again.process.returncode == 0


def test_killed_it_leaves_nothing_running(home: Path) -> None:
    killed = Demo(home)
    folder = (killed.home / "socket").resolve()
    killed.stop(signal.SIGKILL)
    wait_for(lambda: not alive(killed.postgres) and not folder.exists())

    # What ran then is taken up again.
    again = Demo(killed.home)
    running = (
        "select count(*) from river_job where state = 'running' and attempted_at < now() - interval"
        " '20 min'"
    )
    try:
        assert again.ask(running) == [(0,)]
    finally:
        again.stop()
