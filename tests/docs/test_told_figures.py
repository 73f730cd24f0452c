"""Figures on the pages about the leader and about other products are those of the code, and of the
page of measurements.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from riverui.engine.lead.elector import ElectionTimes
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner

DOCS = Path(__file__).parents[2] / "docs"


def seconds(span: timedelta) -> int:
    return round(span.total_seconds())


def test_the_leaders_times_are_those_of_the_code() -> None:
    told = " ".join((DOCS / "understand/leader.md").read_text(encoding="utf-8").split())
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
        assert words in told


@pytest.mark.parametrize(
    ("what", "interval"),
    [
        ("makes `scheduled`", JobScheduler.interval),
        ("rescues jobs", JobRescuer.interval),
        ("removes jobs", JobCleaner.interval),
        ("removes queues", QueueCleaner.interval),
    ],
)
def test_the_leaders_work_is_done_as_often_as_told(what: str, interval: timedelta) -> None:
    text = (DOCS / "understand/leader.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {re.escape(what)}.*$", text, re.MULTILINE)
    often = "hour" if interval == timedelta(hours=1) else f"{seconds(interval)} s"
    assert f"| every {often} |" in row


def test_the_comparison_has_no_figures_of_its_own() -> None:
    """What it links to the measurements stands there."""
    compared = (DOCS / "compare/compare.md").read_text(encoding="utf-8")
    measured = (DOCS / "compare/performance.md").read_text(encoding="utf-8")
    told = re.findall(r"\[([^\]]*?\d[^\]]*)\]\(performance\.md", compared)
    numbers = [number for words in told for number in re.findall(r"\d[\d.,]*\d|\d", words)]
    numbers += re.findall(r"\| ([\d,]{6,}) \|$", compared, re.MULTILINE)
    assert len(numbers) >= 8
    rounded = {"0.9"}  # 0.88, as told in milliseconds
    assert [number for number in numbers if number not in measured and number not in rounded] == []
