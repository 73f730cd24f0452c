"""Decode SQLite's JSONB, for versions of SQLite that cannot."""

from __future__ import annotations

import json

_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = frozenset({3, 5})
"""Whole and floating-point numbers as JSON writes them; 4 and 6 are those of JSON5."""
_ARRAY, _OBJECT = 11, 12
"""Kinds of elements that hold others."""
_LONG = {12: 1, 13: 2, 14: 4, 15: 8}
"""Bytes of the size that follows the first byte, by its upper four bits; below 12 these are the
size itself.
"""


def json_of(blob: bytes) -> str:
    """Return a JSONB value as JSON text; ValueError if it is not one."""
    text, end = _element(blob, 0)
    if end != len(blob):
        raise ValueError("malformed JSONB")
    return text


def _element(blob: bytes, start: int) -> tuple[str, int]:
    """Return the element that begins there, and where it ends."""
    kind, size = blob[start] & 15, blob[start] >> 4
    begin = start + 1
    if (more := _LONG.get(size)) is not None:
        size = int.from_bytes(blob[begin : begin + more], "big")
        begin += more
    end = begin + size
    if end > len(blob):
        raise ValueError("malformed JSONB")
    if kind in _LITERALS:
        return _LITERALS[kind], end
    if kind in (_ARRAY, _OBJECT):
        return _container(blob, begin, end, is_object=kind == _OBJECT), end
    text = blob[begin:end].decode()
    if kind in _NUMBERS:
        return text, end
    if kind in (7, 8):
        # Text that needs no escapes, or has those of JSON already.
        return f'"{text}"', end
    if kind == 10:
        return json.dumps(text, ensure_ascii=False), end
    raise ValueError("JSON5 inside JSONB is not supported")


def _container(blob: bytes, begin: int, end: int, *, is_object: bool) -> str:
    parts = []
    while begin < end:
        part, begin = _element(blob, begin)
        parts.append(part)
    if not is_object:
        return f"[{','.join(parts)}]"
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return f"{{{','.join(f'{key}:{value}' for key, value in pairs)}}}"
