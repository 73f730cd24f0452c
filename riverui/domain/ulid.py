"""Makes ULIDs: ids that sort by the time at which they were made."""

from __future__ import annotations

import secrets
from datetime import datetime

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32."""
_LENGTH = 26
"""Digits of a ULID: five bits each, for 128 bits."""


def ulid(now: datetime) -> str:
    """Return a new ULID: 48 bits of milliseconds since 1970, then 80 random bits."""
    milliseconds = max(0, int(now.timestamp() * 1000)) & (2**48 - 1)
    number = milliseconds << 80 | secrets.randbits(80)
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
