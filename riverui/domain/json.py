"""Read, check, lay out and compare JSON that jobs bring or people type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 500
"""Levels of nesting that are read: half of Python's limit, so that the value can be written again.
"""

ODD_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of reading a value that does not have the form that riverui writes."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)


class UnreadableJson(ValueError):
    """The text is nested too deeply, or is not JSON."""


def read_json(text: str) -> Any:
    """Return the value of JSON text; raise UnreadableJson if Python cannot represent it.

    A whole number with more digits than Python converts becomes a float, perhaps infinite.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise UnreadableJson("the JSON is nested too deeply")
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UnreadableJson(str(error)) from None
        except ValueError:
            # A number has too many digits. Converting each number is slower, so only now.
            return json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise UnreadableJson("the JSON is nested too deeply") from None


def read_object(text: str | None) -> dict[str, Any]:
    """Return the text as a JSON object; an empty one if it is anything else or unreadable."""
    try:
        found = read_json(text) if text else None
    except UnreadableJson:
        return {}
    return found if isinstance(found, dict) else {}


def write_json(value: object) -> str:
    """Return a value of `read_json` as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _depth(text: str) -> int:
    """Return the depth of nesting, at most MAX_DEPTH + 1."""
    depth = greatest = 0
    for token in _BRACKETS.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            greatest = max(greatest, depth)
            if depth > MAX_DEPTH:
                break
        elif first != '"':
            depth -= 1
    return greatest


def _whole_number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


MAX_TYPED_DEPTH = 200
"""Levels of nesting: Python's own readers stop at some 1,000, of which each level takes several."""

_INDENT = "  "
"""The indentation of each level."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
"""Strings, signs, and words such as numbers."""

_MAX_DIGITS = 1_000
"""Characters of a number: far fewer than Python converts (4,300) and Postgres keeps."""

_MAX_EXPONENT = 10_000
"""Of a number: with its digits it stays within what Postgres keeps behind the point (16,383)."""

_EXPONENT = re.compile(r"[eE][+-]?0*([0-9]+)$")

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape for the character that Postgres cannot store."""


def object_problem(text: str, *, most_bytes: int) -> str:
    """Return why a text is not a JSON object that can be stored, with line and column if known;
    empty if it is one.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        return f"This is {size:,} bytes: at most {most_bytes:,} can be inserted here."
    if not text.strip():
        return "Write a JSON object, such as {}."
    if (place := _too_deep(text)) is not None:
        return f"{_where(text, place)}: nested deeper than {MAX_TYPED_DEPTH} levels."
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_constant)
    try:
        found = decoder.decode(text)
    except json.JSONDecodeError as error:
        return f"{_where(text, error.pos)}: {_words(error)}."
    except _NotJson as error:
        place = next(m.start() for m in _TOKEN.finditer(text) if m[0] == str(error))
        return f"{_where(text, place)}: {error} is not JSON."
    if not isinstance(found, dict):
        return "This must be a JSON object: {…}."
    if (number := _too_long(text)) is not None:
        return f"{_where(text, number)}: this number is too large to be stored."
    if nul := _NUL.search(text):
        return f"{_where(text, nul.end() - 6)}: \\u0000 cannot be stored by Postgres."
    return ""


def indented(text: str) -> str:
    """Return JSON text with a line for each value; only white space is changed.

    Text nested deeper than MAX_TYPED_DEPTH is returned unchanged.
    """
    if _too_deep(text) is not None:
        return text
    parts: list[str] = []
    tokens = _TOKEN.findall(text)
    depth = 0
    for at, part in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if part in ("{", "["):
            depth += 1
            parts.append(part)
            if following not in ("}", "]"):
                parts.append("\n" + _INDENT * depth)
        elif part in ("}", "]"):
            depth -= 1
            if at and tokens[at - 1] not in ("{", "["):
                parts.append("\n" + _INDENT * depth)
            parts.append(part)
        elif part == ",":
            parts.append(",\n" + _INDENT * depth)
        elif part == ":":
            parts.append(": ")
        else:
            parts.append(part)
    return "".join(parts)


class _NotJson(Exception):
    """A word that Python's parser accepts but that is not JSON, such as NaN."""


def _constant(word: str) -> object:
    raise _NotJson(word)


def _too_deep(text: str) -> int | None:
    """Return the position of the first level that is too deep; None if there is none."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("{", "["):
            depth += 1
            if depth > MAX_TYPED_DEPTH:
                return token.start()
        elif token[0] in ("}", "]"):
            depth -= 1
    return None


def _too_long(text: str) -> int | None:
    """Return the position of a number that the database cannot store; None if there is none."""
    for token in _TOKEN.finditer(text):
        if token[0][0] in "-0123456789" and (
            len(token[0]) > _MAX_DIGITS
            or ((found := _EXPONENT.search(token[0])) and int(found[1]) > _MAX_EXPONENT)
        ):
            return token.start()
    return None


def _where(text: str, place: int) -> str:
    line = text.count("\n", 0, place) + 1
    return f"Line {line}, column {place - text.rfind(chr(10), 0, place)}"


def _words(error: json.JSONDecodeError) -> str:
    """Return the parser's message in lower case and without the position."""
    return error.msg[:1].lower() + error.msg[1:].rstrip(":").removesuffix(" at").rstrip(".")


MAX_LEAVES = 20_000
"""Maximum leaves of a text that are compared: they take some milliseconds."""

MAX_CHANGES = 200
"""Maximum differences that are returned: people read fewer."""

MAX_VALUE = 500
"""Maximum characters of a value, and of a path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafChange:
    """One leaf that differs."""

    path: str
    """Such as customer.address[0].city; empty for the whole text."""
    before: str | None
    """JSON text, truncated; None if only the other text has it."""
    after: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonDiff:
    """The differences between two texts."""

    changes: tuple[LeafChange, ...]
    same: int
    """Number of equal leaves."""
    complete: bool
    """Whether both texts were compared completely and `changes` has all differences."""


def json_diff(before: str, after: str) -> JsonDiff:
    """Return where two JSON texts differ, in the order of the first and then of the second.

    Text that is unreadable or nested too deeply is compared as a whole.
    """
    old, old_whole = _leaves(before)
    new, new_whole = _leaves(after)
    changes = [
        LeafChange(
            path=path[:MAX_VALUE],
            before=_cut(old.get(path)),
            after=_cut(new.get(path)),
        )
        for path in (*old, *(path for path in new if path not in old))
        if old.get(path) != new.get(path)
    ]
    return JsonDiff(
        changes=tuple(changes[:MAX_CHANGES]),
        same=sum(path in new and new[path] == value for path, value in old.items()),
        complete=old_whole and new_whole and len(changes) <= MAX_CHANGES,
    )


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= MAX_VALUE else value[:MAX_VALUE] + "…"


def _leaves(text: str) -> tuple[Mapping[str, str], bool]:
    """Return the leaves of a text by path, and whether these are all."""
    try:
        value = read_json(text)
        found: dict[str, str] = {}
        for path, leaf in _walk(value, "", 0):
            if len(found) == MAX_LEAVES:
                return found, False
            found[path] = leaf
    except (UnreadableJson, RecursionError):
        return {"": text}, True
    return found, True


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth < MAX_TYPED_DEPTH:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                yield from _walk(inner, f"{path}.{key}" if path else str(key), depth + 1)
            return
        if isinstance(value, list) and value:
            for place, inner in enumerate(value):
                yield from _walk(inner, f"{path}[{place}]", depth + 1)
            return
    yield path, json.dumps(value, ensure_ascii=False)
