"""Write whole columns as one text parameter each: Postgres parses an array faster than any driver
can build one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from riverui.errors import BadRequest

# Postgres texts cannot contain NUL, so it separates texts while they are escaped all at once.
_BETWEEN = "\0"

_COPY_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def numbers(values: Iterable[int | None]) -> str:
    """Return an array of whole numbers."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def instants(values: Iterable[datetime | None]) -> str:
    """Return an array of times with offsets, which do not depend on the session's settings."""
    return (
        "{" + ",".join(["NULL" if value is None else value.isoformat() for value in values]) + "}"
    )


def texts(values: Sequence[str]) -> str:
    """Return an array of texts; BadRequest if one cannot be stored."""
    if not values:
        return "{}"
    joined = _joined(values)
    return '{"' + joined.replace("\\", "\\\\").replace('"', '\\"').replace(_BETWEEN, '","') + '"}'


def optional_texts(values: Iterable[str | None]) -> str:
    """Return an array of texts and nulls; BadRequest if one cannot be stored."""
    return (
        "{"
        + ",".join(["NULL" if value is None else texts((value,))[1:-1] for value in values])
        + "}"
    )


def keys(values: Iterable[bytes | None]) -> str:
    """Return an array of bytes and nulls."""
    return (
        "{"
        + ",".join(["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values])
        + "}"
    )


def copy_texts(values: Sequence[str]) -> list[str]:
    """Return each text in COPY's text format; BadRequest if one cannot be stored."""
    joined = _joined(values)
    for character, escape in _COPY_ESCAPES:
        joined = joined.replace(character, escape)
    return joined.split(_BETWEEN)


def check_text(value: str) -> str:
    """Return the text itself; BadRequest if Postgres cannot store it."""
    if _BETWEEN in value:
        raise BadRequest("Postgres cannot store text with a NUL character in it.")
    _check(value)
    return value


def _joined(values: Sequence[str]) -> str:
    joined = _BETWEEN.join(values)
    if joined.count(_BETWEEN) != len(values) - 1:
        raise BadRequest("Postgres cannot store text with a NUL character in it.")
    _check(joined)
    return joined


def _check(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadRequest("Postgres cannot store a lone surrogate.") from None
