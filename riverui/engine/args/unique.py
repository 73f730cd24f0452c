"""Make unique keys, byte for byte as River does (`internal/dbunique`).

A key is the SHA-256 of `&kind=…&args=…&period=…&queue=…`, each part only if the options ask for it.
The args are those of `gojson`: all of them with their top-level keys sorted, or the fields marked
`Unique` as an object of their own. Periods count from year 1 in UTC (Go's `Time.Truncate`), up to
when the job is scheduled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from json.decoder import scanstring  # type: ignore[attr-defined]  # missing in typeshed
from typing import TYPE_CHECKING, Any, NamedTuple

from riverui.domain.jobs import JobState, state_bits
from riverui.engine.args.decoding import scan
from riverui.engine.args.fields import per_type, struct_kind, typed_fields, unwrapped
from riverui.engine.args.gojson import quoted
from riverui.errors import InsertError

if TYPE_CHECKING:
    from riverui.engine.insert.insert_opts import UniqueOpts

Path = tuple[str, ...]

_DEFAULT_STATES = frozenset(JobState) - {JobState.CANCELLED, JobState.DISCARDED}
_REQUIRED_STATES = (JobState.AVAILABLE, JobState.PENDING, JobState.RUNNING, JobState.SCHEDULED)
"""States that must count, as in River: otherwise a job could become a duplicate by itself."""
_YEAR_1 = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero time, from which `Time.Truncate` counts."""
_SECOND = 1_000_000
"""Microseconds: the unit of Python's datetimes."""
_PLAIN_KEY = re.compile(r"[ !#-\[\]-\x7f]*")
"""A key that needs no escapes: ASCII without control characters, quotes and backslashes."""


class Uniqueness(NamedTuple):
    """UniqueOpts after validation."""

    by_args: bool
    keys: tuple[str, ...]
    """Top-level keys of the args that count; empty for all of them, or those marked `Unique`."""
    period: int
    """Microseconds; 0 for none."""
    by_queue: bool
    states: int
    """Bits as of `domain.jobs.state_bits`."""
    exclude_kind: bool


def uniqueness(opts: UniqueOpts | None) -> Uniqueness | None:
    """Validate the options; None if nothing is set. InsertError as in River."""
    if opts is None:
        return None
    by_args = opts.by_args
    if isinstance(by_args, str):
        raise InsertError("unique_opts.by_args must be True, or a list of keys")
    keys = tuple(sorted(set(by_args))) if by_args and by_args is not True else ()
    period = _microseconds(opts.by_period)
    exclude_kind = getattr(opts, "exclude_kind", False)
    if not (by_args or period or opts.by_queue or opts.by_state is not None or exclude_kind):
        return None
    if exclude_kind and not (by_args or period or opts.by_queue):
        raise InsertError("unique_opts.exclude_kind needs by_args, by_period or by_queue beside it")
    states = state_bits(_states(opts.by_state) or _DEFAULT_STATES)
    return Uniqueness(bool(by_args), keys, period, bool(opts.by_queue), states, bool(exclude_kind))


def _microseconds(period: timedelta | int | None) -> int:
    if period is None:
        return 0
    if isinstance(period, timedelta):
        microseconds = period // timedelta(microseconds=1)
    else:
        microseconds = round(period * _SECOND)
    if microseconds and microseconds < _SECOND:
        raise InsertError("unique_opts.by_period must be at least a second")
    return microseconds


def _states(by_state: Sequence[JobState | str] | None) -> set[JobState]:
    if not by_state:
        return set()
    try:
        states = {JobState(getattr(state, "value", state)) for state in by_state}
    except ValueError as error:
        raise InsertError(f"unique_opts.by_state: {error}") from None
    if missing := [state.value for state in _REQUIRED_STATES if state not in states]:
        raise InsertError(f"unique_opts.by_state must have {', '.join(missing)} as well")
    return states


def unique_key(kind: str, unique: Uniqueness, args: str, queue: str, at: datetime) -> bytes:
    """Return the key, 32 bytes; `args` as of `unique_args`, `at` when the job is scheduled."""
    return hashlib.sha256(key_text(kind, unique, args, queue, at).encode()).digest()


