"""Values as people read them: text, times, spans, counts, JSON, tracebacks and logs.

Everything a job brought along is hostile until it went through `visible` (markup) or `plain` (attributes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from markupsafe import Markup, escape

from riverui.domain.jobs import JsonText
from riverui.storage.params import Count, CountKind

# C0 and C1 controls, marks that turn or hide text, line separators and lone surrogates. Zero-width joiners
# stay: emoji and several scripts need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def _code_point(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def plain(text: object, limit: int = 2_000) -> str:
    """Text for an attribute: hidden characters as escapes, cut to `limit` characters."""
    shown = str(text)
    if len(shown) > limit:
        shown = f"{shown[:limit]}… ({len(shown) - limit:,} more characters)"
    return _HIDDEN.sub(_code_point, shown)


def visible(text: object) -> Markup:
    """Escaped text whose hidden characters (controls, bidi overrides, zero-width) show as marked escapes."""
    escaped = str(escape(str(text)))
    return Markup(_HIDDEN.sub(lambda match: f'<span class="ctl">{_code_point(match)}</span>', escaped))  # noqa: S704


def word(text: object) -> Markup:
    """A name out of a job (kind, queue, tag, worker), isolated so that its direction cannot leak."""
    return Markup("<bdi>{}</bdi>").format(visible(text))


def short(text: object, limit: int = 120) -> Markup:
    """`word`, cut to `limit` characters, whole in the tooltip."""
    shown = str(text)
    if len(shown) <= limit:
        return word(shown)
    return Markup('<bdi title="{}">{}…</bdi>').format(plain(shown), visible(shown[:limit]))


def number(value: int) -> str:
    """1203 → "1,203"."""
    return f"{value:,}"


def compact(value: int) -> str:
    """9812345 → "9.8M"; whole below 100,000."""
    if value < 100_000:
        return number(value)
    for unit_size, unit in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "B")):
        scaled = value / unit_size
        # Compared as it will be written, so that 999,999 is 1M and never 1000k.
        if scaled < 999.5 or unit == "B":
            return f"{scaled:.1f}{unit}".replace(".0", "") if scaled < 9.95 else f"{scaled:,.0f}{unit}"
    raise AssertionError("unreachable")


def count_text(count: Count) -> str:
    """1,203 · 10,000+ · ≈ 9.8M."""
    if count.kind is CountKind.AT_LEAST:
        return f"{number(count.value)}+"
    if count.kind is CountKind.ESTIMATED:
        return f"≈ {compact(count.value)}"
    return compact(count.value) if count.value >= 1_000_000 else number(count.value)


def count_title(count: Count) -> str:
    """How the number came about, for its tooltip."""
    when = f" at {count.at.astimezone(UTC):%H:%M:%S} UTC" if count.at else ""
    if count.kind is CountKind.AT_LEAST:
        return f"{number(count.value)} or more: counting stops there{when}"
    if count.kind is CountKind.ESTIMATED:
        return f"about {number(count.value)}, from the database's statistics{when}"
    return f"{number(count.value)}, counted one by one{when}"


def count(value: Count | int | None, cap: int | None = None) -> Markup:
    """A count with how it was counted in the tooltip; a plain int at or above `cap` is "at least"."""
    if value is None:
        return Markup('<span class="count" title="not counted yet">–</span>')
    if not isinstance(value, Count):
        at_least = cap is not None and value >= cap
        value = Count(value=value, kind=CountKind.AT_LEAST if at_least else CountKind.EXACT)
    return Markup('<span class="count" title="{}">{}</span>').format(count_title(value), count_text(value))


def size(value: int) -> str:
    """Bytes in decimal units: 532 B, 1.4 MB."""
    amount = float(value)
    for unit in _UNITS:
        if amount < 1000 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def duration(span: timedelta) -> str:
    """340 ms · 1.2 s · 4 m 12 s · 3 h 5 m · 2 d 4 h; negative spans (clocks that disagree) are 0."""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return _two_units(round(seconds))


def _two_units(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} m"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


def _one_unit(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m"
    if seconds < 86_400:
        return f"{seconds // 3600} h"
    return f"{seconds // 86_400} d"


def relative(at: datetime, now: datetime, *, fine: bool = False) -> str:
    """Like "12 s ago", "in 4 m"; with `fine` two units ("in 4 m 12 s"); a date when over 99 days away."""
    seconds = (at - now).total_seconds()
    whole = int(abs(seconds))
    if whole >= 100 * 86_400:
        return f"{at.astimezone(UTC):%Y-%m-%d}"
    if whole < 1:
        return "now"
    text = _two_units(whole) if fine else _one_unit(whole)
    return f"in {text}" if seconds > 0 else f"{text} ago"


def absolute(at: datetime) -> str:
    """2026-11-21 14:02:11.123 UTC."""
    at = at.astimezone(UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def clock(at: datetime, now: datetime) -> str:
    """UTC in 14 characters: "11-21 14:02:11", or with the year where it is another."""
    at = at.astimezone(UTC)
    return f"{at:%m-%d %H:%M:%S}" if at.year == now.astimezone(UTC).year else f"{at:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Writes instants the way one browser prefers; app.js keeps them going and knows the local zone."""

    now: datetime
    mode: str = "relative"

    def ago(self, at: datetime | None, *, fine: bool = False) -> Markup:
        """A `<time>` by preference, absolute UTC in its tooltip; a dash for None."""
        if at is None:
            return Markup('<span class="none">–</span>')
        text = relative(at, self.now, fine=fine) if self.mode == "relative" else clock(at, self.now)
        return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(
            _iso(at), absolute(at), Markup(' data-fine=""') if fine else "", text
        )

    def since(self, at: datetime) -> Markup:
        """How long ago that was, in whole seconds, ticking on in the browser."""
        seconds = max(int((self.now - at).total_seconds()), 0)
        return Markup('<span data-since="{}" title="since {}">{}</span>').format(
            _iso(at), absolute(at), _two_units(seconds)
        )


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class _Number:
    """A JSON number as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object as it was stored: order and repeated keys included."""

    pairs: Sequence[tuple[str, object]]


