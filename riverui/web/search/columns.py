"""Names of the job list's columns, as in addresses, the cookie and the chooser: names of column
specs, and paths into args and metadata such as `args.customer.id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JsonPath
from riverui.web.search import grammar, json_terms
from riverui.web.view.format import plain
from riverui.web.view.job_table import COLUMNS, STANDARD

MAX_COLUMNS = 20
"""Most columns of a table; there are some ten besides paths."""
MAX_PATHS = 6
"""Most paths of a table: the database looks up each of them in every row shown, and a value of
hidden characters takes 3 kB of markup.
"""
MAX_LENGTH = 500
"""Most characters of all columns together: each of a page's links repeats them, and so does the
cookie, which is limited to 4 kB.
"""

_NAME = re.compile(r"[A-Za-z_]+")
_BETWEEN = re.compile(r"[\s,]*")


def read(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names in these comma-separated lists, each once and in its canonical form; the
    standard columns if there are none.

    The kind, which links to the job, is always included, first if it is not named. Raise BadRequest
    for an unknown column.
    """
    names: dict[str, None] = {}
    for text in texts:
        names |= dict.fromkeys(_names(text))
    if not names:
        return STANDARD
    found = tuple(names) if "kind" in names else ("kind", *names)
    if len(text_of(found)) > MAX_LENGTH:
        raise BadRequest(f"The names of columns take at most {MAX_LENGTH} characters.")
    if len(found) > MAX_COLUMNS or len(paths(found)) > MAX_PATHS:
        raise BadRequest(f"A table takes at most {MAX_COLUMNS} columns, {MAX_PATHS} paths of them.")
    return found


def read_kept(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns stored by a browser; the standard ones if any of them is unknown."""
    try:
        return read(names)
    except BadRequest:
        return STANDARD


def text_of(names: Sequence[str]) -> str:
    """Return the names as text for an address; the inverse of `read`."""
    return ",".join(names)


def paths(names: Sequence[str]) -> tuple[JsonPath, ...]:
    """Return the paths among these names, in their order."""
    return tuple(_path(name) for name in names if name not in COLUMNS)


def _names(text: str) -> list[str]:
    found = []
    at = 0
    while (at := _skip(text, at)) < len(text):
        start = at
        word = _NAME.match(text, at)
        at = word.end() if word else at
        field = grammar.KEYS.get(word.group().lower()) if word else None
        if field in grammar.JSON and text.startswith(".", at):
            assert word is not None
            parts, at = _scan_path(text, at, word.group())
            name = f"{field.value}.{json_terms.path_text(parts)}"
        else:
            name = word.group().lower() if word else ""
        if (name not in COLUMNS and "." not in name) or _skip(text, at) == at < len(text):
            end = grammar.token_end(text, start)
            raise BadRequest(
                f"Unknown column “{plain(text[start:end][:40])}”. The columns are"
                f" {', '.join(COLUMNS)}, and paths such as args.customer.id or metadata.trace_id."
            )
        found.append(name)
    return found


def _path(name: str) -> JsonPath:
    key, _, _ = name.partition(".")
    parts, _ = _scan_path(name, len(key), key)
    keys: list[str | None] = []
    for part in parts:
        keys += [part.name, None] if part.each else [part.name]
    return JsonPath(field=Field(key), keys=tuple(keys))


def _scan_path(text: str, at: int, key: str) -> tuple[tuple[json_terms.PathPart, ...], int]:
    try:
        parts, at = json_terms.scan_path(text, at, example=f"{key}.customer.id")
    except json_terms.PathError as error:
        raise BadRequest(f"“{plain(text[:40])}”: {error.message}") from None
    json_terms.nest(parts, None)
    return parts, at


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    assert between is not None
    return between.end()
