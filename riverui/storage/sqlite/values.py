"""Values of a job's columns, checked, merged and compared as Postgres does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from riverui.domain.json import UnreadableJson, read_json, read_object, write_json
from riverui.errors import BadRequest

CANCEL_ATTEMPTED_AT = "cancel_attempted_at"
"""The metadata key by which a running job is asked to stop."""
_LAST = datetime.max.replace(microsecond=999_000, tzinfo=UTC)
"""The last instant that is not rounded up."""
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""An escaped NUL character in JSON; not one whose backslash is escaped itself."""


def stamp(at: datetime) -> str:
    """Return an instant as River stores it in SQLite: in UTC, to the nearest millisecond."""
    return to_milliseconds(at).astimezone(UTC).isoformat(" ", "milliseconds")[:23]


def stamp_or_none(at: datetime | None) -> str | None:
    """Return the same, None for None."""
    return None if at is None else stamp(at)


def instant(text: str) -> datetime:
    """Return the instant that a text of SQLite stands for."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def to_milliseconds(at: datetime) -> datetime:
    """Return the instant that SQLite's texts hold: the nearest millisecond, half a one rounded up
    as in Go.
    """
    beyond = at.microsecond % 1000
    if beyond >= 500 and at < _LAST:
        return at + timedelta(microseconds=1000 - beyond)
    return at.replace(microsecond=at.microsecond - beyond) if beyond else at


def checked_text(text: str) -> str:
    """Return the text; BadRequest for what Postgres cannot store, to which the job may move."""
    if "\0" in text:
        raise BadRequest("Text with a NUL character cannot be stored.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest("Text with a lone surrogate cannot be stored.") from None
    return text


def checked_json(text: str) -> str:
    """Return the text; BadRequest unless it is JSON that Postgres can store too."""
    checked_text(text)
    if text == "{}":
        return text
    try:
        value = read_json(text)
    except UnreadableJson as error:
        raise BadRequest(f"This is not valid JSON: {error}.") from None
    if "\\u" in text:
        if _NUL.search(text):
            raise BadRequest("JSON with a NUL character cannot be stored.")
        checked_text(write_json(value))
    return text


def merged(text: str, added: str | None) -> str:
    """Return an object with another one merged into it, both as JSON; any other value stays as
    it is.
    """
    if added is None:
        return text
    try:
        # Raw values stay as they are: Python's numbers are not those of JSON.
        before, more = _raw.decode(text), _raw.decode(added)
    except msgspec.MsgspecError:
        return text
    return msgspec.json.encode({**before, **more}).decode()


def without(text: str, key: str) -> str:
    """Return a JSON object without a key; any other value stays as it is."""
    try:
        found = _raw.decode(text)
    except msgspec.MsgspecError:
        return text
    return msgspec.json.encode({name: found[name] for name in found if name != key}).decode()


def written(value: object) -> str:
    """Return a value as JSON with the spaces that Postgres writes."""
    return json.dumps(value, ensure_ascii=False)


def is_cancel_requested(metadata: str) -> bool:
    """Return whether the metadata of a job has a request to cancel it."""
    return CANCEL_ATTEMPTED_AT in metadata and CANCEL_ATTEMPTED_AT in read_object(metadata)


def contains(value: Any, wanted: Any) -> bool:
    """Return whether a JSON value contains another one, by the rules of Postgres's `@>`."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and contains(value[key], inner) for key, inner in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(value, list) and all(
            any(contains(each, inner) for each in value) for inner in wanted
        )
    return same_json(value, wanted)


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def newest(names: Iterable[str], added: str, most: int) -> tuple[str, ...]:
    """Return the names with one added, of which the newest `most` are kept."""
    return (*names, added)[-most:]
