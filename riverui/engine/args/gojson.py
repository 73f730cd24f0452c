"""Write Python values as the text that Go's `json.Marshal` makes of their counterparts.

Compact, fields in their order, keys of dicts sorted (Go's maps), `<`, `>`, `&`, U+2028 and U+2029
escaped, all else raw UTF-8, numbers as Go prints them. Unique keys are hashes of this text, so a
byte of difference would make jobs of both languages differ.

| Python | JSON |
|---|---|
| aware datetime | RFC 3339 with as many decimals as it needs, like `time.Time` |
| date | `"2026-08-07"` |
| timedelta | whole nanoseconds, like `time.Duration` |
| bytes, bytearray | base64, like `[]byte` |
| UUID, Decimal | text; numbers would not survive most readers exactly |
| Enum | its value |
| set, frozenset | a list, sorted, so that equal sets give equal text |
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from json.encoder import encode_basestring
from operator import attrgetter
from types import NoneType
from typing import Any
from uuid import UUID

from riverui.domain.time import rfc3339_nano
from riverui.engine.args.fields import KIND, StructKind, fields_of, per_type, struct_kind

Writer = Callable[[Any], str]

_HTML = tuple((c, f"\\u{ord(c):04x}") for c in "<>&\u2028\u2029")
_SPACE_OR_STRING = re.compile(r'[ \t\r\n]+|("(?:[^"\\]|\\.)*")')
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Unfit(Exception):
    """A value cannot be written or read; each level that re-raises it adds its part of the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def within(self, name: str) -> Unfit:
        """Return the error with the name of the next outer level prepended to its path."""
        self.path.insert(0, name)
        return self

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.reason}" if self.path else self.reason


def dump(value: Any) -> str:
    """Return a value as JSON text; Unfit for what JSON or Postgres cannot hold."""
    try:
        return finished(text_of(value))
    except RecursionError:
        raise too_deep() from None


def too_deep() -> Unfit:
    """Return the Unfit for a RecursionError."""
    return Unfit("it contains itself, or is nested too deeply")


def text_of(value: Any) -> str:
    """Return a value as JSON text that still needs `finished`; Unfit for what JSON cannot hold."""
    return (_WRITERS.get(type(value)) or writer(type(value)))(value)


def finished(text: str) -> str:
    """Return JSON text with Go's escapes for HTML; Unfit for characters that Postgres refuses."""
    for character, escape in _HTML:
        if character in text:
            text = text.replace(character, escape)
    if "\\u0000" in text and _NUL.search(text):
        raise Unfit("a string contains a NUL character, which Postgres cannot store")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unfit("a string contains a lone surrogate, which is not a character") from None
    return text


def quoted(text: str) -> str:
    """Return a string as Go writes it, in quotes and with its escapes."""
    return finished(encode_basestring(text))


def canonical(text: str) -> str:
    """Return JSON text as Go writes it from a struct of such fields; ValueError for other text."""
    return finished(_as_found(json.loads(text)))


def compact(text: str) -> str:
    """Return JSON text as Go writes it from a `json.RawMessage`: without white space, and otherwise
    as it was written.
    """
    return finished(_SPACE_OR_STRING.sub(lambda found: found[1] or "", text))


def _as_found(value: Any) -> str:
    if type(value) is dict:
        pairs = [f"{encode_basestring(key)}:{_as_found(inner)}" for key, inner in value.items()]
        return "{" + ",".join(pairs) + "}"
    if type(value) is list:
        return "[" + ",".join([_as_found(inner) for inner in value]) + "]"
    return text_of(value)


def float_text(value: float) -> str:
    """Return the shortest digits that read as the same number, in Go's notation; Unfit for NaN."""
    text = repr(value)
    if "e" not in text:
        if text.endswith(".0"):
            return text[:-2]
        if math.isfinite(value):
            return text
        raise Unfit(f"JSON has no {text}")
    if 1e-6 <= abs(value) < 1e21:
        return format(Decimal(text), "f")
    return text.replace("e-0", "e-")


def time_text(value: datetime) -> str:
    """Return a time in quotes, RFC 3339 with the decimals it needs; Unfit without a time zone."""
    offset = value.utcoffset()
    if offset is None:
        raise Unfit(
            "a time without a time zone could mean any instant: give it one, such as datetime.UTC"
        )
    if offset.seconds % 60 or offset.microseconds:
        value = value.astimezone(UTC)
    return f'"{rfc3339_nano(value)}"'


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Unfit(f"JSON has no {value}")
    return f'"{value}"'


def _key(key: Any) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return int.__repr__(key)
    if isinstance(key, UUID):
        return str(key)
    raise Unfit(f"a key must be text or a whole number, not {type(key).__name__}")


def _mapping(value: Mapping[Any, Any]) -> str:
    named = {_key(key): inner for key, inner in value.items()}
    if len(named) != len(value):
        raise Unfit("two keys are the same as text")
    return _object([(key, named[key]) for key in sorted(named)])


def _object(pairs: Sequence[tuple[str, Any]]) -> str:
    texts: list[str] = []
    try:
        for key, value in pairs:
            texts.append(f"{encode_basestring(key)}:{text_of(value)}")
    except Unfit as unfit:
        raise unfit.within(pairs[len(texts)][0]) from None
    return "{" + ",".join(texts) + "}"


