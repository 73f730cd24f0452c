"""Positions in the list of dead letters, as written in URLs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from riverui.domain.values import is_bigint
from riverui.errors import BadRequest
from riverui.features.dead_letters.store import DeadJobPlace

_PLACE = re.compile(r"([0-9]{1,18})~(-?[0-9]{1,19})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(place: DeadJobPlace) -> str:
    """Return a position as text: microseconds since 1970, and the id."""
    at, job_id = place
    return f"{(at - _EPOCH) // timedelta(microseconds=1)}~{job_id}"


def read(text: str) -> DeadJobPlace | None:
    """Return the position that a text holds, or None for an empty text. Raise BadRequest if the
    text is not valid.
    """
    if not text:
        return None
    found = _PLACE.fullmatch(text)
    if found is None or not is_bigint(int(found[2])):
        raise BadRequest("This position in the list of dead letters is not valid.")
    try:
        return _EPOCH + timedelta(microseconds=int(found[1])), int(found[2])
    except OverflowError:
        raise BadRequest("This position in the list of dead letters is not valid.") from None
