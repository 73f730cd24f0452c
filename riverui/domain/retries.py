"""When a failed job is tried again, unless a worker or the client says otherwise."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import JobRow

_JITTER = 0.1
"""Share of the delay by which it varies, as in River, so that jobs that failed together part."""
_MOST_SECONDS = (2**63 - 1) / 1e9
"""Seconds in Go's longest duration, about 292 years: River's cap."""


def default_retry(job: JobRow, *, now: datetime | None = None) -> datetime:
    """Return when River tries a failed job again: after the fourth power of its failures, this one
    included, in seconds ±10 %.

    Errors are counted, not attempts, since `job.errors` does not hold the newest one yet.
    """
    return (now or datetime.now(UTC)) + retry_delay(len(job.errors) + 1)


def retry_delay(failures: int) -> timedelta:
    """Return how long to wait after so many failures."""
    seconds = min(float(failures**4), _MOST_SECONDS)
    if seconds < _MOST_SECONDS:
        seconds = min(seconds * random.uniform(1 - _JITTER, 1 + _JITTER), _MOST_SECONDS)  # noqa: S311
    return timedelta(seconds=seconds)
