"""`riverui worker` as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

HERE = Path(__file__).parent


def wait_for(happened: Callable[[], Any], *, seconds: float = 20) -> Any:
    """Return what it gives, once that is something; fails when it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


class WorkerProcess:
    """A worker, what it has said so far, and the database that it works on."""

    def __init__(
        self, url: str, *argv: str, environ: Mapping[str, str], folder: Path = HERE
    ) -> None:
        self.url = url
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "riverui", "worker", *argv],
            cwd=folder,
            env={**inherited, "DATABASE_URL": url, "PYTHONDONTWRITEBYTECODE": "1", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def said(self, words: str, *, times: int = 1) -> str:
        """Return the line with these words, once it was said so often."""

        def look() -> str | None:
            found = [line for line in list(self.lines) if words in line]
            assert len(found) >= times or self._reader.is_alive(), self.lines
            return found[times - 1] if len(found) >= times else None

        try:
            return str(wait_for(look))
        except AssertionError:
            pytest.fail(f"never said {words!r}: {self.lines}")

    def hear_out(self) -> None:
        """Wait until all that it said is in `lines`; it has ended."""
        self._reader.join(5)

    def stop(self, number: int = signal.SIGTERM, *, seconds: float = 20) -> int:
        """Send the signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        self.hear_out()
        return code

    def insert(self, kind: str, queue: str = "default", args: str = "{}") -> int:
        """Insert a job, as any client would; return its id."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(
                "insert into river_job (args, kind, queue) values (%s, %s, %s) returning id",
                [args, kind, queue],
            ).fetchone()
        assert row
        return int(row[0])

    def job(self, id: int) -> tuple[str, int]:
        """State and attempt."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(
                "select state, attempt from river_job where id = %s", [id]
            ).fetchone()
        assert row
        return row

    def until(self, id: int, state: str) -> None:
        """Wait for the job to be in that state."""
        wait_for(lambda: self.job(id)[0] == state)

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))


StartWorker = Callable[..., contextlib.AbstractContextManager[WorkerProcess]]


@pytest.fixture
def start_worker(database_url: str) -> StartWorker:
    """Start `riverui worker` in this folder, and wait until it works."""

    @contextlib.contextmanager
    def start(*argv: str, folder: Path = HERE, **environ: str) -> Iterator[WorkerProcess]:
        worker = WorkerProcess(database_url, *argv, environ=environ, folder=folder)
        try:
            worker.said("worker has started")
            yield worker
        finally:
            worker.process.kill()
            worker.process.wait()
            worker.hear_out()
            assert worker.process.stdout is not None
            worker.process.stdout.close()

    return start


def ask(port: int, path: str = "/health", method: str = "GET") -> tuple[int, dict[str, Any]]:
    """Return the status and body of what the health port answers; (0, {}) for no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body else {}
    except ConnectionError:
        return 0, {}
    finally:
        connection.close()
