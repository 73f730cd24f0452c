"""Why a job is not running, from facts alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.explain.explanation import CHECKS, explain
from riverui.domain.explain.facts import JobFacts, QueueWork
from riverui.domain.explain.queue import pace
from riverui.domain.findings import Result, Unread
from tests.cases import cases
from tests.domain.anything import anything
from tests.health_facts import MINUTE, NOW
from tests.scale import scaled

FACTS = anything(JobFacts, now=st.just(NOW))


@given(FACTS)
@settings(max_examples=scaled(200, 600), deadline=None)
def test_whatever_is_found_holds_together(facts: JobFacts) -> None:
    found = explain(facts)
    failed = [check.evidence for check in found.checks if check.result is Result.FAILED]
    assert (found.headline in failed[:1]) is bool(failed)
    assert found.headline.endswith(".")
    assert (found.result is Result.FAILED) is bool(failed)
    names = [check.name for check in found.checks]
    assert names[0] == "state"
    assert len(set(names)) == len(names) <= len(CHECKS)
    for check in found.checks:
        assert check.label
        assert check.evidence.endswith("."), check
    # Nothing passes that was not measured.
    results = {check.name: check.result for check in found.checks}
    needs = {
        "paused": facts.queue,
        "leader": facts.leader,
        "workflow": facts.workflow,
        "sequence": facts.sequence,
        "lock": facts.lock,
        "limit": facts.limit,
        "rate": facts.rate,
        "share": facts.share,
        "line": facts.line,
        "priority": facts.line,
        "slots": facts.work,
    }
    for name, fact in needs.items():
        if isinstance(fact, Unread):
            assert results.get(name, Result.UNKNOWN) is Result.UNKNOWN
    if isinstance(facts.work, Unread):
        assert results.get("kind") is not Result.PASSED
        if isinstance(facts.queue, Unread):
            assert results.get("served", Result.UNKNOWN) is Result.UNKNOWN


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
