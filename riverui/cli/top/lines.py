"""The texts of `riverui top`: what the API's overview says, as lines and cells."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from riverui.cli.terminal import Heading, Screen, Table, fitted, one_line
from riverui.domain.time import aware_instant, two_units

Row = Mapping[str, Any]

TITLES = {"queues": "Queues", "running": "Running longest", "failures": "Failed recently"}
"""The tables, in their order."""
FOUND = "found"
"""The table of a search's jobs."""

_MARKS = {"ok": "✓", "warn": "⚠", "critical": "✗"}
_LEVELS = {"ok": "green", "warn": "yellow", "critical": "red"}
_EMPTY = {
    "queues": "There are no queues.",
    "running": "No job is running.",
    "failures": "No job has failed.",
}
_STATES = (
    *("available", "running", "scheduled", "retryable"),
    *("pending", "completed", "cancelled", "discarded"),
)
"""States, the most important first."""
_WIDTH = 100
"""Columns of the lines if the width of the terminal is unknown."""


def row_key(table: str, row: Row) -> str:
    """Return what distinguishes a row of a table from the others: a queue's name or a job's id."""
    return str(row["name"] if table == "queues" else row["id"])


def headings(table: str) -> tuple[Heading, ...]:
    """Return the columns of a table."""
    if table == "queues":
        numbers = ("WAITING", "RUNNING", "RETRYING", "OLDEST WAIT", "A MINUTE")
        return (
            Heading(name="QUEUE", shrinks=True, least=12),
            Heading(name="STATE", states=True),
            *(Heading(name=name, right=True) for name in numbers),
        )
    columns = (
        Heading(name={"running": "RUNNING", "failures": "FAILED"}.get(table, "JOB"), right=True),
        Heading(name="KIND", shrinks=True, least=12),
        Heading(name="QUEUE", shrinks=True, least=8),
        Heading(name="ATTEMPT", right=True),
        Heading(name="FOR" if table == "running" else "AGO", right=True),
    )
    if table == "running":
        return columns
    last = Heading(name="ERROR" if table == "failures" else "ARGS")
    return (columns[0], Heading(name="STATE", states=True), *columns[1:], last)


def cells(table: str, row: Row, overview: Row) -> list[str]:
    """Return the texts of a row's cells."""
    now = aware_instant(overview.get("at", "")) or datetime.now(UTC)
    return _queue(row, now, overview["queue_cap"]) if table == "queues" else _job(table, row, now)


def _queue(queue: Row, now: datetime, cap: int) -> list[str]:
    state = "paused" if queue["paused_at"] else "active" if queue["registered"] else "unserved"
    pace = queue["ended_per_minute"]
    return [
        one_line(queue["name"]),
        state,
        *(
            f"{queue[name]:,}{'+' if queue[name] >= cap > 0 else ''}"
            for name in ("available", "running", "retryable")
        ),
        _since(queue["oldest_waiting_at"], now),
        "—" if pace is None else f"{pace:,.0f}" if pace >= 10 or not pace else f"{pace:.1f}",
    ]


def _job(table: str, job: Row, now: datetime) -> list[str]:
    at = job.get("finalized_at") or job["attempted_at"] or job.get("scheduled_at")
    attempt = f"{job['attempt']}/{job['max_attempts']}"
    found = [str(job["id"]), one_line(job["kind"]), one_line(job["queue"]), attempt]
    found.append(_since(at, now))
    if table == "running":
        return found
    last = one_line(job["error"] or "" if table == "failures" else job["args"])
    return [found[0], one_line(job["state"]), *found[1:], last]


def _since(text: str | None, now: datetime) -> str:
    at = aware_instant(text or "")
    return "—" if at is None else two_units(max(0, int((now - at).total_seconds())))


def title(place: str, overview: Row) -> tuple[str, str]:
    """Return the left and the right half of the title: what is shown, and when it was read."""
    at = aware_instant(overview.get("at", ""))
    clock = f"{at.astimezone(UTC):%H:%M:%S} UTC" if at else ""
    return f"riverui top  {one_line(place)}", clock


def verdicts(overview: Row, screen: Screen) -> Iterator[tuple[str, str]]:
    """Yield the mark and the text of each answer of the health report."""
    for section in overview["health"]["sections"]:
        color = _LEVELS.get(section["level"], "magenta")
        mark = screen.style(_MARKS.get(section["level"], "?"), color, "bold")
        yield mark, one_line(f"{section['label']} {section['headline']}", 1_000)


def states(overview: Row) -> Iterator[tuple[str, str]]:
    """Yield each state, and its name with the number of its jobs."""
    counts = {each["state"]: each for each in overview.get("states") or ()}
    for state in (state for state in _STATES if state in counts):
        number, precision = f"{counts[state]['count']:,}", counts[state]["precision"]
        number = {"at_least": f"{number}+", "estimated": f"≈ {number}"}.get(precision, number)
        yield state, f"{state} {number}"


def missing(table: str, overview: Row) -> str:
    """Return why a table has no rows; empty if it has some."""
    rows = overview.get(table)
    if rows is None:
        return one_line(overview["missing"] or "You may not see them.")
    return "" if rows else _EMPTY[table]


def all_lines(overview: Row, place: str, screen: Screen) -> list[str]:
    """Return the whole overview as lines."""
    width = screen.width or _WIDTH
    left, clock = title(place, overview)
    lines = [screen.style(f"{fitted(left, max(width - len(clock) - 1, 10))} {clock}", "bold")]
    for mark, text in verdicts(overview, screen):
        wrapped = textwrap.wrap(text, max(width - 2, 20), max_lines=2, placeholder=" …")
        lines += [f"{'  ' if at else f'{mark} '}{part}" for at, part in enumerate(wrapped)]
    # A line may end between two states only.
    counts = "   ".join(text.replace(" ", "\xa0") for _, text in states(overview))
    lines += ["", *(line.replace("\xa0", " ") for line in textwrap.wrap(counts, width))]
    for table, name in TITLES.items():
        lines.append("")
        if reason := missing(table, overview):
            lines.append(f"{screen.style(name, 'bold')}: {reason}")
        else:
            rows = [cells(table, row, overview) for row in overview[table]]
            fitting = Screen(colors=screen.colors, width=width)
            lines += Table(headings(table), fitting).lines(rows)
    return lines
