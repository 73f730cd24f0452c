"""The API as a program gets it: what its lists and counts take, and an export of everything."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.pages import connection_to, serve

_SECONDS = 2.0
"""For each address."""
_PATHS = {
    "jobs (running)": "/api/jobs",
    "jobs (completed)": "/api/jobs?state=completed",
    "jobs (available)": "/api/jobs?state=available",
    "jobs (search)": "/api/jobs?q=kind:*a*&limit=100",
    "states": "/api/states",
    "queues": "/api/queues",
    "progress by kind": "/api/progress?q=kind:none",
    "metrics": "/metrics",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiFigures:
    """What the API gave."""

    p50: Mapping[str, float]
    """Milliseconds by address, one client."""
    p99: Mapping[str, float]
    exported: int
    """Jobs in the export of everything."""
    export_seconds: float


def measure_api(database_url: str) -> ApiFigures:
    """Serve the database from a process of its own and ask it, one address after the other."""
    with serve(
        [sys.executable, "-m", "riverui", "serve", "--no-auth"], {"DATABASE_URL": database_url}
    ) as port:
        runs = {name: _ask(port, path) for name, path in _PATHS.items()}
        exported, seconds = _export(port)
    return ApiFigures(
        p50={name: statistics.median(seen) for name, seen in runs.items()},
        p99={name: statistics.quantiles(seen, n=100)[98] for name, seen in runs.items()},
        exported=exported,
        export_seconds=seconds,
    )


def _ask(port: int, path: str) -> list[float]:
    """Return the milliseconds of each answer, after the first few."""
    connection = connection_to(port)
    seen: list[float] = []
    ends_at = time.monotonic() + _SECONDS
    while time.monotonic() < ends_at or len(seen) < 10:
        started = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path} answered {answer.status}: {body[:200]!r}")
        seen.append((time.perf_counter() - started) * 1000)
    connection.close()
    return seen[3:]


def _export(port: int) -> tuple[int, float]:
    """Return how many jobs an export of everything has, and its seconds."""
    connection = connection_to(port)
    started = time.monotonic()
    connection.request("GET", "/api/jobs/export?order=id")
    answer = connection.getresponse()
    lines = 0
    while chunk := answer.read(1 << 20):
        lines += chunk.count(b"\n")
    return lines, time.monotonic() - started
