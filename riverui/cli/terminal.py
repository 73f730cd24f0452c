"""Texts for a terminal: tables that fit it, colours where it shows any, and nothing in them that
could steer it.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

import click

from riverui.domain.text import HIDDEN, code_point, plain
from riverui.domain.time import aware_instant, two_units
from riverui.errors import RiveruiError

_CELL = 200
"""Characters of a cell where nobody says how wide the terminal is."""
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
"""The numbers that terminals know colours and weights by."""
_ODD = re.compile(r"[^\S ]+| {2,}")
"""White space that would break a line or a column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """What texts are written for."""

    colors: bool = False
    width: int | None = None
    """Columns; None where nobody reads along, and lines may be as long as they are."""

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Screen:
        """Return what a stream shows: colours on a terminal only, and not with NO_COLOR."""
        tty = stream.isatty()
        dull = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        told = environ.get("COLUMNS", "")
        width = None
        if told.isascii() and told.isdecimal() and int(told) > 0:
            width = int(told)
        elif tty:
            width = shutil.get_terminal_size().columns
        return cls(colors=tty and not dull, width=width)

    def style(self, text: str, *styles: str) -> str:
        """Return the text in these colours and weights, where they are shown."""
        if not (self.colors and styles and text):
            return text
        return f"\x1b[{';'.join(_SGR[style] for style in styles)}m{text}\x1b[0m"

    def state(self, state: str, text: str = "") -> str:
        """Return a state's name, or another text, in the state's colour."""
        color = _COLORS.get(state)
        return self.style(text or state, *([color] if color else []))


def ask(question: str) -> None:
    """Ask the person at the terminal; raise RiveruiError for a no."""
    if not click.confirm(question, err=True):
        raise RiveruiError("Nothing was changed.")


def one_line(text: object, limit: int = _CELL) -> str:
    """Return a text that came with a job on one line, at most `limit` characters of it; what would
    steer a terminal is told by its code point.
    """
    shown = str(text)
    cut = shown[: limit + 1]
    told = plain(_ODD.sub(" ", cut), 10 * limit).strip()
    return f"{told[: limit - 1]}…" if len(shown) > limit or len(told) > limit else told


def json_line(text: str | bytes) -> str:
    """Return JSON that means the same and cannot steer a terminal: what could is escaped."""
    told = text if isinstance(text, str) else text.decode()
    return told if told.isprintable() else HIDDEN.sub(code_point, told)


def job_line(text: str | bytes) -> str:
    """Return a job of the API as `json_line` does, with its args as JSON in place of a text."""
    import msgspec

    job = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    args = msgspec.json.decode(job["args"])
    if isinstance(args, str):
        job["args"] = msgspec.Raw(args.encode())
    return json_line(msgspec.json.encode(job))


def plain_lines(text: str) -> list[str]:
    """Return a text that came with a job as lines, of which none can steer a terminal."""
    return [plain(line.expandtabs(4).rstrip("\r"), len(line) + 1) for line in text.split("\n")]


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a line takes: two for each wide letter, none for
    marks on letters.
    """
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def fitted(text: str, width: int) -> str:
    """Return a line that takes exactly so many columns: cut with an ellipsis, or filled up."""
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
    """Whether its cells stand at the right, as numbers do."""
    gives: bool = False
    """Whether it is made narrower where the terminal is too narrow for all; the last one is
    anyway.
    """
    least: int = 6
    """Columns below which it is not made narrower."""
    states: bool = False
    """Whether its cells are states, each in its colour."""


class Table:
    """Rows in columns, as wide as their cells and no wider than the terminal."""

    def __init__(self, headings: Sequence[Heading], screen: Screen) -> None:
        self._headings = headings
        self._screen = screen
        self._widths: list[int] | None = None

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return the lines of these rows; the first call has the headings in front, and says how
        wide the columns are.
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
            if over > 0 and (heading.gives or at == len(widths) - 1):
                given = min(over, max(0, widths[at] - max(heading.least, len(heading.name))))
                widths[at] -= given
                over -= given
        return widths

    def _line(self, cells: Sequence[str], *, heading: bool = False) -> str:
        assert self._widths is not None
        told, last = [], len(cells) - 1
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
            told.append(f"{room}{text}" if column.right else f"{text}{room}")
        return _GAP.join(told).rstrip()


def ago(text: str | None, now: datetime) -> str:
    """Return how long ago a time of the API is, or in how long, in whole seconds: "4 m 12 s ago",
    "in 3 h 5 m".
    """
    at = aware_instant(text or "")
    if at is None:
        return "—"
    seconds = (now - at).total_seconds()
    told = two_units(int(abs(seconds)))
    return f"{told} ago" if seconds > -1 else f"in {told}"


def moment(text: str | None, now: datetime | None = None) -> str:
    """Return a time of the API as people read it, in UTC."""
    at = aware_instant(text or "")
    if at is None:
        return "—"
    told = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{told} ({ago(text, now)})" if now else told
