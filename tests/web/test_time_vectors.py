"""The server writes times in the words of tests/times.json; so does the browser, elsewhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from riverui.web.view import format as shown
from tests.time_vectors import TimeVector, time_vectors

VECTORS = time_vectors()


def _in_zone(at: datetime, zone: str) -> datetime:
    """Return an instant whose UTC reads as `at` reads in that zone."""
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)


@pytest.mark.parametrize("case", VECTORS, ids=str)
def test_a_time_is_written_in_the_words_of_its_vector(case: TimeVector) -> None:
    if case.mode in ("relative", "fine"):
        assert shown.relative(case.at, case.now, fine=case.mode == "fine") == case.text
    elif case.mode == "since":
        markup = shown.Times(now=case.now).since(case.at)
        assert re.sub(r"<[^>]+>", "", markup) == case.text
    else:
        at, now = (_in_zone(instant, case.zone) for instant in (case.at, case.now))
        assert shown.clock(at, now) == case.text


def test_the_vectors_hold_every_mode() -> None:
    assert {case.mode for case in VECTORS} == {"relative", "fine", "since", "utc", "local"}
    assert len({case.zone for case in VECTORS}) > 2
