"""Many viewers of live pages: how long each waits, and the load of the server and the database."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from bench.pages import ask, connection_to, started

CROWDS = (10, 200, 400, 1_000, 5_000, 10)
"""Numbers of viewers; the first has one for each address, as the baseline of the database's work,
and so has the last, right after all the others have left.
"""
_INTERVAL = 2.0
"""Seconds between two refreshes: what pages do unless the viewer chose otherwise."""
_WARM = 6.0
"""Seconds until every connection is open and every region has its first answer."""
_NAME = "riverui-viewers"
"""The application name of the server under test in the database's sessions."""
_TICKS = os.sysconf("SC_CLK_TCK")
_REGION = re.compile(r'<(\w+)\s+id="([^"]+)"[^>]*\sdata-region=[^>]*\shx-get="([^"]+)"')
_TRANSACTIONS = re.compile(r"^riverui_database_seconds_count\{.*\} (\S+)$", re.MULTILINE)
_BROWSER = {
    "Accept-Encoding": "gzip, deflate, br, zstd",
    "Accept-Language": "en-GB,en;q=0.9",
    "Connection": "keep-alive",
    "Sec-Fetch-Dest": "empty",
    "Sec-Fetch-Mode": "cors",
    "Sec-Fetch-Site": "same-origin",
    "User-Agent": (
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
        " Chrome/142.0.0.0 Safari/537.36"
    ),
    "sec-ch-ua": '"Chromium";v="142", "Not_A Brand";v="99"',
    "sec-ch-ua-mobile": "?0",
    "sec-ch-ua-platform": '"Linux"',
}
"""Headers of a browser besides htmx's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrowdFigures:
    """The answers to so many viewers within some seconds, and their load."""

    viewers: int
    p50: float
    """Milliseconds of the answers with 200 or 304."""
    p95: float
    longest: float
    statuses: Mapping[str, int]
    errors: Mapping[str, int]
    """Failed connections by error."""
    bytes_per_second: float
    core: float
    """Share of one core that the server used."""
    transactions: float
    """Transactions a second."""
    database_core: float | None
    """Share of one core that the database's sessions used; None if they are on another
    machine.
    """

    @property
    def refused(self) -> int:
        """Answers with 503."""
        return self.statuses.get("503", 0)

    @property
    def failed(self) -> int:
        """Unexpected answers and failed connections."""
        bad = sum(number for status, number in self.statuses.items() if status not in _GOOD)
        return bad + sum(self.errors.values())


_GOOD = frozenset({"200", "304", "503"})


def measure_viewers(
    database_url: str,
    *,
    crowds: Sequence[int] = CROWDS,
    seconds: float = 20.0,
    warm: float = _WARM,
) -> Iterator[CrowdFigures]:
    """Yield the figures of each crowd. All use one server with default settings, which shares the
    processors with the database and the viewers. Nothing if Go is missing.
    """
    if shutil.which("go") is None:
        print("viewers: they are written in Go, which is not there")
        return
    with contextlib.ExitStack() as stack:
        program = _build(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        database = stack.enter_context(psycopg.connect(database_url, autocommit=True))
        command = [sys.executable, "-m", "riverui", "serve", "--no-auth"]
        environment = {"DATABASE_URL": make_conninfo(database_url, application_name=_NAME)}
        port, server = stack.enter_context(started(command, environment))
        requests = [_live_request(port, path) for path in _paths(database)]
        for viewers in crowds:
            plan = {
                "address": f"127.0.0.1:{port}",
                "requests": requests,
                "viewers": viewers,
                "interval": _INTERVAL,
                "warm": warm,
                "seconds": seconds,
            }
            with contextlib.closing(_Meter(port, server.pid, database)) as meter:
                figures = _crowd(program, plan, meter)
            yield figures


def _build(folder: Path) -> Path:
    program = folder / "viewers"
    source = Path(__file__).with_name("main.go")
    done = subprocess.run(
        ["go", "build", "-o", program, source], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"go build of {source} failed:\n{done.stderr}")
    return program


def _paths(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return ten pages that people leave open."""
    row = connection.execute(
        "select id, kind, queue from river_job where state = 'running' limit 1"
    ).fetchone()
    assert row is not None
    job, kind, queue = row
    return (
        "/jobs",
        "/jobs?state=running",
        "/jobs?state=completed",
        "/jobs?state=available",
        "/jobs?state=retryable",
        "/jobs?state=discarded",
        f"/jobs?q=kind%3A{kind}",
        f"/jobs/{job}",
        "/queues",
        f"/queues/{queue}",
    )


