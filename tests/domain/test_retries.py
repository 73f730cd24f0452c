"""A Retry as data: how long it waits, what it refuses, and what cannot be one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.domain.jobs import JobRow
from riverui.domain.retries import Backoff, Retry, exponential, fixed, fourth_power, linear
from riverui.errors import ConfigError
from tests.factory import job_row

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def row(attempt: int, max_attempts: int = 25) -> JobRow:
    return job_row(attempt=attempt, max_attempts=max_attempts, attempted_at=NOW)


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        (exponential(jitter=0), [1, 2, 4, 8]),
        (exponential(3, first=10 * SECOND, jitter=0, max=MINUTE), [10, 30, 60, 60]),
        (exponential(1, jitter=0), [1, 1, 1, 1]),
        (linear(5 * SECOND, jitter=0), [5, 10, 15, 20]),
        (linear(5 * SECOND, jitter=0, max=12 * SECOND), [5, 10, 12, 12]),
        (fixed(7 * SECOND), [7, 7, 7, 7]),
        (fixed(0 * SECOND), [0, 0, 0, 0]),
        (fourth_power(jitter=0), [1, 16, 81, 256]),
        (fourth_power(jitter=0, max=MINUTE), [1, 16, 60, 60]),
        (30 * SECOND, [30, 30, 30, 30]),
        ([SECOND, MINUTE], [1, 60, 60, 60]),
        (lambda failures: 100 * failures * SECOND, [100, 200, 300, 400]),
    ],
)
def test_how_long_it_waits(wait: Any, seconds: list[int]) -> None:
    retry = Retry(wait=wait)
    assert [retry.wait_after(failures) for failures in (1, 2, 3, 4)] == [
        timedelta(seconds=each) for each in seconds
    ]


def test_one_that_does_not_say_when() -> None:
    assert Retry().wait_after(1) is None


def test_waits_vary_but_are_never_longer_than_the_longest() -> None:
    wait = exponential(2, first=100 * SECOND, jitter=0.1, max=HOUR)
    early = {wait(1) for _ in range(50)}
    assert len(early) > 1
    assert all(90 * SECOND <= each <= 110 * SECOND for each in early)
    late = {wait(40) for _ in range(50)}
    assert len(late) > 1, "jobs that wait as long as they may part as well"
    assert all(0.9 * HOUR <= each <= HOUR for each in late)


@pytest.mark.parametrize(
    "wait",
    [exponential(2), exponential(1_000_000), exponential(10, first=HOUR), linear(1_000 * HOUR)],
    ids=["2", "million", "hours", "linear"],
)
def test_no_number_of_failures_is_too_many(wait: Backoff) -> None:
    assert wait(32_767) <= timedelta(days=110_000)
    assert exponential(2, first=timedelta(0))(32_767) == timedelta(0)


def test_the_same_settings_are_the_same_retry() -> None:
    one, other = (Retry(max_attempts=5, wait=exponential(2, max=HOUR)) for _ in range(2))
    assert one == other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.max_attempts = 6  # type: ignore[misc]
    spans = [SECOND]
    retry = Retry(wait=spans)
    spans.append(HOUR)
    assert retry.wait_after(2) == SECOND


def test_which_errors_end_a_job() -> None:
    retry = Retry(on=(OSError,), never=(FileNotFoundError,))
    for error, why in [
        (TimeoutError(), None),
        (FileNotFoundError(), "its Retry never tries FileNotFoundError again"),
        (ValueError(), "its Retry does not try ValueError again"),
        (ExceptionGroup("two", [TimeoutError(), ValueError()]), None),
        (
            ExceptionGroup("two", [ExceptionGroup("one", [FileNotFoundError()]), OSError()]),
            "its Retry never tries FileNotFoundError again",
        ),
        (ExceptionGroup("one", [KeyError()]), "its Retry does not try ExceptionGroup again"),
    ]:
        assert retry.rejects(row(1), error) == why
    assert Retry(on=()).rejects(row(1), OSError()) == "its Retry does not try OSError again"
    assert Retry().rejects(row(24), SystemExit()) is None


def test_how_often_a_job_is_attempted() -> None:
    retry = Retry(max_attempts=3)
    assert [retry.used_up(row(attempt)) for attempt in (1, 2)] == [None, None]
    assert retry.used_up(row(3)) == "its Retry allows 3 attempts"
    assert Retry(max_attempts=1).used_up(row(7)) == "its Retry allows 1 attempt"
    assert Retry().used_up(row(30)) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Retry(max_attempts=0), "max_attempts must be a whole number of at least 1"),
        (lambda: Retry(max_attempts=True), "max_attempts must be a whole number"),
        (lambda: Retry(max_attempts=float("inf")), "max_attempts must be a whole number"),  # type: ignore[arg-type]
        (lambda: Retry(wait=[]), "wait needs at least one span"),
        (lambda: Retry(wait=[5]), "each wait must be a timedelta, not 5"),  # type: ignore[list-item]
        (lambda: Retry(wait="river"), "wait must be a timedelta, not 'river'"),  # type: ignore[arg-type]
        (lambda: Retry(wait=-SECOND), "wait must not be negative"),
        (lambda: Retry(wait=timedelta.max), "nor longer than 292 years"),
        (lambda: Retry(on=ValueError), r"on must be a tuple .* on=\(ValueError,\)"),  # type: ignore[arg-type]
        (lambda: Retry(never=("ValueError",)), "never must be a tuple of exception classes"),  # type: ignore[arg-type]
        (lambda: Retry(never=(ValueError(),)), "never must be a tuple of exception classes"),  # type: ignore[arg-type]
        (lambda: exponential(0.5), "exponential: base must be a number from 1 to 1,000,000"),
        (lambda: exponential(float("inf")), "base must be a number"),
        (lambda: exponential(float("nan")), "base must be a number"),
        (lambda: exponential(timedelta(seconds=2)), "base must be a number"),  # type: ignore[arg-type]
        (lambda: exponential(first=-SECOND), "exponential: a wait must not be negative"),
        (lambda: exponential(max=-SECOND), "exponential: max must not be negative"),
        (lambda: exponential(jitter=2), "jitter must be a number from 0 to 1"),
        (lambda: linear(5), "linear: a wait must be a timedelta, not 5"),  # type: ignore[arg-type]
        (lambda: fixed(timedelta.max), "fixed: a wait must not be .* longer than 292 years"),
        (lambda: fourth_power(jitter=-0.1), "fourth_power: jitter must be a number"),
    ],
)
def test_what_cannot_be_used_is_refused_when_it_is_made(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
