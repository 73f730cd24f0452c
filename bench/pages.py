"""Measures the 100-row page beside a bare page of the same size, in turns."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PATH = "/jobs?limit=100"
_ROUND = 1.5
"""Seconds of each turn."""
_CLIENTS = 4
"""Clients that ask at once: one for each connection of the pool."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageFigures:
    """The figures of the two pages."""

    bytes: int
    bare_bytes: int
    per_second: float
    bare_per_second: float
    ratio: float
    """Requests per second beside the bare page's, of each two turns that follow one another."""
    p50: float
    """Milliseconds, one client."""
    p99: float
    bare_p50: float
    bare_p99: float
    assets: int
    """Bytes of all scripts and styles that the page names, gzipped."""


def measure_pages(database_url: str, *, rounds: int = 9) -> PageFigures:
    """Serve both pages from their own processes, ask them in turns, and take medians of the
    turns.
    """
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(
            serve(
                [sys.executable, "-m", "riverui", "serve", "--no-auth"],
                {"DATABASE_URL": database_url},
            )
        )
        size = len(_get(ours, _PATH))
        bare = stack.enter_context(
            serve(
                [sys.executable, "-m", "uvicorn", "--no-access-log", "bench.bare:app"],
                {"BENCH_DATABASE_URL": database_url, "BENCH_BYTES": str(size)},
            )
        )
        _get(bare, "/jobs?measure=1")
        turns: dict[int, list[tuple[float, list[float]]]] = {ours: [], bare: []}
        for port in (ours, bare):
            _load(port, clients=1, seconds=1)
        for _ in range(rounds):
            for port, seen in turns.items():
                per_second = len(_load(port, clients=_CLIENTS, seconds=_ROUND)) / _ROUND
                seen.append((per_second, _load(port, clients=1, seconds=_ROUND)))

        def middle(port: int, centile: int) -> float:
            return statistics.median(
                statistics.quantiles(lone, n=100)[centile - 1] for _, lone in turns[port]
            )

        return PageFigures(
            bytes=size,
            bare_bytes=len(_get(bare, "/jobs")),
            per_second=statistics.median(rate for rate, _ in turns[ours]),
            bare_per_second=statistics.median(rate for rate, _ in turns[bare]),
            ratio=statistics.median(
                mine / theirs
                for (mine, _), (theirs, _) in zip(turns[ours], turns[bare], strict=True)
            ),
            p50=middle(ours, 50),
            p99=middle(ours, 99),
            bare_p50=middle(bare, 50),
            bare_p99=middle(bare, 99),
            assets=_assets(ours),
        )


@contextlib.contextmanager
def serve(command: list[str], environment: Mapping[str, str]) -> Iterator[int]:
    """Yield a server process on a free port, ready to answer."""
    with started(command, environment) as (port, _):
        yield port


@contextlib.contextmanager
def started(
    command: list[str], environment: Mapping[str, str]
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Yield the port and the process of a server that is ready to answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    own = {
        "PORT": str(port),
        "UVICORN_PORT": str(port),
        "RIVER_LOG_LEVEL": "warn",
        "UVICORN_LOG_LEVEL": "warning",
    }
    process = subprocess.Popen(command, env={**os.environ, **own, **environment})
    try:
        deadline = time.monotonic() + 30
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1),
            ):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"did not start: {' '.join(command)}")
            time.sleep(0.05)
        yield port, process
    finally:
        process.terminate()
        process.wait(20)


def connection_to(port: int, *, timeout: float = 30) -> http.client.HTTPConnection:
    """Return a client of a server on this machine, that waits so many seconds for an answer."""
    return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)


def _get(port: int, path: str) -> bytes:
    connection = connection_to(port)
    try:
        return ask(connection, path)
    finally:
        connection.close()


def ask(connection: http.client.HTTPConnection, path: str) -> bytes:
    """Return the body of a page; ends the run where the answer is not 200."""
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise SystemExit(f"GET {path} answered {response.status}")
    return body


def _load(port: int, *, clients: int, seconds: float) -> list[float]:
    """Milliseconds of every answer that so many clients got, each asking again as soon as it has
    one.
    """
    answers: list[float] = []
    end = time.monotonic() + seconds

    def client() -> None:
        connection = connection_to(port)
        while (start := time.perf_counter()) and time.monotonic() < end:
            ask(connection, _PATH)
            answers.append((time.perf_counter() - start) * 1000)
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _assets(port: int) -> int:
    """Every script and stylesheet that the page loads, each gzipped, together."""
    html = _get(port, _PATH).decode()
    paths = re.findall(r'<script[^>]*\ssrc="([^"]+)"', html)
    paths += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]+)"', html)
    assert paths, "the page names neither scripts nor styles"
    return sum(len(gzip.compress(_get(port, path))) for path in paths)
