"""Times out of JSON that Go wrote: any offset, up to nine decimals, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from riverui.domain.attempt_errors import go_time


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-21T09:00:00Z", datetime(2026, 11, 21, 9, tzinfo=UTC)),
        ("2026-11-21T09:00:00.1Z", datetime(2026, 11, 21, 9, 0, 0, 100_000, tzinfo=UTC)),
        ("2026-11-21T09:00:00.123456789Z", datetime(2026, 11, 21, 9, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-11-21T09:00:00+02:00", datetime(2026, 11, 21, 7, tzinfo=UTC)),
        ("2026-11-21T23:30:00-01:45", datetime(2026, 11, 22, 1, 15, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_time_of_go_is_read_in_utc(text: str, at: datetime) -> None:
    found = go_time(text)
    assert found == at
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "yesterday",
        "2026-11-21",
        "20261121T090000Z",
        "2026-W47-6T09:00:00Z",
        "2026-11-21 09:00:00Z",
        "2026-11-21T09:00:00",
        "2026-11-21T09:00:00,5Z",
        "2026-11-21T09:00:00.Z",
        "2026-11-21T09:00:00.1234567891Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T09:00:60Z",
        "2026-02-30T09:00:00Z",
        "2026-11-21T09:00:00+24:00",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "٢٠٢٦-11-21T09:00:00Z",
        "2026-11-21T09:00:00Z\n",
    ],
)
def test_all_else_is_no_time(text: str | None) -> None:
    assert go_time(text) is None
