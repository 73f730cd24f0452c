"""Text for terminals: tables that fit, colours where supported, and no control characters."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TextIO

import click

from riverui.domain.text import HIDDEN, code_point, plain
from riverui.domain.time import aware_instant, two_units
from riverui.errors import RiveruiError

_CELL = 200
"""Characters of a cell if the width of the terminal is unknown."""
_GAP = "  "
_COLORS = {
    "available": "cyan",
    "cancelled": "bright_black",
    "completed": "green",
    "discarded": "red",
    "paused": "yellow",
    "pending": "bright_black",
    "retryable": "yellow",
    "running": "blue",
    "scheduled": "magenta",
}
_SGR = {
    "black": "30",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "bright_black": "90",
    "bold": "1",
}
"""Terminals' numbers of colours and weights (SGR)."""
_BREAKS = re.compile(r"[^\S ]+| {2,}")
"""White space that would break a line or a column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """The terminal or file that text is written to."""

    colors: bool = False
    width: int | None = None
    """Columns; None if it is not a terminal, where lines have no limit."""

    @classmethod
    def from_stream(cls, stream: TextIO, environ: Mapping[str, str]) -> Screen:
        """Return the screen of a stream: colours only on a terminal and without NO_COLOR."""
        tty = stream.isatty()
        no_color = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        columns = environ.get("COLUMNS", "")
        width = None
        if columns.isascii() and columns.isdecimal() and int(columns) > 0:
            width = int(columns)
        elif tty:
            width = shutil.get_terminal_size().columns
        return cls(colors=tty and not no_color, width=width)

    def style(self, text: str, *styles: str) -> str:
        """Return the text in these colours and weights, if supported."""
        if not (self.colors and styles and text):
            return text
        return f"\x1b[{';'.join(_SGR[style] for style in styles)}m{text}\x1b[0m"

    def state(self, state: str, text: str = "") -> str:
        """Return a state's name, or another text, in the state's colour."""
        color = _COLORS.get(state)
        return self.style(text or state, *([color] if color else []))


def ask(question: str) -> None:
    """Ask for confirmation; raise RiveruiError for a no."""
    if not click.confirm(question, err=True):
        raise RiveruiError("Nothing was changed.")


def one_line(text: object, limit: int = _CELL) -> str:
    """Return text of a job on one line of at most `limit` characters, with control characters
    escaped.
    """
    shown = str(text)
    cut = shown[: limit + 1]
    line = plain(_BREAKS.sub(" ", cut), 10 * limit).strip()
    return f"{line[: limit - 1]}…" if len(shown) > limit or len(line) > limit else line


def json_line(text: str | bytes) -> str:
    """Return the same JSON with control characters escaped."""
    line = text if isinstance(text, str) else text.decode()
    return line if line.isprintable() else HIDDEN.sub(code_point, line)


class Answer(Protocol):
    """A model of the API that can be read as text."""

    def text(self) -> str:
        """Return it as text without control characters."""
        ...


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer as JSON, or as text."""
    import msgspec

    if as_json:
        click.echo(json_line(msgspec.json.encode(answer)))
    else:
        click.echo(answer.text(), nl=False)


def job_line(text: str | bytes) -> str:
    """Return a job of the API as `json_line` does, with its args as JSON instead of a string."""
    import msgspec

    job = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    args = msgspec.json.decode(job["args"])
    if isinstance(args, str):
        job["args"] = msgspec.Raw(args.encode())
    return json_line(msgspec.json.encode(job))


def plain_lines(text: str) -> list[str]:
    """Return the lines of a job's text, with control characters escaped."""
    return [plain(line.expandtabs(4).rstrip("\r"), len(line) + 1) for line in text.split("\n")]


def columns_of(text: str) -> int:
    """Return the width of a line in columns: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def fitted(text: str, width: int) -> str:
    """Return the line cut with an ellipsis, or padded, to this width in columns."""
    taken = columns_of(text)
    if taken <= width:
        return text + " " * (width - taken)
    kept, room = [], width - 1
    for letter in text:
        room -= _columns(letter)
        if room < 0:
            break
        kept.append(letter)
    cut = "".join(kept) + "…" if width > 0 else ""
    return cut + " " * (width - columns_of(cut))


def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A column of a table."""

    name: str
    right: bool = False
    """Whether cells are aligned to the right, as numbers are."""
    shrinks: bool = False
    """Whether it becomes narrower if the terminal is too narrow; the last column always does."""
    least: int = 6
    """Its minimum width."""
    states: bool = False
    """Whether cells are states, each in its colour."""


class Table:
    """Rows in aligned columns, at most as wide as the terminal."""

    def __init__(self, headings: Sequence[Heading], screen: Screen) -> None:
        self._headings = headings
        self._screen = screen
        self._widths: list[int] | None = None

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return the lines of these rows; the first call adds the headings and sets the widths of
        columns.
        """
        found = []
        if self._widths is None:
            self._widths = self._fit(rows)
            names = [heading.name for heading in self._headings]
            found.append(self._line(names, heading=True))
        found += [self._line(row) for row in rows]
        return found

    def _fit(self, rows: Sequence[Sequence[str]]) -> list[int]:
        widths = [
            max([len(heading.name), *(columns_of(row[at]) for row in rows)])
            for at, heading in enumerate(self._headings)
        ]
        if self._screen.width is None:
            return widths
        over = sum(widths) + len(_GAP) * (len(widths) - 1) - self._screen.width
        for at in range(len(widths) - 1, -1, -1):
            heading = self._headings[at]
            if over > 0 and (heading.shrinks or at == len(widths) - 1):
                given = min(over, max(0, widths[at] - max(heading.least, len(heading.name))))
                widths[at] -= given
                over -= given
        return widths

    def _line(self, cells: Sequence[str], *, heading: bool = False) -> str:
        assert self._widths is not None
        parts, last = [], len(cells) - 1
        for at, (cell, column, width) in enumerate(
            zip(cells, self._headings, self._widths, strict=True)
        ):
            cut = columns_of(cell) > width and (self._screen.width is not None or at < last)
            text = fitted(cell, width) if cut else cell
            room = " " * (width - columns_of(text))
            if heading:
                text = self._screen.style(text, "bold")
            elif column.states:
                text = self._screen.state(cell, text)
            parts.append(f"{room}{text}" if column.right else f"{text}{room}")
        return _GAP.join(parts).rstrip()


def ago(text: str | None, now: datetime) -> str:
    """Return a time of the API relative to `now`: "4 m 12 s ago", "in 3 h 5 m"."""
    at = aware_instant(text or "")
    if at is None:
        return "—"
    seconds = (now - at).total_seconds()
    span = two_units(int(abs(seconds)))
    return f"{span} ago" if seconds > -1 else f"in {span}"


def moment(text: str | None, now: datetime | None = None) -> str:
    """Return a time of the API in UTC, with `now` also relative to it."""
    at = aware_instant(text or "")
    if at is None:
        return "—"
    shown = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{shown} ({ago(text, now)})" if now else shown