class _Budget:
    """How many more nodes one tree may draw."""

    def __init__(self, nodes: int) -> None:
        self.left = nodes

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


_DEPTH = 40
_ITEMS = 100
_NODES = 2_000
_TEXT = 4_000


def _parsed(text: str) -> object:
    return json.loads(
        text,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_refuse_constant,
        object_pairs_hook=_Object,
    )


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def json_tree(value: JsonText) -> Markup:
    """Collapsible lists with numbers exactly as stored; plain text where it is cut, too deep or not JSON."""
    if not value.complete:
        return _as_text(value)
    try:
        parsed = _parsed(value.text)
        return Markup('<div class="json">{}</div>').format(_branch(parsed, 0, _Budget(_NODES)))
    except (ValueError, RecursionError):
        return _as_text(value)


def _as_text(value: JsonText) -> Markup:
    rest = value.size - min(len(value.text), 20_000)
    more = Markup('<p class="more">… {} more characters</p>').format(number(rest)) if rest > 0 else Markup("")
    return Markup('<pre class="json-text">{}</pre>{}').format(visible(value.text[:20_000]), more)


def _branch(value: object, depth: int, budget: _Budget) -> Markup:
    if isinstance(value, _Object):
        entries: Iterable[tuple[str | int, object]] = value.pairs
        total = len(value.pairs)
    elif isinstance(value, list):
        entries = enumerate(value)
        total = len(value)
    else:
        return _leaf(value)
    if not total:
        return _leaf(value)
    return Markup("<ul{}>{}</ul>").format(
        Markup(' class="arr"') if isinstance(value, list) else "",
        Markup("").join(_entries(entries, total, depth, budget)),
    )


def _entries(
    entries: Iterable[tuple[str | int, object]], total: int, depth: int, budget: _Budget
) -> Iterator[Markup]:
    for shown, (key, value) in enumerate(entries):
        if shown >= _ITEMS or not budget.take():
            yield Markup('<li class="more">… {} more</li>').format(number(total - shown))
            return
        name = Markup('<span class="k">{}</span>').format(word(key) if isinstance(key, str) else key)
        if not _nested(value):
            yield Markup("<li>{} {}</li>").format(name, _leaf(value))
        elif depth >= _DEPTH:
            yield Markup('<li>{} <span class="more">… nested deeper</span></li>').format(name)
        else:
            yield Markup("<li><details{}><summary>{} {}</summary>{}</details></li>").format(
                Markup(" open") if depth < 2 else "", name, _peek(value), _branch(value, depth + 1, budget)
            )


