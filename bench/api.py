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
    at_most: float = 1.15
    """Times what River UI takes."""
    less_empty: bool = False
    """Whether the time of an empty answer is taken off ours first: the whole of it is Python's."""


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
    empty: Times
    """uvicorn's empty answer."""

    @property
    def ratio(self) -> float | None:
        """Our time beside River UI's; None without River UI, or if one of the two failed."""
        if self.river_ui is None or {self.ours.status, self.river_ui.status} != {200}:
            return None
        ours = self.ours.median - (self.empty.median if self.address.less_empty else 0)
        return ours / self.river_ui.median


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
    empty = [f"{statistics.median(_medians(figures[rows])):.2f}" for rows in sizes]
    lines.append(f"| uvicorn's empty answer | {' | | | '.join(empty)} | | |")
    return lines


def _medians(figures: ApiFigures) -> list[float]:
    return [pair.empty.median for pair in figures.pairs]


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
        bare = [sys.executable, "-m", "uvicorn", "--no-access-log", "bench.bare:empty"]
        empty = stack.enter_context(serve(bare, {}))
        pairs = [_ask(address, ours, theirs, empty) for address in _addresses(url)]
        exported, seconds = _export(ours) if export else (0, 0.0)
    return ApiFigures(pairs=pairs, exported=exported, export_seconds=seconds)


def _addresses(url: str) -> Iterator[Address]:
    """Yield the addresses; names for filters come from the database."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select (select max(id) / 2 from river_job),"
            " (select id from river_job where state = 'discarded' and finalized_at is not null"
            " order by finalized_at desc limit 1), (select t from river_job j, unnest(j.tags) t"
            " where state = 'completed' and t like 'tenant-%' group by 1 order by count(*), 1"
            " limit 1)"
        ).fetchone()
    assert row is not None
    job_id, failed_id, tag = row
    yield _list("jobs completed, 20", "state=completed", limit=20)
    for state in ("completed", "discarded", "available", "scheduled", "retryable"):
        yield _list(f"jobs {state}, 100", f"state={state}")
    yield _list("jobs running, 100", "")
    for state, name, given in (
        ("completed", "of a common kind", "kinds=kind_00"),
        ("completed", "of a rare kind", f"kinds={RETIRED}"),
        ("completed", "of a queue", "queues=default"),
        ("completed", "of a priority", "priorities=4"),
        ("completed", "with a rare tag", f"tags={quote(tag)}"),
        ("scheduled", "of a kind", "kinds=kind_10"),
        ("scheduled", "of a queue", "queues=email"),
        ("scheduled", "of a priority", "priorities=2"),
    ):
        yield _list(f"{state} {name}, 100", f"state={state}&{given}")
    yield Address(name="one job", path=f"/api/jobs/{job_id}", less_empty=True)
    yield Address(name="a job with 25 errors", path=f"/api/jobs/{failed_id}", less_empty=True)
    yield Address(name="states", path="/api/states", less_empty=True)
    yield Address(name="queues", path="/api/queues")
    for what, facet in (("kinds", "job_kind"), ("queues", "queue_name")):
        path = f"/api/autocomplete?facet={facet}"
        yield Address(name=f"autocomplete of {what}", path=path)
        yield Address(name=f"autocomplete of {what} with “i”", path=f"{path}&match=i")


def _list(name: str, given: str, limit: int = 100) -> Address:
    return Address(name=name, path=f"/api/jobs?limit={limit}&{given}")


def _ask(address: Address, ours: int, theirs: int | None, empty: int) -> Pair:
    """Ask each server in turn, each time on the connection that was kept."""
    times = {port: Times() for port in (ours, theirs, empty) if port is not None}
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
    return Pair(address=address, ours=times[ours], river_ui=river_ui, empty=times[empty])


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
