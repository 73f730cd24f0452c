"""`riverui demo --sqlite`: the same shop in a file, as far as SQLite has it."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2

from riverui.domain.jobs import JobState
from tests.demo.test_postgres import wait_for


@contextmanager
def demo(home: Path, *flags: str) -> Iterator[str]:
    """Yield the address of a demo that runs meanwhile."""
    command = [sys.executable, "-m", "riverui", "demo", "--sqlite", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(home), *flags], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    words = ""
    while "Ctrl-C" not in words:
        line = process.stdout.readline()
        assert line, words
        words += line
    found = re.search(r"http://\S+", words)
    assert found, words
    try:
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0


def counts(home: Path, name: str = "shop") -> dict[str, int]:
    """Return the number of jobs by state."""
    with closing(sqlite3.connect(home / f"{name}.db", timeout=10)) as connection:
        return dict(connection.execute("select state, count(*) from river_job group by 1"))


def test_it_has_the_shop_in_a_file_and_continues(home: Path) -> None:
    with demo(home) as url:
        for path in ("", "jobs", "queues/billing", "errors", "workers", "api/jobs?state=completed"):
            answer = httpx2.get(url + path, follow_redirects=True, timeout=30)
            assert answer.status_code == 200, path
        before = counts(home)
        assert set(before) >= set(JobState) - {JobState.RUNNING, JobState.AVAILABLE}
        wait_for(lambda: counts(home)["completed"] > before["completed"] + 5, seconds=60)
        headers = {"Sec-Fetch-Site": "same-origin"}
        played = httpx2.post(
            url + "demo/play", data={"incident": "poison-job"}, headers=headers, timeout=30
        )
        assert played.status_code == 303
    assert sorted(file.name for file in home.glob("pg*")) == []
    kept = sum(counts(home).values())
    with demo(home):
        assert kept <= sum(counts(home).values()) < kept + 500


def test_an_incident_begins_anew(home: Path) -> None:
    for _ in range(2):
        with demo(home, "--incident", "dead-worker"):
            assert counts(home, "incident")["running"] > 0
            assert 100 < sum(counts(home, "incident").values()) < 10_000
