"""JSON that a person types: what is wrong with it and where, and how to lay it out for reading."""

from __future__ import annotations

import json
import re

MOST_DEPTH = 200
"""Levels of nesting: Python's own readers stop at some 1,000, of which each level takes several."""
_INDENT = "  "
"""What each level is moved in by."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
"""Strings, signs, and words such as numbers."""
_MOST_DIGITS = 1_000
"""Characters of a number: far fewer than Python converts (4,300) and Postgres keeps."""
_MOST_EXPONENT = 10_000
"""Of a number: with its digits it stays within what Postgres keeps behind the point (16,383)."""
_EXPONENT = re.compile(r"[eE][+-]?0*([0-9]+)$")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape for the character that Postgres cannot store."""


def object_problem(text: str, *, most_bytes: int) -> str:
    """Return why a text is no JSON object that can be stored, with line and column where that can
    be told; empty where it is one.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most_bytes:
        return f"This is {size:,} bytes: at most {most_bytes:,} can be inserted here."
    if not text.strip():
        return "Write a JSON object, such as {}."
    if (place := _too_deep(text)) is not None:
        return f"{_where(text, place)}: nested deeper than {MOST_DEPTH} levels."
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_constant)
    try:
        found = decoder.decode(text)
    except json.JSONDecodeError as error:
        return f"{_where(text, error.pos)}: {_words(error)}."
    except _NoJson as error:
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
    """Return JSON text with a line for each value; what is between the spaces stays to the letter.

    Text nested deeper than MOST_DEPTH is returned as it is.
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


class _NoJson(Exception):
    """A word that Python's reader takes and JSON does not have."""


def _constant(word: str) -> object:
    raise _NoJson(word)


def _too_deep(text: str) -> int | None:
    """Return where the nesting is one level too deep; None where it never is."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("{", "["):
            depth += 1
            if depth > MOST_DEPTH:
                return token.start()
        elif token[0] in ("}", "]"):
            depth -= 1
    return None


def _too_long(text: str) -> int | None:
    """Return where a number stands that the database could not keep; None where none does."""
    for token in _TOKEN.finditer(text):
        if token[0][0] in "-0123456789" and (
            len(token[0]) > _MOST_DIGITS
            or ((found := _EXPONENT.search(token[0])) and int(found[1]) > _MOST_EXPONENT)
        ):
            return token.start()
    return None


def _where(text: str, place: int) -> str:
    line = text.count("\n", 0, place) + 1
    return f"Line {line}, column {place - text.rfind(chr(10), 0, place)}"


def _words(error: json.JSONDecodeError) -> str:
    """Return what Python's reader says, in lower case and without the place."""
    return error.msg[:1].lower() + error.msg[1:].rstrip(":").removesuffix(" at").rstrip(".")
