"""What the statements by which clients keep to their own jobs may read: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tests.storage.plan_case import PKEY, Case


def client_cases(rows: int) -> Mapping[str, Case]:
    """Return the cases by name, for a table of so many jobs."""
    now = datetime.now(UTC)
    some = list(range(1, 1001))
    return {
        "complete at an attempt": Case(
            call=lambda x: x.job_complete_many(some, [now] * 1000, of_attempts=[1] * 1000),
            indexes={PKEY},
            reads=2 * 1000,
        ),
        "complete at attempts": Case(
            call=lambda x: x.job_complete_many(some, [now] * 1000, of_attempts=some),
            indexes={PKEY},
            reads=2 * 1000,
        ),
    }
