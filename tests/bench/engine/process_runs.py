"""Worker processes as they are started by hand: `riverui worker`, with one process or several.

`python -m tests.bench.engine.process_runs KIND URL JOBS PROCESSES` prints one line of JSON.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg

from tests.bench.engine.drain import Drain

_SLOTS = {"compute": 8, "noop": 1_000}
"""Jobs at once, in all processes: more threads that compute would only fight."""
_LOOK_SECONDS = 0.02
"""Between two looks whether all jobs are worked."""
_LOAD_SECONDS = 3.0
"""That bare processes get to load what they need."""
_LONGEST_SECONDS = 300.0
"""That a run may take."""


def run(kind: str, url: str, jobs: int, processes: int, *options: str) -> Drain:
    """Return how long the processes took for jobs that were there when they began."""
    program = [
        sys.executable,
        "-m",
        "riverui",
        "worker",
        "tests.bench.engine.process_client:client",
    ]
    program += [f"--processes={processes}", f"--queue=default={_SLOTS[kind]}", *options]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into river_queue (name, paused_at, created_at, updated_at)"
            " values ('default', now(), now(), now())"
        )
        connection.execute(
            "insert into river_job (args, kind, max_attempts)"
            " select '{}', %s, 1 from generate_series(1, %s)",
            [kind, jobs],
        )
        worker = subprocess.Popen(
            program, env={**os.environ, "DATABASE_URL": url}, stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        started = 0
        for line in worker.stdout:
            started += "worker has started" in line
            if started == processes:
                break
        began = time.perf_counter()
        connection.execute("update river_queue set paused_at = null")
        connection.execute(
            "select pg_notify(current_schema() || '.river_control',"
            """ '{"action": "resume", "queue": "default"}')"""
        )
        _wait(
            lambda: (
                connection.execute(
                    "select 1 from river_job where state in ('available', 'running') limit 1"
                ).fetchone()
                is None
            )
        )
        working = time.perf_counter() - began
        done = connection.execute(
            "select count(*) from river_job where state = 'completed' and kind = %s", [kind]
        ).fetchone()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)
    assert done == (jobs,)
    return Drain(jobs=jobs, working=working)


def bare(jobs: int, processes: int) -> Drain:
    """Return how long it takes to compute as much in so many processes that do nothing else: what
    this machine has to give just now.
    """
    code = "from tests.bench.engine.process_client import loop\ninput()\nfor _ in range({}): loop()"
    program = [sys.executable, "-c", code.format(jobs // processes)]
    started = [
        subprocess.Popen(program, stdin=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    time.sleep(_LOAD_SECONDS)
    began = time.perf_counter()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.close()
    for process in started:
        process.wait(_LONGEST_SECONDS)
    return Drain(jobs=jobs, working=time.perf_counter() - began)


def _wait(happened: Callable[[], Any]) -> None:
    until = time.monotonic() + _LONGEST_SECONDS
    while not happened():
        assert time.monotonic() < until, "the run took too long"
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    kind, url, jobs, processes, *options = sys.argv[1:]
    if kind == "bare":
        drain = bare(int(jobs), int(processes))
    else:
        drain = run(kind, url, int(jobs), int(processes), *options)
    print(drain.to_json())
