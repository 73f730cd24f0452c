"""Checks of insert options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from riverui.domain.values import MAX_BIGINT, is_queue_name
from riverui.engine.args.unique import uniqueness
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.errors import InsertError

_NOTHING = timedelta(0)
_TAG = re.compile(r"\w[\w-]+\w", re.ASCII)
"""A tag: River's pattern."""
_LONGEST_TAG = 255
"""Characters in a tag: River's figure."""


def check_opts(opts: InsertOpts) -> None:
    """Raise InsertError for options with which a job cannot be inserted."""
    if opts.max_attempts is not None:
        checked_max_attempts(opts.max_attempts)
    if opts.priority is not None:
        checked_priority(opts.priority)
    if opts.queue is not None:
        checked_queue(opts.queue)
    checked_tags(opts.tags or ())
    checked_scheduled_at([opts], datetime.now(UTC))
    uniqueness(opts.unique_opts)
    if opts.sequence is not None:
        opts.sequence.check()


def checked_max_attempts(value: Any) -> int:
    """Return the maximum of attempts, limited to 64 bits; InsertError if invalid."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return min(value, MAX_BIGINT)
    raise InsertError(f"max_attempts must be a whole number of at least 1, not {value!r}")


def checked_priority(value: Any) -> int:
    """Return a priority; InsertError unless it is 1 to 4."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4:
        return value
    raise InsertError(f"priority must be 1, 2, 3 or 4, not {value!r}")


def checked_queue(name: object) -> str:
    """Return the name of a queue; InsertError for an invalid one."""
    if isinstance(name, str) and _fits(name):
        return name
    allowed = "use up to 64 lower-case letters and digits, with single _, - or | between them"
    raise InsertError(f"{name!r} is not a valid queue name: {allowed}")


_fits = lru_cache(maxsize=1024)(is_queue_name)


def checked_tags(values: Sequence[str]) -> tuple[str, ...]:
    """Return tags; InsertError for an invalid one."""
    if not values:
        return ()
    if isinstance(values, str):
        raise InsertError("tags must be a list of strings, not one string")
    for tag in values:
        if not isinstance(tag, str) or len(tag) > _LONGEST_TAG or not _TAG.fullmatch(tag):
            raise InsertError(
                f"{tag!r} is not a valid tag: use 3 to {_LONGEST_TAG} of A–Z, a–z, 0–9, _, and -"
                " inside"
            )
    return tuple(values)


def checked_scheduled_at(all_opts: Iterable[InsertOpts], now: datetime) -> datetime | None:
    """Return a job's scheduled time from the first options that have one; None for now."""
    for opts in all_opts:
        # The official client's options have no delay.
        delay = getattr(opts, "delay", None)
        if delay is None:
            if opts.scheduled_at is not None:
                return checked_time(opts.scheduled_at)
        elif opts.scheduled_at is None:
            return _after(now, delay)
        else:
            raise InsertError("give either delay or scheduled_at, not both")
    return None


def _after(now: datetime, delay: object) -> datetime | None:
    if not isinstance(delay, timedelta):
        raise InsertError(
            f"delay must be a timedelta, such as timedelta(minutes=5), not {delay!r:.100}"
        )
    if delay < _NOTHING:
        raise InsertError(f"delay must not be negative: {delay}")
    try:
        return now + delay if delay else None
    except OverflowError:
        raise InsertError(f"delay is too long: {delay}") from None


def checked_time(at: datetime | None) -> datetime | None:
    """Return a time in UTC; InsertError for one without a time zone."""
    if at is None:
        return None
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InsertError(f"scheduled_at must be a time with a time zone, not {at!r}")
    return at.astimezone(UTC)
