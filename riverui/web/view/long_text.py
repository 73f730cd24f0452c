"""Long texts of a job as markup: JSON as a tree, tracebacks and logs line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from riverui.domain.jobs import JsonText
from riverui.web.view.bounds import Budget
from riverui.web.view.format import number, plain, visible, word


@dataclass(frozen=True, slots=True)
class _Number:
    """A JSON number as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object as it was stored, with its order and repeated keys."""

    pairs: Sequence[tuple[str, object]]


_DEPTH = 40
"""Most nested levels that are drawn."""
_ITEMS = 100
"""Most items of a list or object that are drawn."""
_SIZE = 150_000
"""Most bytes of markup of one tree."""
_NODE = 120
"""Bytes of the tags around one value."""
_KEY, _TEXT = 500, 4_000
"""Most characters of a key and of a value."""


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
    """Draw JSON as collapsible lists, its numbers exactly as stored; as plain text if it is cut,
    nested too deep or not JSON.
    """
    if not value.complete:
        return _as_text(value)
    try:
        parsed = _parsed(value.text)
        return Markup('<div class="json">{}</div>').format(_branch(parsed, 0, Budget(_SIZE)))
    except (ValueError, RecursionError):
        return _as_text(value)


def _as_text(value: JsonText) -> Markup:
    shown = Budget(_SIZE).fit(value.text[:20_000], _SIZE)
    rest = value.size - len(shown)
    more = (
        Markup('<p class="more">… {} more characters</p>').format(number(rest))
        if rest > 0
        else Markup("")
    )
    return Markup('<pre class="json-text">{}</pre>{}').format(visible(shown), more)


def _branch(value: object, depth: int, budget: Budget) -> Markup:
    if isinstance(value, _Object):
        entries: Iterable[tuple[str | int, object]] = value.pairs
        total = len(value.pairs)
    elif isinstance(value, list):
        entries = enumerate(value)
        total = len(value)
    else:
        return _leaf(value, budget)
    if not total:
        return _leaf(value, budget)
    return Markup("<ul{}>{}</ul>").format(
        Markup(' class="arr"') if isinstance(value, list) else "",
        Markup("").join(_entries(entries, total, depth, budget)),
    )


def _entries(
    entries: Iterable[tuple[str | int, object]], total: int, depth: int, budget: Budget
) -> Iterator[Markup]:
    for shown, (key, value) in enumerate(entries):
        if shown >= _ITEMS or not budget.spend(_NODE):
            yield Markup('<li class="more">… {} more</li>').format(number(total - shown))
            return
        name = Markup('<span class="k">{}</span>').format(_key(key, budget))
        if not _nested(value):
            yield Markup("<li>{} {}</li>").format(name, _leaf(value, budget))
        elif depth >= _DEPTH:
            yield Markup('<li>{} <span class="more">… nested deeper</span></li>').format(name)
        else:
            yield Markup("<li><details{}><summary>{} {}</summary>{}</details></li>").format(
                Markup(" open") if depth < 2 else "",
                name,
                _peek(value),
                _branch(value, depth + 1, budget),
            )


def _key(key: str | int, budget: Budget) -> Markup | int:
    if isinstance(key, int):
        return key
    shown = budget.fit(key[:_KEY], _SIZE)
    return word(shown) + ("…" if len(shown) < len(key) else "")


def _nested(value: object) -> bool:
    return (
        bool(value.pairs) if isinstance(value, _Object) else isinstance(value, list) and bool(value)
    )


def _peek(value: object) -> Markup:
    if isinstance(value, _Object):
        return Markup('<span class="peek">{{{}}}</span>').format(len(value.pairs))
    return Markup('<span class="peek">[{}]</span>').format(
        len(value) if isinstance(value, list) else 0
    )


def _leaf(value: object, budget: Budget) -> Markup:
    if isinstance(value, _Number):
        budget.spend(min(len(value.text), _TEXT))
        return Markup('<span class="num">{}</span>').format(plain(value.text, _TEXT))
    if isinstance(value, str):
        text = budget.fit(value[:_TEXT], _SIZE)
        shown = Markup('<span class="str">{}</span>').format(word(text))
        rest = len(value) - len(text)
        more = (
            Markup(' <span class="more">… {} more characters</span>').format(number(rest))
            if rest > 0
            else ""
        )
        return shown + more
    if isinstance(value, _Object):
        return Markup('<span class="peek">{}</span>').format("{}")
    if isinstance(value, list):
        return Markup('<span class="peek">[]</span>')
    return Markup('<span class="lit">{}</span>').format(json.dumps(value))


_LINES = 2_000
"""Most lines of a traceback or a log that are drawn, from its beginning."""

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
    """Return a Python or Go traceback whose library, runtime and River frames are dimmed."""
    lines = text.splitlines()
    return _lines(lines, ["frame-dim" if foreign else "" for foreign in _foreign(lines)])


def _foreign(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether it belongs to a frame of library code."""
    dim = [False] * len(lines)
    inside = False
    for index, line in enumerate(lines):
        if found := _PYTHON_FRAME.match(line):
            inside = bool(_FOREIGN_PATHS.search(found["path"]))
            dim[index] = inside
        elif found := _GO_FRAME.match(line):
            # Go names the function on the line before its file.
            inside = False
            dim[index] = bool(_FOREIGN_PATHS.search(found["path"]))
            if index and _GO_CALL.match(lines[index - 1]):
                dim[index - 1] = dim[index]
        else:
            inside = inside and line.startswith("    ")
            dim[index] = inside
    return dim


def log(text: str) -> Markup:
    """Return log lines as markup, each with its level as a class."""
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
        parts.append(
            Markup('<span class="more">… {} more lines</span>').format(number(len(lines) - _LINES))
        )
    return Markup("").join(parts)