def _nested(value: object) -> bool:
    return bool(value.pairs) if isinstance(value, _Object) else isinstance(value, list) and bool(value)


def _peek(value: object) -> Markup:
    if isinstance(value, _Object):
        return Markup('<span class="peek">{{{}}}</span>').format(len(value.pairs))
    return Markup('<span class="peek">[{}]</span>').format(len(value) if isinstance(value, list) else 0)


def _leaf(value: object) -> Markup:
    if isinstance(value, _Number):
        return Markup('<span class="num">{}</span>').format(plain(value.text, _TEXT))
    if isinstance(value, str):
        shown = Markup('<span class="str">{}</span>').format(word(value[:_TEXT]))
        rest = len(value) - _TEXT
        more = (
            Markup(' <span class="more">… {} more characters</span>').format(number(rest)) if rest > 0 else ""
        )
        return shown + more
    if isinstance(value, _Object):
        return Markup('<span class="peek">{}</span>').format("{}")
    if isinstance(value, list):
        return Markup('<span class="peek">[]</span>')
    return Markup('<span class="lit">{}</span>').format(json.dumps(value))


_LINES = 2_000

_PYTHON_FRAME = re.compile(r'^\s*File "(?P<path>[^"]*)", line \d+')
_GO_FRAME = re.compile(r"^\t(?P<path>\S+\.go):\d+")
_FOREIGN_PATHS = re.compile(
    r"site-packages|dist-packages|/lib/python\d|\\Lib\\|<frozen |"
    r"riverqueue/river|/go/src/|/usr/local/go/|/usr/lib/go|/pkg/mod/|/libexec/src/"
)
_GO_CALL = re.compile(r"^(?:created by )?[\w./\-*()·\[\]{}]+(?:\(.*\))?(?: in goroutine \d+)?$")
_LEVEL = re.compile(
    r"\b(?:(?P<bad>ERROR|FATAL|CRITICAL|PANIC|ERR)|(?P<warn>WARN(?:ING)?|WRN)|(?P<dim>DEBUG|TRACE|DBG))\b"
    r"|\"?level\"?[=:]\s*\"?(?:(?P<bad2>error|fatal|critical|panic)|(?P<warn2>warn(?:ing)?)|(?P<dim2>debug|trace))\b"
)


def trace(text: str) -> Markup:
    """A Python or Go traceback whose library, runtime and River frames are dimmed."""
    lines = text.splitlines()
    return _lines(lines, ["frame-dim" if foreign else "" for foreign in _foreign(lines)])


def _foreign(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it belongs to a frame of somebody else's code."""
    dim = [False] * len(lines)
    inside = False
    for index, line in enumerate(lines):
        if found := _PYTHON_FRAME.match(line):
            inside = bool(_FOREIGN_PATHS.search(found["path"]))
            dim[index] = inside
        elif found := _GO_FRAME.match(line):
            # Go names the function on the line before its place.
            inside = False
            dim[index] = bool(_FOREIGN_PATHS.search(found["path"]))
            if index and _GO_CALL.match(lines[index - 1]):
                dim[index - 1] = dim[index]
        else:
            inside = inside and line.startswith("    ")
            dim[index] = inside
    return dim


def log(text: str) -> Markup:
    """Log lines with their level as a class."""
    lines = text.splitlines()
    return _lines(lines, [_level(line) for line in lines[:_LINES]])


def _level(line: str) -> str:
    found = _LEVEL.search(line, 0, 400)
    if not found:
        return ""
    kind = found.lastgroup or ""
    return {"b": "log-bad", "w": "log-warn", "d": "log-dim"}.get(kind[:1], "")


def _lines(lines: Sequence[str], classes: Sequence[str]) -> Markup:
    parts: list[Markup] = []
    for line, name in zip(lines[:_LINES], classes, strict=False):
        shown = visible(line[:_TEXT]) + ("…" if len(line) > _TEXT else "")
        shown += "\n"
        parts.append(Markup('<span class="{}">{}</span>').format(name, shown) if name else shown)
    if len(lines) > _LINES:
        parts.append(Markup('<span class="more">… {} more lines</span>').format(number(len(lines) - _LINES)))
    return Markup("").join(parts)
