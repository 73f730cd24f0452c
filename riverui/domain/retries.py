"""Whether and when failed jobs are retried: River's policy, and policies of the program.

Retry(
    max_attempts=5,
    wait=exponential(2, max=timedelta(hours=1)),
    on=(ConnectionError, TimeoutError),
    never=(PermissionError,),
)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TypeAlias

from riverui.domain.jobs import JobRow
from riverui.errors import ConfigError

NOT_TRIED_AGAIN = "\nNot tried again: "
"""Precedes, in a job's error, the reason why a Retry discarded it."""

_JITTER = 0.1
"""Share of the delay by which it varies, as in River, so that jobs are not retried together."""
_LONGEST = timedelta(seconds=(2**63 - 1) / 1e9)
"""Go's longest duration, about 292 years: River's cap."""
_MAX_BASE = 1_000_000
"""Maximum base of an exponential wait: a larger one is probably a mistake."""
_MAX_NAME = 100
"""Maximum characters of an error's class in a message."""
_NOTHING = timedelta(0)
_SECOND = timedelta(seconds=1)

RetryWait: TypeAlias = Callable[[int], timedelta]
"""Returns the wait after so many failures, including the newest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """Waits that grow with the failures: `first` × base^(failures - 1) × failures^power."""

    first: timedelta
    base: float = 1
    power: int = 0
    jitter: float = 0
    """Share of the wait by which it varies to either side."""
    max: timedelta = _LONGEST
    """No wait is longer."""

    def __call__(self, failures: int) -> timedelta:
        """Return the wait after so many failures."""
        if not self.first:
            return _NOTHING
        try:
            seconds = self.first.total_seconds() * float(self.base) ** (failures - 1)
            seconds *= float(failures**self.power)
        except OverflowError:
            seconds = float("inf")
        most = self.max.total_seconds()
        if seconds < most:
            seconds *= random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311
            return timedelta(seconds=min(seconds, most))
        if self.max == _LONGEST:
            return _LONGEST
        # Vary the longest wait as well.
        return timedelta(seconds=most * random.uniform(1 - self.jitter, 1))  # noqa: S311


def exponential(
    base: float = 2,
    *,
    first: timedelta = _SECOND,
    jitter: float = _JITTER,
    max: timedelta | None = None,
) -> Backoff:
    """Return waits of which each is `base` times as long as the one before, such as 1, 2, 4 s.

    ConfigError for a base below 1 or above a million, a jitter outside 0 to 1, and spans that are
    negative or longer than 292 years.
    """
    if not _is_number(base) or not 1 <= base <= _MAX_BASE:
        raise ConfigError(f"exponential: base must be a number from 1 to {_MAX_BASE:,}.")
    return _backoff("exponential", first, jitter, max, base=base)


def linear(
    step: timedelta,
    *,
    jitter: float = _JITTER,
    max: timedelta | None = None,
) -> Backoff:
    """Return waits of which each is `step` longer than the one before. ConfigError as for
    `exponential`.
    """
    return _backoff("linear", step, jitter, max, power=1)


def fixed(span: timedelta, *, jitter: float = 0) -> Backoff:
    """Return waits that are all the same. ConfigError as for `exponential`."""
    return _backoff("fixed", span, jitter, None)


def fourth_power(
    *,
    jitter: float = _JITTER,
    max: timedelta | None = None,
) -> Backoff:
    """Return River's own waits: the fourth power of the failures, in seconds. ConfigError as for
    `exponential`.
    """
    return _backoff("fourth_power", _SECOND, jitter, max, power=4)


def _backoff(
    name: str,
    first: timedelta,
    jitter: float,
    most: timedelta | None,
    *,
    base: float = 1,
    power: int = 0,
) -> Backoff:
    _check_wait(f"{name}: a wait", first)
    if not _is_number(jitter) or not 0 <= jitter <= 1:
        raise ConfigError(f"{name}: jitter must be a number from 0 to 1.")
    if most is None:
        most = _LONGEST
    _check_wait(f"{name}: max", most)
    return Backoff(first=first, base=base, power=power, jitter=jitter, max=most)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Whether and when failed jobs are retried. The worker's Retry applies as a whole, else that of
    the args type, else the client's. Raises ConfigError for invalid values.
    """

    max_attempts: int | None = None
    """Maximum number of attempts, the first one included. New jobs are inserted with it; existing
    jobs that allow more attempts get no more than these. None leaves it to the job.
    """
    wait: RetryWait | timedelta | Sequence[timedelta] | None = None
    """How long to wait after a failure: `exponential(…)`, `linear(…)`, `fixed(…)`,
    `fourth_power()`, a span, a list of spans (the last one counts for all further failures), or a
    function of the number of failures. None leaves it to the client's `retry_policy`.
    """
    on: tuple[type[BaseException], ...] | None = None
    """The only errors after which a job is retried; None for all. Others discard it at once."""
    never: tuple[type[BaseException], ...] = ()
    """Errors that discard a job at once, even if they are in `on` too."""

    def __post_init__(self) -> None:
        attempts, wait = self.max_attempts, self.wait
        if attempts is not None and (
            isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1
        ):
            raise ConfigError("Retry: max_attempts must be a whole number of at least 1.")
        if self.on is not None:
            _check_errors("on", self.on)
        _check_errors("never", self.never)
        if wait is None or callable(wait):
            return
        if isinstance(wait, Sequence) and not isinstance(wait, str):
            if not wait:
                raise ConfigError("Retry: wait needs at least one span of time.")
            # Copy it, as the program could change its list later.
            object.__setattr__(self, "wait", tuple(wait))
            for span in wait:
                _check_wait("Retry: each wait", span)
        else:
            _check_wait("Retry: wait", wait)

    def wait_after(self, failures: int) -> timedelta | None:
        """Return the wait after so many failures; None if this leaves it to the client.

        Raise TypeError if the program's function does not return a timedelta, and whatever the
        function raises.
        """
        wait = self.wait
        if wait is None or isinstance(wait, timedelta):
            return wait
        if isinstance(wait, Sequence):
            return wait[min(failures, len(wait)) - 1]
        found = wait(failures)
        if not isinstance(found, timedelta):
            raise TypeError(f"the wait of a Retry gave {found!r:.100}, not a timedelta")
        return found

    def rejects(self, row: JobRow, error: BaseException) -> str | None:
        """Return why a job is not retried after this error; None if it may be.

        Errors in an exception group count as well.
        """
        for one in _with_parts(error):
            if isinstance(one, self.never):
                return f"its Retry never tries {_name(one)} again"
        if self.on is not None and not any(isinstance(one, self.on) for one in _with_parts(error)):
            return f"its Retry does not try {_name(error)} again"
        return self.used_up(row)

    def used_up(self, row: JobRow) -> str | None:
        """Return why a job has no attempts left; None if it has some."""
        if self.max_attempts is None or row.attempt < self.max_attempts:
            return None
        return f"its Retry allows {self.max_attempts:,} attempt{'s'[: self.max_attempts != 1]}"

    def attempts_of(self, row: JobRow) -> int:
        """Return a job's maximum attempts: the lower of its row's and this one's, but at least the
        current attempt, which a person may have requested.
        """
        most = row.max_attempts if self.max_attempts is None else self.max_attempts
        return max(row.attempt, min(most, row.max_attempts))


