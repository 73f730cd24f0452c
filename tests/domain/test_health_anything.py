"""The health report, whatever the facts: what is told holds together, and nothing unread passes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings, strategies as st

from riverui.domain.checks import Result
from riverui.domain.health import Cause, Level
from riverui.domain.health_facts import (
    DatabaseState,
    HealthFacts,
    LostJob,
    LostJobs,
    OpenTransaction,
    OverdueJobs,
    QueueWaiting,
    ReportingClient,
    RunningJob,
    RunningJobs,
    UsualHour,
    WaitingKind,
)
from riverui.domain.health_verdict import judge
from riverui.domain.job_facts import Unread
from riverui.domain.queues import LeaderRow
from riverui.domain.time import FIRST, LAST
from riverui.features.marks.domain import Mark
from tests.health_facts import NOW, SECOND, figures, queue, tally
from tests.scale import scaled

UNREAD = Unread(why="The query took too long.")

SPANS = st.integers(-(10**5), 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds))
TIMES = st.one_of(st.sampled_from([FIRST, LAST, NOW]), SPANS)
MAYBE_TIMES = st.none() | TIMES
COUNTS = st.integers(0, 20_000)
NAMES = st.sampled_from(["mail", "hooks", "mail_send", "*", ""])
UNREADS_ANY = st.just(UNREAD)
TALLIES = st.builds(
    tally,
    st.integers(0, 500),
    st.integers(0, 500),
    wait=st.integers(0, 10**5).map(lambda s: s * SECOND),
    run=st.integers(0, 10**5).map(lambda s: s * SECOND),
)
FIGURES = st.builds(
    lambda tallies, pairs, read_at, complete: figures(
        lambda ago: tallies[ago % len(tallies)], pairs, read_at=read_at, complete=complete
    ),
    st.lists(st.none() | TALLIES, min_size=1, max_size=6),
    st.dictionaries(st.tuples(NAMES, NAMES), TALLIES, max_size=3),
    MAYBE_TIMES,
    st.booleans(),
)
RUNNING = st.builds(
    RunningJob,
    id=st.integers(1, 99),
    queue=NAMES,
    kind=NAMES,
    client=NAMES,
    attempted_at=MAYBE_TIMES,
)
WAITING = st.builds(
    QueueWaiting,
    jobs=COUNTS,
    cap=st.just(10_000),
    kinds=st.dictionaries(
        NAMES,
        st.builds(
            lambda n, **kind: WaitingKind(jobs=n, retries=n // 2, **kind),
            st.integers(1, 300),
            since=MAYBE_TIMES,
            taken_at=MAYBE_TIMES,
            overtaken=st.integers(0, 9),
        ),
        max_size=3,
    ),
    takers=st.dictionaries(NAMES, TIMES, max_size=3),
)
OPEN = st.none() | st.builds(
    OpenTransaction, pid=st.none() | COUNTS, client=NAMES, state=NAMES, since=TIMES
)
FACTS = st.builds(
    HealthFacts,
    now=st.just(NOW),
    queues=UNREADS_ANY
    | st.lists(
        st.builds(
            lambda name, available, at, paused: replace(
                queue(name, available=available, paused=paused), oldest_waiting_at=at
            ),
            NAMES,
            COUNTS,
            MAYBE_TIMES,
            st.none() | st.integers(0, 10**6).map(lambda s: s * SECOND),
        ),
        max_size=4,
    ),
    leader=st.none()
    | UNREADS_ANY
    | st.builds(LeaderRow, leader_id=NAMES, elected_at=TIMES, expires_at=TIMES),
    running=UNREADS_ANY
    | st.builds(RunningJobs, jobs=st.lists(RUNNING, max_size=6), cap=st.sampled_from([3, 1_000])),
    overdue=UNREADS_ANY
    | st.builds(OverdueJobs, jobs=COUNTS, cap=st.just(1_000), oldest_at=MAYBE_TIMES),
    lost=UNREADS_ANY
    | st.builds(
        LostJobs,
        jobs=st.lists(
            st.builds(
                LostJob,
                id=st.integers(1, 99),
                queue=NAMES,
                kind=NAMES,
                rescues=st.integers(0, 9),
                attempted_at=MAYBE_TIMES,
            ),
            max_size=2,
        ),
        whole=st.booleans(),
    ),
    database=UNREADS_ANY
    | st.builds(
        DatabaseState,
        oldest=OPEN,
        hidden=st.integers(0, 2),
        blocked=st.integers(0, 2),
        blocked_since=MAYBE_TIMES,
        blocker=OPEN,
        notifications=st.floats(0, 1),
        standby=st.booleans(),
        dead_rows=COUNTS,
    ),
    hour=UNREADS_ANY | FIGURES,
    waiting=st.dictionaries(NAMES, WAITING | UNREADS_ANY, max_size=3),
    queue_hours=st.dictionaries(NAMES, FIGURES, max_size=2),
    kind_weeks=st.dictionaries(
        NAMES, st.builds(UsualHour, tally=TALLIES, days=st.integers(1, 7)), max_size=2
    ),
    kind_hours=st.dictionaries(NAMES, FIGURES, max_size=2),
    reporting=st.dictionaries(
        NAMES,
        st.builds(
            ReportingClient,
            seen_at=TIMES,
            lost=st.booleans(),
            slots=st.dictionaries(NAMES, st.tuples(COUNTS, COUNTS), max_size=2),
        ),
        max_size=2,
    ),
    marks=UNREADS_ANY | st.lists(st.builds(Mark, at=TIMES, label=NAMES), max_size=2),
)


@given(FACTS)
@settings(max_examples=scaled(100, 300), deadline=None)
def test_whatever_is_found_is_told_in_order(given_facts: HealthFacts) -> None:
    report = judge(given_facts)
    for section in report.sections:
        names = [check.name for check in section.checks]
        assert len(set(names)) == len(names)
        assert section.label
        assert section.headline.endswith("."), section
        if section.level in (Level.WARN, Level.CRITICAL):
            assert section.cause is not Cause.NONE
            assert section.action is not None
            assert Result.FAILED in [check.result for check in section.checks]
        for check in section.checks:
            assert check.evidence.endswith("."), check
        if section.culprit is not None:
            assert 0.5 <= section.culprit.share <= 1
    seen = {check.name: check.result for check in report.flow.checks}
    if isinstance(given_facts.database, Unread):
        assert {seen[name] for name in ("locks", "transactions", "notifications")} == {
            Result.UNKNOWN
        }
    if isinstance(given_facts.hour, Unread):
        assert report.success.level is not Level.OK
        assert report.flow.level is not Level.OK
    if isinstance(given_facts.running, Unread):
        assert seen["clients"] is Result.UNKNOWN
