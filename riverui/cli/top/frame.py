"""Draws what `riverui top` shows: lines of text from what is known, and from nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from riverui.cli.terminal import Heading, Screen, Table, columns_of, fitted, one_line
from riverui.domain.clock import aware_instant, two_units

SECTIONS = ("queues", "running", "failures")
"""The tables, in their order."""
FOUND = "found"
"""The table that takes their place while a search is shown."""

_MARKS = {"ok": "✓", "warn": "⚠", "critical": "✗", "unknown": "?"}
_LEVELS = {"ok": "green", "warn": "yellow", "critical": "red", "unknown": "magenta"}
_TITLES = {"queues": "Queues", "running": "Running longest", "failures": "Failed lately"}
_NOTHING = {
    "queues": "No queue.",
    "running": "No job is running.",
    "failures": "No job has failed.",
    FOUND: "No job matches.",
}
_KEYS = "q quit  tab ↑↓ select  enter show  p pause  c cancel  r retry  / search  ? help"
_BACK_KEYS = "esc back  ↑↓ scroll  c cancel  r retry  q quit"
_FOUND_KEYS = "esc back  ↑↓ select  enter show  c cancel  r retry  / search  q quit"
_ROOMY = 30
"""Lines from which on there is room for a second line of each verdict."""
_WIDE = 100
"""Columns from which on ids, attempts and the like stand in tables."""
_ORDER = (
    *("available", "running", "scheduled", "retryable"),
    *("pending", "completed", "cancelled", "discarded"),
)
"""States in the order of their importance."""

HELP = (
    "",
    "  q          quit",
    "  tab        the next table; shift and tab the one before",
    "  ↑ ↓ j k    select a row",
    "  enter      show the job; of a queue, its jobs",
    "  p          pause the selected queue, or resume it (asks first)",
    "  c          cancel the selected job",
    "  r          run the selected job again now",
    "  /          search jobs, as in the dashboard's box",
    "  esc        back",
    "  ?          this help",
)


@dataclass(kw_only=True, slots=True)
class View:
    """What is known and what is looked at."""

    where: str
    """What is asked, as the title tells it."""
    overview: Mapping[str, Any] | None = None
    """The answer of the API's /overview; None before the first."""
    section: str = "queues"
    selected: dict[str, str] = field(default_factory=dict)
    """The key of the selected row of each table: a queue's name, a job's id."""
    found: Sequence[Mapping[str, Any]] | None = None
    """The jobs that a search has found; None where none is shown."""
    search: str = ""
    lines: Sequence[str] | None = None
    """What is shown in place of the tables: a job, or help."""
    shown: str = ""
    """The id of the job that is shown so."""
    scroll: int = 0
    prompt: str | None = None
    """The search that is being typed."""
    question: str = ""
    message: str = ""
    trouble: str = ""
    """Why nothing newer is known."""

    def rows(self, section: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a table."""
        if section == FOUND:
            return self.found or ()
        return (self.overview or {}).get(section) or ()

    def key(self, section: str) -> str:
        """Return the key of the selected row: the first where none is selected, or it is gone;
        empty without rows.
        """
        keys = [row_key(section, row) for row in self.rows(section)]
        chosen = self.selected.get(section, "")
        return chosen if chosen in keys else next(iter(keys), "")


def row_key(section: str, row: Mapping[str, Any]) -> str:
    """Return what tells a row of a table from the others."""
    return str(row["name"] if section == "queues" else row["id"])


def frame(view: View, screen: Screen, *, height: int | None = None) -> list[str]:
    """Return the lines of a frame, `height` of them; without it as many as there is to tell, and
    nothing about keys.
    """
    width = screen.width or _WIDE
    head = [_title(view, screen, width), *_verdicts(view, screen, width, height)]
    head += [*_states(view, screen, width), ""]
    if height is None:
        return [*head, *_tables(view, screen, width, None)]
    room = max(height - len(head) - 1, 1)
    if view.lines is not None:
        body = [fitted(line, width).rstrip() if _fits(line) else line for line in view.lines]
        body = body[view.scroll : view.scroll + room]
    else:
        body = _tables(view, screen, width, room)
    body += [""] * (room - len(body))
    return [*head, *body[:room], _foot(view, screen, width)][:height]


def _fits(line: str) -> bool:
    """Return whether a line has no colours, and so can be cut."""
    return "\x1b" not in line


def _title(view: View, screen: Screen, width: int) -> str:
    at = aware_instant((view.overview or {}).get("at", ""))
    clock = f"{at.astimezone(UTC):%H:%M:%S} UTC" if at else ""
    left = f"riverui top  {one_line(view.where)}"
    room = max(width - len(clock) - 1, 10)
    line = f"{fitted(left, room)} {clock}"
    if view.trouble:
        return screen.style(fitted(f"{one_line(view.trouble)} {clock}".strip(), width), "red")
    return screen.style(fitted(line, width), "bold")


def _verdicts(view: View, screen: Screen, width: int, height: int | None) -> list[str]:
    """Return a line for each answer of the health report, two where there is room."""
    if view.overview is None:
        return ["", "Reading …" if not view.trouble else "", ""]
    lines = []
    most = 1 if height is not None and height < _ROOMY else 2
    for section in view.overview["health"]["sections"]:
        level = section["level"]
        told = one_line(" ".join(filter(None, (section["label"], section["headline"]))), 1_000)
        wrapped = textwrap.wrap(told, max(width - 2, 20), max_lines=most, placeholder=" …")
        mark = screen.style(_MARKS.get(level, "?"), _LEVELS.get(level, "magenta"), "bold")
        lines += [f"{'  ' if at else f'{mark} '}{text}" for at, text in enumerate(wrapped)]
    return lines


def _states(view: View, screen: Screen, width: int) -> list[str]:
    """Return the numbers of jobs by state, on as many lines as they take."""
    counts = {each["state"]: each for each in (view.overview or {}).get("states") or ()}
    lines: list[str] = [""]
    taken = 0
    for state in _ORDER:
        if state not in counts:
            continue
        number = _count(counts[state])
        size = len(state) + 1 + len(number)
        if taken and taken + 3 + size > width:
            lines.append("")
            taken = 0
        gap = "   " if taken else ""
        lines[-1] += f"{gap}{screen.state(state)} {screen.style(number, 'bold')}"
        taken += len(gap) + size
    return ["", *lines] if counts else []


def _count(each: Mapping[str, Any]) -> str:
    number = f"{each['count']:,}"
    return {"at_least": f"{number}+", "estimated": f"≈ {number}"}.get(each["precision"], number)


def _tables(view: View, screen: Screen, width: int, room: int | None) -> list[str]:
    """Return the tables below one another, each with as many rows as the room gives it."""
    if view.overview is None:
        return []
    if view.found is not None:
        title = screen.style(one_line(f"Jobs that match: {view.search or 'everything'}"), "bold")
        rows = _table(view, FOUND, screen, width, None if room is None else room - 2)
        return [title, *rows]
    lines: list[str] = []
    shares = _shares([len(view.rows(section)) for section in SECTIONS], room)
    for section, share in zip(SECTIONS, shares, strict=True):
        if view.overview.get(section) is None:
            told = view.overview["missing"] or "You may not see them."
            lines += [f"{_TITLES[section]}: {one_line(told)}", ""]
            continue
        lines += [*_table(view, section, screen, width, share), ""]
    return lines[:-1]


def _shares(needs: Sequence[int], room: int | None) -> list[int | None]:
    """Return how many rows each table gets: what one does not need goes to the others."""
    if room is None:
        return [None] * len(needs)
    # Each has a heading, and all but the last a line behind it.
    left = max(room - 2 * len(needs) + 1, len(needs))
    shares = [0] * len(needs)
    while left > 0 and any(share < need for share, need in zip(shares, needs, strict=True)):
        for at, need in enumerate(needs):
            if left > 0 and shares[at] < need:
                shares[at] += 1
                left -= 1
    return [max(share, 1) for share in shares]


def _table(view: View, section: str, screen: Screen, width: int, most: int | None) -> list[str]:
    rows, key = view.rows(section), view.key(section)
    now = aware_instant((view.overview or {}).get("at", "")) or datetime.now(UTC)
    if not rows:
        title = _TITLES.get(section)
        return [
            f"{screen.style(title, 'bold')}  {_NOTHING[section]}" if title else _NOTHING[section]
        ]
    active = most is not None and section == view.section
    at = next((n for n, row in enumerate(rows) if row_key(section, row) == key), 0)
    start = 0 if most is None else max(0, min(at - most // 2, len(rows) - most))
    shown = rows[start:] if most is None else rows[start : start + most]
    headings = _queue_headings() if section == "queues" else _job_headings(section, width)
    cap = (view.overview or {}).get("queue_cap") or 0
    cells = [
        _queue_cells(row, now, cap) if section == "queues" else _job_cells(section, row, now, width)
        for row in shown
    ]
    inside = width - 2
    colored = Table(headings, Screen(colors=screen.colors, width=inside)).lines(cells)
    plain = Table(headings, Screen(width=inside)).lines(cells)
    lines = [f"  {colored[0]}"]
    for n, row in enumerate(shown, 1):
        if active and row_key(section, row) == key:
            # Without colours the mark alone tells what is selected.
            text = fitted(f"› {plain[n]}", width)
            lines.append(f"\x1b[7m{text}\x1b[0m" if screen.colors else text.rstrip())
        else:
            lines.append(f"  {colored[n]}")
    return lines


def _queue_headings() -> tuple[Heading, ...]:
    return (
        Heading(name="QUEUE", gives=True, least=12),
        Heading(name="STATE", states=True),
        Heading(name="WAITING", right=True),
        Heading(name="RUNNING", right=True),
        Heading(name="RETRYING", right=True),
        Heading(name="OLDEST WAIT", right=True),
        Heading(name="A MINUTE", right=True),
    )


def _queue_cells(queue: Mapping[str, Any], now: datetime, cap: int) -> Sequence[str]:
    state = "paused" if queue["paused_at"] else "active" if queue["registered"] else "unserved"

    def number(name: str) -> str:
        return f"{queue[name]:,}{'+' if queue[name] >= cap > 0 else ''}"

    pace = queue["ended_per_minute"]
    return (
        one_line(queue["name"]),
        state,
        number("available"),
        number("running"),
        number("retryable"),
        _since(queue["oldest_waiting_at"], now),
        "—" if pace is None else f"{pace:,.0f}" if pace >= 10 or not pace else f"{pace:.1f}",
    )


def _job_headings(section: str, width: int) -> tuple[Heading, ...]:
    title = {"running": "RUNNING", "failures": "FAILED", FOUND: "JOB"}[section]
    headings = [Heading(name=title, right=True)]
    if section == FOUND or width >= _WIDE:
        headings.append(Heading(name="STATE", states=True))
    headings += [
        Heading(name="KIND", gives=True, least=12),
        Heading(name="QUEUE", gives=True, least=8),
        Heading(name="ATTEMPT", right=True),
        Heading(name="FOR" if section == "running" else "AGO", right=True),
    ]
    if section != "running":
        headings.append(Heading(name="ERROR" if section == "failures" else "ARGS"))
    return tuple(headings)


def _job_cells(section: str, job: Mapping[str, Any], now: datetime, width: int) -> Sequence[str]:
    cells = [str(job["id"])]
    if section == FOUND or width >= _WIDE:
        cells.append(one_line(job["state"]))
    at = job.get("finalized_at") or job["attempted_at"] or job.get("scheduled_at")
    cells += [
        one_line(job["kind"]),
        one_line(job["queue"]),
        f"{job['attempt']}/{job['max_attempts']}",
        _since(at, now),
    ]
    if section != "running":
        cells.append(one_line(job["error"] or "" if section == "failures" else job["args"]))
    return cells


def _since(text: str | None, now: datetime) -> str:
    at = aware_instant(text or "")
    return "—" if at is None else two_units(max(0, int((now - at).total_seconds())))


def _foot(view: View, screen: Screen, width: int) -> str:
    """Return the last line: what is being typed or asked, what was done, or the keys."""
    if view.prompt is not None:
        room = max(width - 3, 1)
        typed = view.prompt
        while columns_of(typed) > room:
            typed = typed[1:]
        return f"/{typed}▏"
    if view.question:
        return screen.style(fitted(f"{one_line(view.question)} y/n", width), "yellow", "bold")
    if view.message:
        return screen.style(fitted(one_line(view.message), width), "bold")
    keys = _BACK_KEYS if view.lines is not None else _KEYS
    if view.lines is None and view.found is not None:
        keys = _FOUND_KEYS
    return screen.style(fitted(keys, width), "bright_black")