def key_text(kind: str, unique: Uniqueness, args: str, queue: str, at: datetime) -> str:
    """Return the text whose hash is the key."""
    text = "" if unique.exclude_kind else f"&kind={kind}"
    if unique.by_args:
        text += f"&args={args}"
    if unique.period:
        text += f"&period={_period_start(at, unique.period)}"
    if unique.by_queue:
        text += f"&queue={queue}"
    return text


def _period_start(at: datetime, period: int) -> str:
    since = at - _YEAR_1
    microseconds = (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds
    start = _YEAR_1 + timedelta(microseconds=microseconds - microseconds % period)
    return start.isoformat()[:19] + "Z"


def unique_args(encoded: str, args_type: type, keys: Sequence[str] = ()) -> str:
    """Return the JSON of the args that count, from the JSON of all args (`job_args.unique_form`).

    Without `keys` these are the fields marked `Unique`, or all fields if none is. Marked fields
    that the JSON does not have are left out, and with none left the text is empty, as in River.
    """
    paths = _top_level(keys) if keys else _marked(args_type)
    if not paths:
        pairs = sorted(_first_members(encoded).items())
        return "{" + ",".join([f"{_key(key)}:{raw}" for key, raw in pairs]) + "}"
    chosen: dict[str, Any] = {}
    for path in paths:
        if (raw := _at(encoded, path)) is not None:
            inner = chosen
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = raw
    return _built(chosen) if chosen else ""


def _built(chosen: dict[str, Any]) -> str:
    pairs = [
        f"{_key(key)}:{_built(inner) if isinstance(inner, dict) else inner}"
        for key, inner in chosen.items()
    ]
    return "{" + ",".join(pairs) + "}"


def _key(key: str) -> str:
    """Return a key in quotes as River writes it: a simple one without Go's escapes for HTML."""
    return f'"{key}"' if _PLAIN_KEY.fullmatch(key) else quoted(key)


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of an object, compact JSON, with the text of their values; nothing for other
    JSON.
    """
    if text[0] != "{" or text == "{}":
        return
    place = 1
    while True:
        key, colon = scanstring(text, place + 1)
        _, end = scan(text, colon + 1)
        yield key, text[colon + 1 : end]
        if text[end] == "}":
            return
        place = end + 1


def _first_members(text: str) -> dict[str, str]:
    """Return the members of an object; of equal keys the first one, as in River."""
    return dict(reversed([*_members(text)]))


def _at(text: str, path: Path) -> str | None:
    for key in path:
        found = _first_members(text).get(key)
        if found is None:
            return None
        text = found
    return text


def _top_level(keys: Sequence[str]) -> tuple[Path, ...]:
    return tuple((_checked(key),) for key in keys)


@per_type
def _marked(cls: type) -> tuple[Path, ...]:
    """Return the paths of marked fields in River's order: by their keys joined with dots."""
    if struct_kind(cls) is None:
        return ()
    try:
        paths = _paths(cls, (), set())
    except TypeError as error:
        raise InsertError(f"cannot find the Unique args: {error}") from None
    return tuple(
        sorted(paths, key=lambda path: (".".join(path), [key.replace(".", "\\.") for key in path]))
    )


def _paths(cls: type, path: Path, seen: set[type]) -> list[Path]:
    """Return the paths of fields marked `Unique` in a struct and the structs inside it.

    A struct counts by its marked fields; one that is itself marked, and has none, as a whole. River
    descends into each type once, so a second field of the same type counts as a whole too.
    """
    if cls in seen:
        return []
    seen.add(cls)
    found: list[Path] = []
    for field in typed_fields(cls):
        inner, marked = unwrapped(field.annotation)
        here = (*path, _checked(field.name) if marked else field.name)
        inside = _paths(inner, here, seen) if isinstance(inner, type) and struct_kind(inner) else []
        found += inside or ([here] if marked else [])
    return found


def _checked(key: str) -> str:
    if key.isdecimal():
        raise InsertError(
            f"a unique field cannot be named {key!r}: River would take it for a list index"
        )
    return key
