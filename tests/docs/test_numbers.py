"""Figures on the pages about the leader and about other products are those of the code, and of the
page of measurements.
"""

from __future__ import annotations

import re
from datetime import timedelta

from riverui.engine.lead.elector import ElectionTimes
from tests.docs.programs import DOCS


def seconds(span: timedelta) -> int:
    return round(span.total_seconds())


def test_the_leaders_times_are_those_of_the_code() -> None:
    stated = " ".join((DOCS / "understand/leader.md").read_text(encoding="utf-8").split())
    times = ElectionTimes()
    bids = f"every {seconds(times.interval)} to {seconds(times.interval + times.jitter)} s"
    longest = seconds(times.ttl + times.interval + times.jitter)
    for words in (
        f"until when, {seconds(times.ttl)} seconds from the last renewal",
        f"| every {seconds(times.interval)} s | the leader renews its term",
        f"| {bids} | each of the others",
        f"| {seconds(times.ttl - times.margin)} s after the last renewal",
        f"within {seconds(times.ttl - times.interval)} to {longest} seconds",
        f"after {seconds(times.silence)} seconds it is given up",
    ):
        assert words in stated


def test_the_comparison_has_no_figures_of_its_own() -> None:
    """What it links to the measurements stands there."""
    compared = (DOCS / "compare/compare.md").read_text(encoding="utf-8")
    measured = (DOCS / "compare/performance.md").read_text(encoding="utf-8")
    stated = re.findall(r"\[([^\]]*?\d[^\]]*)\]\(performance\.md", compared)
    numbers = [number for words in stated for number in re.findall(r"\d[\d.,]*\d|\d", words)]
    numbers += re.findall(r"\| ([\d,]{6,}) \|$", compared, re.MULTILINE)
    assert len(numbers) >= 8
    rounded = {"0.9"}  # 0.88 ms
    assert [number for number in numbers if number not in measured and number not in rounded] == []
