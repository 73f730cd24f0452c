"""Answers as JSON: compact text, and times as Go writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.responses import Response

from riverui.domain.time import rfc3339_nano

_MEDIA = "application/json; charset=utf-8"


def reply(found: object, *, status: int = 200) -> Response:
    """Return a model, or any other value, as a JSON response."""
    return Response(msgspec.json.encode(found), status_code=status, media_type=_MEDIA)


def passed_on(text: str) -> Response:
    """Return text that already is JSON as a response."""
    return Response(text, media_type=_MEDIA)


def written(before: str, value: object, after: str) -> Response:
    """Return a value between two pieces of JSON text as a response."""
    return Response(f"{before}{dump(value)}{after}", media_type=_MEDIA)


def dump(value: object) -> str:
    """Return compact JSON text; a number that JSON cannot hold (NaN, infinity) becomes null."""
    return msgspec.json.encode(value).decode()


def instant(at: datetime) -> str:
    """Return a time in UTC as Go writes it."""
    return rfc3339_nano(at if at.tzinfo is UTC else at.astimezone(UTC))


def optional_instant(at: datetime | None) -> str | None:
    """Return a time in UTC as Go writes it, None for None."""
    return None if at is None else instant(at)
