"""Why a job is not running, from facts alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.explain.facts import Hold, JobFacts, QueueWork
from riverui.domain.explain.queue import pace
from riverui.domain.findings import failed
from tests.cases import cases
from tests.explanations import any_facts, holds_together
from tests.health_facts import MINUTE, NOW
from tests.scale import scaled

HOLD: Hold[str] = Hold(
    name="hold",
    label="Not held",
    after="lock",
    check=lambda facts, found: failed(f"{found}.") if facts.in_line else None,
    pending="it is let go",
    reorders=True,
)


@given(any_facts(HOLD, st.sampled_from(["a", "b"])))
@settings(max_examples=scaled(200, 600), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    holds_together(facts)


@given(st.integers(20, 200), st.integers(10, 600))
def test_an_even_pace(ends: int, seconds: int) -> None:
    step = timedelta(seconds=seconds) / ends
    times = [NOW - (n + 0.5) * step for n in range(ends)]
    found = pace(work(times, NOW - timedelta(seconds=seconds)), NOW)
    assert found == pytest.approx(ends / seconds)


def test_no_pace_is_known_from_few_or_uneven_ends() -> None:
    uneven = {
        "none": [],
        "few": [NOW - n * MINUTE / 2 for n in range(19)],
        "a burst just now": [NOW - MINUTE / 60 for _ in range(60)],
        "none any more": [NOW - 9 * MINUTE for _ in range(60)],
    }
    with cases() as case:
        for name, times in uneven.items():
            with case(name):
                assert pace(work(times, NOW - 10 * MINUTE), NOW) is None


def work(ends: list[datetime], since: datetime) -> QueueWork:
    return QueueWork(
        running=0,
        cap=1_000,
        clients={},
        started={},
        kind_at=None,
        unknown_at=None,
        kind_running=(),
        ends=ends,
        ends_since=since,
    )