def _with_parts(error: BaseException) -> Iterator[BaseException]:
    yield error
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _with_parts(part)


def _name(error: BaseException) -> str:
    return type(error).__name__[:_MAX_NAME]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _check_errors(name: str, errors: object) -> None:
    if not isinstance(errors, tuple) or not all(
        isinstance(one, type) and issubclass(one, BaseException) for one in errors
    ):
        raise ConfigError(
            f"Retry: {name} must be a tuple of exception classes, such as {name}=(ValueError,)."
        )


def _check_wait(name: str, span: object) -> None:
    if not isinstance(span, timedelta):
        raise ConfigError(f"{name} must be a timedelta, not {span!r:.100}.")
    if not _NOTHING <= span <= _LONGEST:
        raise ConfigError(f"{name} must not be negative, nor longer than 292 years.")


_RIVERS_WAIT = fourth_power()


def default_retry(job: JobRow, *, now: datetime | None = None) -> datetime:
    """Return when River retries a failed job: after the fourth power of its failures in seconds,
    ±10 %, including this failure.

    Errors are counted, not attempts, since `job.errors` does not hold the newest one yet.
    """
    return (now or datetime.now(UTC)) + retry_delay(failures_of(job))


def retry_delay(failures: int) -> timedelta:
    """Return River's wait after so many failures."""
    return _RIVERS_WAIT(failures)


def failures_of(job: JobRow) -> int:
    """Return how often a job has failed, including now."""
    return len(job.errors) + 1
