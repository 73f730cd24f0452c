"""Measures the API beside River UI's, if Go is there to build it: the same addresses on persistent
connections, in turns; and an export of everything.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import psycopg

from bench.generate import RETIRED
from bench.pages import connection_to, serve
from tests.interop.worker import build

_RIVER_UI = "riverqueue.com/riverui/cmd/riverui"
"""The Go package of River UI's program."""
_SECONDS = 6.0
"""For each address, of both together."""
_ROUNDS, _LEAST = 60, 3
"""Most turns of each address, and how many there are however long they take."""
_WARM = 2
"""Turns that do not count if there are more than the least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A requested address, and how long it may take beside River UI."""

    name: str
    path: str
    at_most: float | None = None
    """Times what River UI takes."""


@dataclass(slots=True)
class Times:
    """The times of one server for one address."""

    runs: list[float] = field(default_factory=list)
    """Milliseconds."""
    status: int = 200

    @property
    def median(self) -> float:
        """The median, without the warm-up."""
        warm = self.runs[_WARM:] if len(self.runs) > _WARM + _LEAST else self.runs
        return statistics.median(warm)

    def __str__(self) -> str:
        """Return the median, with the status if the request failed."""
        digits = 2 if self.median < 10 else 1 if self.median < 100 else 0
        text = f"{self.median:,.{digits}f}"
        return text if self.status == 200 else f"{self.status} after {text}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One address on one database."""

    address: Address
    ours: Times
    river_ui: Times | None

    @property
    def ratio(self) -> float | None:
        """Our time beside River UI's; None without River UI, or if one of the two failed."""
        if self.river_ui is None or {self.ours.status, self.river_ui.status} != {200}:
            return None
        return self.ours.median / self.river_ui.median


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiFigures:
    """The API's figures on one database."""

    pairs: Sequence[Pair]
    exported: int
    """Jobs in the export of everything; 0 where none was made."""
    export_seconds: float


def measure_api(urls: Mapping[int, str]) -> dict[int, ApiFigures]:
    """Serve each database from processes of its own; return the figures by its rows.

    The export is made of the smallest.
    """
    return {rows: _measure(url, export=rows == min(urls)) for rows, url in urls.items()}


def table(figures: Mapping[int, ApiFigures]) -> list[str]:
    """Return the figures as a table of Markdown."""
    sizes = list(figures)
    head = [f"{rows:,} rows | River UI | ratio" for rows in sizes]
    lines = [
        f"| `GET /api/…`, ms | {' | '.join(head)} |",
        "|---|" + "--:|" * 3 * len(sizes),
    ]
    for pairs in zip(*(figures[rows].pairs for rows in sizes), strict=True):
        cells = [
            f"{pair.ours} | {pair.river_ui or ''} | {'' if pair.ratio is None else _round(pair)}"
            for pair in pairs
        ]
        lines.append(f"| {pairs[0].address.name} | {' | '.join(cells)} |")
    return lines


def _round(pair: Pair) -> str:
    assert pair.ratio is not None
    return f"{pair.ratio:.2f}" if pair.ratio >= 0.1 else f"{pair.ratio:.1g}"


def _measure(url: str, *, export: bool) -> ApiFigures:
    with contextlib.ExitStack() as stack:
        environment = {"DATABASE_URL": url}
        own = [sys.executable, "-m", "riverui", "serve", "--no-auth"]
        ours = stack.enter_context(serve(own, environment))
        theirs = None
        if shutil.which("go") is not None:
            program = str(build("river_ui", _RIVER_UI))
            local = {**environment, "RIVER_HOST": "127.0.0.1"}
            theirs = stack.enter_context(serve([program], local))
        pairs = [_ask(address, ours, theirs) for address in _addresses(url)]
        exported, seconds = _export(ours) if export else (0, 0.0)
    return ApiFigures(pairs=pairs, exported=exported, export_seconds=seconds)


def _addresses(url: str) -> Iterator[Address]:
    """Yield the addresses; names for filters come from the database."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select (select max(id) / 2 from river_job), (select t from river_job j, unnest(j.tags)"
            " t where state = 'completed' and t like 'tenant-%' group by 1 order by count(*), 1"
            " limit 1)"
        ).fetchone()
    assert row is not None
    job_id, tag = row
    for state, limit in (("completed", 20), ("completed", 100), ("discarded", 100)):
        path = f"/api/jobs?state={state}&limit={limit}"
        at_most = 1.15 if limit == 20 else 1.3
        yield Address(name=f"jobs {state}, {limit}", path=path, at_most=at_most)
    for state in ("available", "scheduled", "retryable"):
        path = f"/api/jobs?state={state}&limit=100"
        yield Address(name=f"jobs {state}, 100", path=path, at_most=1.3)
    yield Address(name="jobs running, 100", path="/api/jobs?limit=100", at_most=1.3)
    for name, given in (
        ("of a common kind", "kinds=kind_00"),
        ("of a rare kind", f"kinds={RETIRED}"),
        ("of a queue", "queues=default"),
        ("of a priority", "priorities=4"),
        ("with a rare tag", f"tags={quote(tag)}"),
    ):
        path = f"/api/jobs?state=completed&limit=100&{given}"
        yield Address(name=f"completed {name}, 100", path=path, at_most=1.3)
    yield Address(name="one job", path=f"/api/jobs/{job_id}", at_most=1.0)
    yield Address(name="states", path="/api/states", at_most=1.0)
    yield Address(name="queues", path="/api/queues", at_most=1.3)
    kinds = "/api/autocomplete?facet=job_kind"
    yield Address(name="autocomplete of kinds", path=kinds, at_most=1.0)


def _ask(address: Address, ours: int, theirs: int | None) -> Pair:
    """Ask each server in turn, each time on the connection that was kept."""
    times = {port: Times() for port in (ours, theirs) if port is not None}
    with contextlib.ExitStack() as stack:
        connections = {
            port: stack.enter_context(contextlib.closing(connection_to(port, timeout=60)))
            for port in times
        }
        ends_at = time.monotonic() + _SECONDS
        for turn in range(_ROUNDS):
            if turn >= _LEAST and time.monotonic() > ends_at:
                break
            for port, seen in times.items():
                started = time.perf_counter()
                connections[port].request("GET", address.path)
                answer = connections[port].getresponse()
                answer.read()
                seen.runs.append((time.perf_counter() - started) * 1000)
                seen.status = answer.status
    river_ui = None if theirs is None else times[theirs]
    return Pair(address=address, ours=times[ours], river_ui=river_ui)


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
