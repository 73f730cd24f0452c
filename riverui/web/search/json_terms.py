"""Search terms on args and metadata: JSON objects that a job must contain, with every number kept
as written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from riverui.errors import BadRequest

MAX_DEPTH = 32
"""Most levels of nesting in a search term."""

BARE_PART = re.compile(r"[^\s.:,\[\]\"]+")
"""A part of a path that needs no quotes."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?")


class Number(str):
    """A JSON number as its text, so that no digit is lost."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PathPart:
    """One step of a dotted path; `each` is the `[]` that means any element of an array."""

    name: str
    each: bool = False


class PathError(Exception):
    """A path is invalid from `start` to `end`; the message says why."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message, self.start, self.end = message, start, end


def scan_path(text: str, at: int, *, example: str) -> tuple[tuple[PathPart, ...], int]:
    """Return the parts of the path whose first dot is at `at`, and its end; no parts without a dot.
    Raise PathError, with the example if a part is missing.
    """
    parts: list[PathPart] = []
    start = at
    while text.startswith(".", at):
        at += 1
        if text.startswith('"', at):
            name, at = scan_quoted(text, at)
        elif found := BARE_PART.match(text, at):
            name, at = found.group(), found.end()
        else:
            raise PathError(f"A part of the path is empty: write {example}", start, at)
        each = text.startswith("[]", at)
        at += 2 * each
        parts.append(PathPart(name=name, each=each))
    if text.startswith("[", at) and parts:
        raise PathError("Only [] works here: it means any element of an array.", start, at + 1)
    return tuple(parts), at


def scan_quoted(text: str, at: int) -> tuple[str, int]:
    """Return the text between the quote at `at` and the next one, and its end. Raise PathError if
    the closing quote is missing.
    """
    start = at
    pieces: list[str] = []
    at += 1
    while at < len(text):
        char = text[at]
        if char == '"':
            return "".join(pieces), at + 1
        if char == "\\" and text[at + 1 : at + 2] in ('"', "\\"):
            at += 1
            char = text[at]
        pieces.append(char)
        at += 1
    raise PathError("The closing quote is missing.", start, len(text))


def scan(text: str, at: int) -> tuple[object, int]:
    """Return the JSON value that begins at `at`, and its end. Raise BadRequest if it is invalid."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        raise BadRequest(f"This JSON is nested more than {MAX_DEPTH} levels deep.") from None
    except json.JSONDecodeError as error:
        raise BadRequest(
            f"This is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        ) from None
    _check(value, 0)
    return value, end


def scalar(text: str) -> object:
    """Return an unquoted value as a number, true, false or null if it is one, else as text."""
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        number = _number(text)
        _check(number, 0)
        return number
    return text


def dump(value: object) -> str:
    """Return compact JSON, its numbers as they were written."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{dump(key)}:{dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(dump(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def nest(path: Sequence[PathPart], value: object) -> dict[str, object]:
    """Return the object that holds `value` at `path`: what args must contain. Raise BadRequest if
    Postgres could not store it.
    """
    nested: object = value
    for part in reversed(path):
        nested = {part.name: [nested] if part.each else nested}
    assert isinstance(nested, dict)
    _check(nested, 0)
    return nested


def unnest(value: object) -> tuple[tuple[PathPart, ...], object] | None:
    """Return the path and the scalar of an object that holds exactly one; None for others."""
    path: list[PathPart] = []
    while isinstance(value, dict):
        if len(value) != 1:
            return None
        [(name, value)] = value.items()
        each = isinstance(value, list)
        if isinstance(value, list):
            if len(value) != 1:
                return None
            value = value[0]
        path.append(PathPart(name=name, each=each))
    return None if isinstance(value, list) or not path else (tuple(path), value)


def path_text(path: Sequence[PathPart]) -> str:
    """Return a path in the search box's grammar, its parts quoted if necessary."""
    return ".".join(
        (part.name if BARE_PART.fullmatch(part.name) else quoted(part.name))
        + ("[]" if part.each else "")
        for part in path
    )


def quoted(text: str) -> str:
    """Return the text in double quotes, with quotes and backslashes escaped."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(text: str) -> Number:
    found = _NUMBER.fullmatch(text)
    # Postgres stores numbers as numeric: a huge exponent would cost memory or fail.
    if found is None or abs(int(found.group(1) or 0)) > 1000:
        raise BadRequest(f"The number {text[:40]} is out of range.")
    return Number(text)


def _constant(text: str) -> object:
    raise BadRequest(f"{text} is not a JSON value.")


def _check(value: object, depth: int) -> None:
    """Raise BadRequest for values that jsonb would reject."""
    if depth > MAX_DEPTH:
        raise BadRequest(f"This JSON is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth)
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, str) and (
        "\0" in value or any("\ud800" <= char <= "\udfff" for char in value)
    ):
        raise BadRequest("Postgres cannot store NUL or a lone surrogate in JSON.")


_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_DECODER = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_constant)