def _sequence(value: Iterable[Any]) -> str:
    return "[" + ",".join(_each(value)) + "]"


def _set(value: Set[Any]) -> str:
    return "[" + ",".join(sorted(_each(value))) + "]"


def _each(values: Iterable[Any]) -> list[str]:
    texts: list[str] = []
    try:
        for value in values:
            texts.append(text_of(value))
    except Unfit as unfit:
        raise unfit.within(str(len(texts))) from None
    return texts


_WRITERS: Mapping[type, Writer] = {
    str: encode_basestring,
    int: int.__repr__,
    float: float_text,
    bool: lambda value: "true" if value else "false",
    NoneType: lambda value: "null",
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    set: _set,
    frozenset: _set,
    datetime: time_text,
    date: lambda value: f'"{value.isoformat()}"',
    timedelta: lambda value: str((value // timedelta(microseconds=1)) * 1000),
    bytes: lambda value: f'"{base64.b64encode(value).decode()}"',
    bytearray: lambda value: f'"{base64.b64encode(value).decode()}"',
    UUID: lambda value: f'"{value}"',
    Decimal: _decimal,
}


@per_type
def writer(cls: Any) -> Writer:
    """Return a function that writes values of a type that is not in `_WRITERS`; see `text_of`."""
    if issubclass(cls, Enum):
        return lambda value: text_of(value.value)
    kind = struct_kind(cls)
    if kind is StructKind.DATACLASS:
        return _dataclass_writer(cls)
    if kind is StructKind.PYDANTIC:
        return lambda value: _alongside(value.model_dump(mode="json", by_alias=True), value)
    if kind is StructKind.MSGSPEC:
        import msgspec

        return lambda value: _alongside(msgspec.to_builtins(value, str_keys=True), value)
    for base in cls.__mro__[1:]:
        if base in _WRITERS:
            return _WRITERS[base]
    for abstract, write in ((Mapping, _mapping), (Set, _set), (Sequence, _sequence)):
        if issubclass(cls, abstract):
            return write
    return partial(_no_way, cls)


def _no_way(cls: type, value: object) -> str:
    raise Unfit(f"{cls.__name__} has no JSON form")


def _dataclass_writer(cls: type) -> Writer:
    fields = fields_of(cls)
    if not fields:
        return lambda value: "{}"
    if any(field.omit_empty for field in fields):
        return lambda value: _object(
            [
                (field.name, inner)
                for field in fields
                if not (_empty(inner := getattr(value, field.attribute)) and field.omit_empty)
            ]
        )
    keys = [encode_basestring(field.name).replace("%", "%%") for field in fields]
    template = "{" + ",".join(f"{key}:%s" for key in keys) + "}"
    attributes = [field.attribute for field in fields]
    # With one name attrgetter returns the bare value, so give it a second one, which is ignored.
    get = attrgetter(*attributes, attributes[0])
    last = len(fields)
    writers = _WRITERS.get

    def write(value: Any) -> str:
        texts: list[str] = []
        try:
            for inner in get(value)[:last]:
                texts.append((writers(type(inner)) or writer(type(inner)))(inner))
        except Unfit as unfit:
            raise unfit.within(fields[len(texts)].name) from None
        return template % tuple(texts)

    return write


def _empty(value: Any) -> bool:
    """Return whether Go's `omitempty` leaves a value out: false, 0, nil, what has no elements."""
    if value is None or value is False:
        return True
    if isinstance(value, int | float):
        return not value
    return isinstance(value, Sized) and len(value) == 0


def _alongside(dumped: Any, original: Any) -> str:
    """Return a library's dump of `original` as JSON; structs, dicts and times are written from
    `original`.

    Other values keep the library's own form, which its reader accepts.
    """
    if isinstance(dumped, dict):
        pairs = (_struct_items if struct_kind(type(original)) else _sorted_items)(dumped, original)
        texts = []
        for key, inner, was in pairs:
            try:
                texts.append(f"{encode_basestring(key)}:{_alongside(inner, was)}")
            except Unfit as unfit:
                raise unfit.within(key) from None
        return "{" + ",".join(texts) + "}"
    if isinstance(dumped, list | tuple):
        same = isinstance(original, list | tuple) and len(original) == len(dumped)
        originals = original if same else dumped
        return "[" + ",".join(map(_alongside, dumped, originals)) + "]"
    if isinstance(dumped, str) and type(original) is datetime and original.tzinfo is not None:
        return time_text(original)
    return text_of(dumped)


def _struct_items(dumped: dict[str, Any], original: Any) -> Iterable[tuple[str, Any, Any]]:
    """Yield each key, its dumped and its original value in the struct's order, without the kind."""
    attributes = {field.name: field.attribute for field in fields_of(type(original))}
    for key, inner in dumped.items():
        if key in attributes:
            yield key, inner, getattr(original, attributes[key])
        elif key != KIND:
            yield key, inner, None


def _sorted_items(dumped: dict[str, Any], original: Any) -> Iterable[tuple[str, Any, Any]]:
    """Return each key, its dumped and its original value, sorted by key."""
    same = isinstance(original, Mapping) and len(original) == len(dumped)
    originals = dict(zip(dumped, original.values() if same else dumped.values(), strict=True))
    return ((key, dumped[key], originals[key]) for key in sorted(dumped))
