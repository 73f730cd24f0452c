"""Processes that insert, work and retry jobs in one SQLite file, killed at any moment, and copies
of the file made in between: nothing that was acknowledged is lost, no attempt is made twice, and
nobody waits in vain for the others.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import riverui
from tests.faults import sqlite_process
from tests.scale import FULL

_SECONDS = 60 if FULL else 8
"""How long it goes on."""
_PATIENCE = 120
"""Seconds in which all jobs must be done in the end: those of killed workers wait for rescue."""
_COMMANDS = ("insert", "insert", "work", "work", "work", "work", "retry", "retry")
_WORDS = ("locked", "too long", "Traceback", "malformed")
"""What no process may say."""


class Crowd:
    """Processes on one file, each with a journal of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "jobs.db"
        self._folder = folder
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._started = 0

    def begin(self, command: str) -> None:
        """Start a process."""
        self._started += 1
        name = f"{command}_{self._started}"
        journal = self._folder / f"{name}.journal"
        with journal.with_suffix(".err").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", sqlite_process.__name__, command, self.file, journal],
                stderr=errors,
            )
        self._running.append((command, process))

    def kill_one(self, chance: random.Random) -> None:
        """Kill a process and start another one like it."""
        place = chance.randrange(len(self._running))
        command, process = self._running.pop(place)
        process.kill()
        process.wait()
        self.begin(command)

    def copy(self, folder: Path) -> list[int]:
        """Copy the file as a power cut would leave it; return what was acknowledged before."""
        for _, process in self._running:
            os.kill(process.pid, signal.SIGSTOP)
        try:
            folder.mkdir()
            for part in self._folder.glob("jobs.db*"):
                if not part.name.endswith("-shm"):
                    shutil.copy(part, folder / part.name)
            return self.acknowledged()
        finally:
            for _, process in self._running:
                os.kill(process.pid, signal.SIGCONT)

    def kill(self, command: str = "") -> None:
        """Kill all processes of a command; all of them without one."""
        for name, process in self._running:
            if name == command or not command:
                process.kill()
                process.wait()
        self._running = [each for each in self._running if each[1].poll() is None]

    def acknowledged(self) -> list[int]:
        """Return the ids of the jobs whose insert has returned."""
        return [int(line) for line in self._lines("insert_*.journal")]

    def attempts(self) -> Counter[str]:
        """Return how often each attempt of a job began."""
        return Counter(self._lines("work_*.journal"))

    def complaints(self) -> list[str]:
        """Return what the processes should not have said."""
        lines = self._lines("*.err")
        return [line for line in lines if any(word in line for word in _WORDS)]

    def _lines(self, pattern: str) -> list[str]:
        # The last line of a killed process may be cut.
        return [
            line
            for file in self._folder.glob(pattern)
            for line in file.read_text(encoding="utf-8").splitlines(keepends=True)
            if line.endswith("\n")
        ]


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """Yield a crowd on a file with River's tables."""
    made = Crowd(tmp_path)
    asyncio.run(_migrate(made.file))
    yield made
    made.kill()


async def _migrate(file: Path) -> None:
    await riverui.migrate(riverui.connect(f"sqlite:///{file}"))


def test_killed_and_copied_at_any_moment(crowd: Crowd, tmp_path: Path) -> None:
    chance = random.Random(20261128)
    for command in _COMMANDS:
        crowd.begin(command)
    end, copies = time.monotonic() + _SECONDS, 0
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.2, 1.2))
        crowd.kill_one(chance)
        if chance.random() < 0.5:
            copies += 1
            folder = tmp_path / f"copy_{copies}"
            acknowledged = crowd.copy(folder)
            assert_whole(folder / "jobs.db", acknowledged)
            shutil.rmtree(folder)
    crowd.kill("insert")
    crowd.kill("retry")
    assert len(crowd.acknowledged()) > 100
    patience = time.monotonic() + _PATIENCE
    while unfinished(crowd.file) and time.monotonic() < patience:
        time.sleep(0.2)
    assert unfinished(crowd.file) == 0
    assert_whole(crowd.file, crowd.acknowledged())
    twice = {attempt.strip(): n for attempt, n in crowd.attempts().items() if n > 1}
    assert twice == {}
    assert crowd.complaints() == []


def assert_whole(file: Path, acknowledged: list[int]) -> None:
    """Check that a file is intact and has all these jobs."""
    with sqlite3.connect(file) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        ids = {job_id for (job_id,) in connection.execute("select id from river_job")}
    connection.close()
    assert set(acknowledged) - ids == set()


def unfinished(file: Path) -> int:
    """Count the jobs that are not completed."""
    connection = sqlite3.connect(file, timeout=10)
    sql = "select count(*) from river_job where state <> 'completed'"
    (count,) = connection.execute(sql).fetchone()
    connection.close()
    return int(count)
