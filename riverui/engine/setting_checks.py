"""Checks of single settings."""

from __future__ import annotations

from datetime import timedelta

from riverui.domain.retries import Retry
from riverui.engine.spans import NO_LIMIT
from riverui.errors import ConfigError

_NOTHING = timedelta(0)


def check_span(
    name: str, value: timedelta, *, least: timedelta = _NOTHING, or_no_limit: bool = False
) -> None:
    """Raise ConfigError if a setting is not a span of time, or is shorter than `least`."""
    if not isinstance(value, timedelta):
        raise ConfigError(
            f"{name} must be a timedelta, such as timedelta(seconds=10), not {value!r:.100}"
        )
    if value < least and not (or_no_limit and value == NO_LIMIT):
        words = f"at least {least.total_seconds() * 1000:g} ms" if least else "not negative"
        raise ConfigError(f"{name} must be {words}{', or NO_LIMIT' if or_no_limit else ''}.")


def check_retry(name: str, value: object) -> None:
    """Raise ConfigError if a setting is neither a Retry nor None."""
    if value is not None and not isinstance(value, Retry):
        raise ConfigError(
            f"{name} must be a Retry, such as Retry(max_attempts=5), not {value!r:.100}."
        )


def check_type(name: str, value: object, expected: str) -> None:
    """Raise ConfigError if a setting is neither None nor of the class of that name. The name is
    enough: features are imported only by programs that use them.
    """
    if value is not None and all(cls.__name__ != expected for cls in type(value).__mro__):
        raise ConfigError(f"{name} must be a {expected}.")


def check_number(name: str, value: int, *, least: int, most: int | None = None) -> None:
    """Raise ConfigError if a setting is not a whole number from `least` to `most`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or value > (most or value)
    ):
        words = f"from {least:,} to {most:,}" if most else f"of at least {least:,}"
        raise ConfigError(f"{name} must be a whole number {words}.")
