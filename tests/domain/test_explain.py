"""Why a job is not running, from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.checks import Result
from riverui.domain.explain import CHECKS, explain, pace
from riverui.domain.job_facts import (
    JobFacts,
    JobLine,
    JobLock,
    KindReports,
    Overtaking,
    QueueWork,
    Unread,
)
from riverui.domain.job_holds import JobHolder, LimitHold, RateHold, ShareHold, ShareLine
from riverui.domain.jobs import AttemptError, JobShowRow, JobState, JsonText
from riverui.domain.partitions import Partition
from riverui.domain.queues import BatchTerms, LeaderRow, QueueRow
from riverui.domain.time import FIRST, LAST
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.sequences.domain import SequencePlace
from riverui.features.workflows.domain.pages import TASK_STATES, TaskNeighbour, TaskPlace
from tests.scale import scaled

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EMPTY = JsonText(text="{}", size=2)
UNREAD = Unread(why="permission denied for table river_queue.")

TIMES = st.one_of(
    st.sampled_from([FIRST, LAST, NOW]),
    st.integers(-(10**6), 10**6).map(lambda seconds: NOW + timedelta(seconds=seconds)),
)
MAYBE_TIMES = st.none() | TIMES
COUNTS = st.integers(0, 1_000)
CLIENTS = st.sampled_from(["a", "b", "c"])
UNREADS = st.just(UNREAD)

JOBS = st.builds(
    JobShowRow,
    id=st.integers(1, 2**63 - 1),
    state=st.sampled_from(JobState),
    attempt=st.integers(0, 32_767),
    max_attempts=st.integers(1, 32_767),
    attempted_at=MAYBE_TIMES,
    created_at=TIMES,
    finalized_at=MAYBE_TIMES,
    scheduled_at=TIMES,
    priority=st.integers(1, 4),
    args=st.just(EMPTY),
    attempted_by=st.lists(CLIENTS, max_size=2).map(tuple),
    errors=st.lists(
        st.builds(
            AttemptError,
            at=MAYBE_TIMES,
            attempt=st.integers(0, 5),
            error=st.sampled_from(["boom", "job kind is not registered in the client's Workers"]),
            trace=st.just(""),
        ),
        max_size=1,
    ).map(tuple),
    kind=st.just("mail"),
    metadata=st.just(EMPTY),
    output=st.none(),
    logs=st.just(()),
    queue=st.just("default"),
    tags=st.just(()),
    unique_key=st.none(),
    unique_states=st.just(()),
    cancel_attempted_at=MAYBE_TIMES,
    snoozes=st.just(0),
    rescues=st.just(0),
)
QUEUES = st.builds(
    QueueRow,
    name=st.just("default"),
    created_at=TIMES,
    metadata=st.just(EMPTY),
    paused_at=MAYBE_TIMES,
    updated_at=MAYBE_TIMES,
)
LEADERS = st.builds(LeaderRow, leader_id=CLIENTS, elected_at=TIMES, expires_at=TIMES)
LINES = COUNTS.flatmap(
    lambda before: st.builds(
        JobLine,
        before=st.just(before),
        more_urgent=st.integers(0, before),
        cap=st.just(1_000),
    )
)
WORKS = st.builds(
    QueueWork,
    running=COUNTS,
    cap=st.just(1_000),
    clients=st.dictionaries(CLIENTS, TIMES),
    started=st.dictionaries(st.integers(1, 4), TIMES),
    kind_at=MAYBE_TIMES,
    unknown_at=MAYBE_TIMES,
    kind_running=st.lists(CLIENTS, max_size=2),
    ends=st.lists(TIMES, max_size=50),
    ends_since=TIMES,
)
OVERTAKINGS = st.builds(
    Overtaking,
    jobs=COUNTS,
    cap=st.just(500),
    kind_at=MAYBE_TIMES,
    kind_by=st.none() | CLIENTS,
)
REPORTS = st.builds(
    KindReports,
    working=st.lists(CLIENTS, max_size=2),
    others=st.frozensets(CLIENTS),
    gone=st.frozensets(CLIENTS),
    complete=st.booleans(),
)
LOCKS = st.builds(
    JobLock,
    transaction=st.integers(0, 2**32 - 1),
    pid=st.none() | st.integers(1, 99_999),
    client=st.none() | st.just("psql"),
    state=st.none() | st.just("active"),
    since=MAYBE_TIMES,
)
NEIGHBOURS = st.builds(
    TaskNeighbour,
    name=st.sampled_from(["a", "b" * 200]),
    job_id=st.integers(1, 100),
    state=st.sampled_from(TASK_STATES),
    kind=st.just("mail"),
)
PLACES = st.builds(
    TaskPlace,
    workflow_id=st.just("w"),
    workflow_name=st.sampled_from(["", "Order 42"]),
    name=st.just("ship"),
    job_id=st.integers(1, 100),
    waits_for=COUNTS,
    state=st.sampled_from(["waiting", "wait", "staged", "cancelled"]),
    ignored=st.just(""),
    staged_at=MAYBE_TIMES,
    deps=st.lists(NEIGHBOURS, max_size=5),
    deps_count=COUNTS,
    dependents=st.just(()),
    dependents_count=COUNTS,
)
SEQUENCES = st.builds(
    SequencePlace,
    key=st.sampled_from(["order", "k" * 200]),
    head_id=st.none() | st.integers(1, 100),
    head_state=st.none() | st.sampled_from([state.value for state in JobState]),
    halted_at=MAYBE_TIMES,
    waiting=st.booleans(),
    ahead=COUNTS,
    behind=COUNTS,
    ours=st.booleans(),
)
PARTITIONS = st.sampled_from([Partition(), Partition(by_args=("a",)), Partition(by_kind=True)])
KEYS = st.sampled_from(["", '{"a": 1}', "k" * 200])
LIMITS = st.builds(
    LimitHold,
    limits=st.builds(
        ConcurrencyConfig,
        global_limit=st.integers(0, 3),
        local_limit=st.integers(0, 3),
        partition=PARTITIONS,
    ),
    override=st.booleans(),
    key=KEYS,
    taken=st.integers(0, 4),
    clients=st.dictionaries(CLIENTS, st.integers(0, 3)),
    here=st.dictionaries(CLIENTS, st.integers(0, 3)),
    jobs=st.lists(st.builds(JobHolder, st.integers(1, 9), CLIENTS | st.just("")), max_size=3),
    missing=st.sampled_from(["", "migration 011"]),
)
RATES = st.builds(
    RateHold,
    limit=st.builds(
        RateLimit,
        limit=st.floats(1e-3, 1e6),
        per=st.sampled_from([timedelta(seconds=1), timedelta(days=366)]),
        burst=st.none() | st.floats(1, 1e9),
        partition=PARTITIONS,
    ),
    override=st.booleans(),
    key=KEYS,
    tokens=st.floats(-1e10, 1e9),
    pace=st.floats(0, 1e6),
    weight=st.none() | st.floats(0, 1e10),
)
SHARES = st.builds(
    ShareHold,
    share=st.builds(
        FairShare,
        partition=st.just(Partition(by_args=("a",))),
        weights=st.dictionaries(st.sampled_from(["1", "2"]), st.floats(0.1, 10), max_size=2),
    ),
    known=st.booleans(),
    line=st.builds(
        ShareLine,
        key=st.none() | KEYS,
        before=COUNTS,
        reached=st.booleans(),
        keys=st.integers(0, 3),
        others=st.dictionaries(st.sampled_from(['{"a": 2}', "b"]), st.integers(1, 1_000)),
        looked_at=COUNTS,
        window=st.just(1_000),
    ),
    indexed=st.booleans(),
)
FACTS = st.builds(
    JobFacts,
    job=JOBS,
    now=st.just(NOW),
    queue=st.none() | QUEUES | UNREADS,
    leader=st.none() | LEADERS | UNREADS,
    line=LINES | UNREADS,
    work=WORKS | UNREADS,
    lock=LOCKS | UNREADS,
    overtaking=st.none() | OVERTAKINGS | UNREADS,
    kind_reports=st.none() | REPORTS,
    workflow=st.none() | PLACES | UNREADS,
    sequence=st.none() | SEQUENCES | UNREADS,
    limit=st.none() | LIMITS | UNREADS,
    rate=st.none() | RATES | UNREADS,
    share=st.none() | SHARES | UNREADS,
    batch=st.none()
    | st.builds(
        BatchTerms,
        max_count=st.integers(1, 100),
        max_delay=st.timedeltas(timedelta(0), timedelta(days=9)),
    ),
)


@given(FACTS)
@settings(max_examples=scaled(150, 500))
def test_the_headline_is_the_first_reason_found(facts: JobFacts) -> None:
    found = explain(facts)
    failed = [check.evidence for check in found.checks if check.result is Result.FAILED]
    assert found.blocked is bool(failed)
    assert (found.headline in failed[:1]) is bool(failed)
    assert found.headline.endswith(".")
    names = [check.name for check in found.checks]
    assert names[0] == "state"
    assert len(set(names)) == len(names) <= len(CHECKS)
    for check in found.checks:
        assert check.label
        assert check.evidence.endswith("."), check


@given(FACTS)
@settings(max_examples=scaled(150, 500))
def test_nothing_passes_that_was_not_measured(facts: JobFacts) -> None:
    results = {check.name: check.result for check in explain(facts).checks}
    if isinstance(facts.queue, Unread):
        assert results.get("paused") in (None, Result.UNKNOWN)
    if isinstance(facts.workflow, Unread):
        assert results.get("workflow") in (None, Result.UNKNOWN)
    for name, fact in (("limit", facts.limit), ("rate", facts.rate), ("share", facts.share)):
        if isinstance(fact, Unread):
            assert results.get(name) in (None, Result.UNKNOWN)
    if isinstance(facts.sequence, Unread):
        assert results.get("sequence") in (None, Result.UNKNOWN)
    if isinstance(facts.leader, Unread):
        assert results.get("leader") in (None, Result.UNKNOWN)
    if isinstance(facts.lock, Unread):
        assert results.get("lock") in (None, Result.UNKNOWN)
    if isinstance(facts.line, Unread):
        assert {results.get("line"), results.get("priority")} <= {None, Result.UNKNOWN}
    if isinstance(facts.work, Unread):
        assert results.get("slots") in (None, Result.UNKNOWN)
        assert results.get("kind") in (None, Result.UNKNOWN, Result.FAILED)
        if isinstance(facts.queue, Unread):
            assert results.get("served") in (None, Result.UNKNOWN)


@given(st.integers(20, 200), st.integers(10, 600))
def test_an_even_pace_is_told(ends: int, seconds: int) -> None:
    step = timedelta(seconds=seconds) / ends
    times = [NOW - (n + 0.5) * step for n in range(ends)]
    found = pace(work(times, NOW - timedelta(seconds=seconds)), NOW)
    assert found == pytest.approx(ends / seconds)


@pytest.mark.parametrize(
    "times",
    [
        [],
        [NOW - n * MINUTE / 2 for n in range(19)],
        [NOW - MINUTE / 60 for _ in range(60)],
        [NOW - 9 * MINUTE for _ in range(60)],
    ],
    ids=["none", "few", "a burst just now", "none any more"],
)
def test_no_pace_is_told_from_few_or_uneven_ends(times: list[datetime]) -> None:
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
