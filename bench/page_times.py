"""Measures each page in Python and in the database, and the first request of a process beside
the next ones.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import psycopg
from psycopg.rows import TupleRow
from starlette.applications import Starlette
from starlette.types import Message

from bench.pages import ask, connection_to, serve
from riverui import create_app

_REPEATS = 40
"""Requests for each page, after some that warm it up."""
_WARM = 3
"""Requests for each page before those that are measured: plans, caches and templates are there."""
_STARTS = 3
"""Processes that are asked for each first request."""
_NEXT = 3
"""Further requests, whose median the first one is compared with."""
_PAUSE = 2.1
"""Seconds before each request: a new process has nothing more to do by then, and what was counted
for the request before is counted anew, as for the first.
"""
_FIRST = ("jobs: running", "a job", "queues", "API: running")
"""Pages of which the first request is measured, each in processes of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageTime:
    """What one page took, in milliseconds: the least of its requests, as a busy machine adds to the
    others.
    """

    name: str
    bytes: int
    python: float
    """The processor's time."""
    database: float
    """The rest of the time, spent waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstRequest:
    """The first request of a process, in milliseconds, and the median of the next ones."""

    name: str
    first: float
    next: float


def addresses(connection: psycopg.Connection[TupleRow]) -> Mapping[str, str]:
    """Return the address of each page by its name."""

    def one(query: str) -> object:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    newest = "select max(id) from river_job where state = "
    completed, discarded = one(f"{newest}'completed'"), one(f"{newest}'discarded'")
    queue = quote(str(one("select min(name) from river_queue")))
    states = ("running", "available", "scheduled", "retryable", "pending")
    ended = ("completed", "discarded", "cancelled")
    return {
        "jobs: all": "/jobs?limit=100",
        **{f"jobs: {state}": f"/jobs?state={state}&limit=100" for state in (*states, *ended)},
        "search: kind": "/jobs?q=kind%3Akind_01&limit=100",
        "search: queue": f"/jobs?q=queue%3A{queue}&limit=100",
        "search: tag": "/jobs?q=tag%3Avip&limit=100",
        "search: args": "/jobs?q=args.user_id%3A77&limit=100",
        "search: error": "/jobs?q=error%3Atimeout&limit=100",
        "a job": f"/jobs/{completed}",
        "a failed job": f"/jobs/{discarded}",
        "queues": "/queues",
        "a queue": f"/queues/{queue}",
        "errors": "/errors",
        "operations": "/operations",
        "about": "/about",
        "help": "/help",
        "API reference": "/api",
        "API: running": "/api/jobs",
    }


async def measure_page_times(database_url: str) -> Sequence[PageTime]:
    """Ask for each page, one request after the other, in this process."""
    with psycopg.connect(database_url) as connection:
        pages = addresses(connection)
    app = create_app(database_url, no_auth=True)
    async with app.router.lifespan_context(app):
        gc.collect()
        gc.freeze()
        times = [await _time(app, name, path) for name, path in pages.items()]
    gc.unfreeze()
    return times


def measure_first_requests(database_url: str) -> Sequence[FirstRequest]:
    """Start processes, and ask each for one page, at first and then again."""
    with psycopg.connect(database_url) as connection:
        pages = addresses(connection)
    found = []
    for name in _FIRST:
        runs = [_first_and_next(database_url, pages[name]) for _ in range(_STARTS)]
        found.append(
            FirstRequest(
                name=name,
                first=statistics.median(first for first, _ in runs),
                next=statistics.median(later for _, later in runs),
            )
        )
    return found


async def _time(app: Starlette, name: str, path: str) -> PageTime:
    python, database, size = [], [], 0
    for number in range(_WARM + _REPEATS):
        started, busy = time.perf_counter(), time.thread_time()
        size = await _ask(app, path)
        spent = time.thread_time() - busy
        if number >= _WARM:
            python.append(spent)
            database.append(time.perf_counter() - started - spent)
    return PageTime(
        name=name,
        bytes=size,
        python=min(python) * 1000,
        database=min(database) * 1000,
    )


async def _ask(app: Starlette, path: str) -> int:
    """Return the bytes of a page; end the run where the answer is not 200."""
    sent: list[Message] = []
    path, _, query = path.partition("?")

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    if sent[0]["status"] != 200:
        raise SystemExit(f"GET {path}?{query} answered {sent[0]['status']}")
    return sum(len(message.get("body", b"")) for message in sent)


def _first_and_next(database_url: str, path: str) -> tuple[float, float]:
    """Return what a new process takes for its first request, and the median of the next ones."""
    command = [sys.executable, "-m", "riverui", "serve", "--no-auth"]
    with serve(command, {"DATABASE_URL": database_url}) as port:
        connection = connection_to(port)
        taken = []
        for _ in range(1 + _NEXT):
            time.sleep(_PAUSE)
            started = time.perf_counter()
            ask(connection, path)
            taken.append((time.perf_counter() - started) * 1000)
        connection.close()
    return taken[0], statistics.median(taken[1:])