def _live_request(port: int, path: str) -> dict[str, Any]:
    """Return the live request of the page at that address, as htmx sends it."""
    connection = connection_to(port)
    page = ask(connection, path).decode()
    connection.close()
    found = _REGION.search(page)
    assert found is not None, f"{path} has no live region"
    element, origin = f"{found[1]}#{found[2]}", f"http://127.0.0.1:{port}"
    htmx = {
        "Accept": "text/html",
        "HX-Current-URL": origin + path,
        "HX-Request": "true",
        "HX-Request-Type": "partial",
        "HX-Source": element,
        "HX-Target": element,
        "Referer": origin + path,
        "Riverui-Live": f"{_INTERVAL:g}",
    }
    return {"path": html.unescape(found[3]), "headers": {**_BROWSER, **htmx}}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    at: float
    """Seconds of the clock."""
    server: float
    """Seconds of processor time, as everything below but `transactions`."""
    database: Mapping[int, float] | None
    """By session."""
    transactions: float


class _Meter:
    """Reads the processor time of the server and its database sessions."""

    def __init__(self, port: int, server: int, database: psycopg.Connection[Any]) -> None:
        self._server = server
        self._database = database
        # Opened before the crowd starts, while connections are free.
        self._metrics = connection_to(port)
        self._metrics.connect()

    def close(self) -> None:
        """Close its connection."""
        self._metrics.close()

    def read(self) -> _Reading:
        """Return the current figures."""
        sessions = self._database.execute(
            "select pid from pg_stat_activity where application_name = %s", [_NAME]
        ).fetchall()
        used = {pid: _processor_seconds(pid) for (pid,) in sessions}
        at, server = time.monotonic(), _processor_seconds(self._server)
        self._metrics.request("GET", "/metrics")
        text = self._metrics.getresponse().read().decode()
        return _Reading(
            at=at,
            server=server or 0.0,
            database={pid: spent for pid, spent in used.items() if spent is not None} or None,
            transactions=sum(map(float, _TRANSACTIONS.findall(text))),
        )


def _processor_seconds(pid: int) -> float | None:
    """Return the processor time of a process; None if it is not on this machine."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _crowd(program: Path, plan: Mapping[str, Any], meter: _Meter) -> CrowdFigures:
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdin is not None
        assert asking.stdout is not None
        json.dump(plan, asking.stdin)
        asking.stdin.close()
        asking.stdout.readline()
        before = meter.read()
        asking.stdout.readline()
        after = meter.read()
        report = json.loads(asking.stdout.readline())
    times = report["milliseconds"] or [float("nan")]
    seconds = after.at - before.at
    database = None
    if before.database is not None and after.database is not None:
        database = sum(
            spent - before.database.get(pid, 0.0) for pid, spent in after.database.items()
        )
    return CrowdFigures(
        viewers=plan["viewers"],
        p50=statistics.median(times),
        p95=times[int(len(times) * 0.95)],
        longest=times[-1],
        statuses=report["statuses"],
        errors=report["errors"],
        bytes_per_second=report["bytes"] / plan["seconds"],
        core=(after.server - before.server) / seconds,
        transactions=(after.transactions - before.transactions) / seconds,
        database_core=None if database is None else database / seconds,
    )
