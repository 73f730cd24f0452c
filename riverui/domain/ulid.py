"""Makes ULIDs: ids that sort by the time at which they were made."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32."""
_LENGTH = 26
"""Digits of a ULID: five bits each, for 128 bits."""


def ulid(now: datetime) -> str:
    """Return a new ULID: 48 bits of milliseconds since 1970, then 80 random bits."""
    return _written(now, secrets.randbits(80))


def ulid_of(at: datetime, text: str) -> str:
    """Return the ULID of a time and a text, always the same for these."""
    digest = hashlib.sha256(text.encode()).digest()
    return _written(at, int.from_bytes(digest[:10], "big"))


def _written(at: datetime, number: int) -> str:
    milliseconds = max(0, int(at.timestamp() * 1000)) & (2**48 - 1)
    number |= milliseconds << 80
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
