"""The rules that clients report of queues, and forecasts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.partitions import Partition
from riverui.domain.queues import BatchTerms, QueueMinute, QueueTerms, time_to_empty
from riverui.features.fair_shares import domain as fair_shares
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits import domain as rate_limits
from riverui.features.rate_limits.domain import RateLimit

BY_TENANT = Partition(by_args=("tenant",), by_kind=True)

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["limit", "partition", "weights", "by_args", "burst", "mail"]), inner
        )
    ),
    max_leaves=10,
)


RATES = [
    RateLimit(limit=2.5, per=timedelta(minutes=3), weight={"a": 2.0}),
    RateLimit(limit=1, burst=4, partition=BY_TENANT, weight="tokens"),
]
SHARE = FairShare(partition=BY_TENANT, weights={"a": 2.0})


@pytest.mark.parametrize(
    "terms",
    [
        QueueTerms(),
        *(QueueTerms(rate_limit=limit.as_terms()) for limit in RATES),
        QueueTerms(fair_share=SHARE.as_terms(), ephemeral=True),
        QueueTerms(batches={"mail": BatchTerms(max_count=3, max_delay=timedelta(seconds=2))}),
    ],
)
def test_what_is_reported_is_read_again(terms: QueueTerms) -> None:
    assert QueueTerms.read(json.loads(json.dumps(terms.as_object()))) == terms


def test_limits_and_shares_are_read_again() -> None:
    for limit in RATES:
        assert rate_limits.read_terms(json.loads(json.dumps(limit.as_terms()))) == (limit, True)
    assert fair_shares.read_terms(json.loads(json.dumps(SHARE.as_terms()))) == (SHARE, True)


def test_weights_that_are_not_reported_are_unknown() -> None:
    share = FairShare(partition=BY_TENANT, weights={str(n): 2.0 for n in range(1_000)})
    limit = RateLimit(limit=1, weight=lambda kind, args: 1.0)
    assert rate_limits.read_terms(limit.as_terms()) == (RateLimit(limit=1), False)
    assert fair_shares.read_terms(share.as_terms()) == (FairShare(partition=BY_TENANT), False)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["rate_limit", "fair_share", "ephemeral", "batches"]), JSON))
def test_what_somebody_else_wrote_is_no_trouble(told: dict[str, Any]) -> None:
    terms = QueueTerms.read(told)
    rate_limits.read_terms(terms.rate_limit or {})
    fair_shares.read_terms(terms.fair_share or {})


@pytest.mark.parametrize("told", [None, 1, "x", [], {}])
def test_what_is_no_object_tells_nothing(told: object) -> None:
    assert not QueueTerms.read(told).any


HOUR = [QueueMinute(ended=60, inserted=40, waiting=1_000 - 20 * n) for n in range(30)]
"""Minutes in which twenty more jobs end than come."""


def test_a_queue_is_empty_when_what_waits_is_done_at_the_pace_of_late() -> None:
    assert time_to_empty(HOUR, 200) == timedelta(minutes=10)
    slow = [QueueMinute(ended=3, inserted=2)] * 45
    assert time_to_empty([*slow, *HOUR], 30) == timedelta(minutes=1.5), "what was before is past"


def test_depths_need_not_be_known() -> None:
    assert time_to_empty([QueueMinute(ended=2, inserted=0)] * 15, 4) == timedelta(minutes=2)


@pytest.mark.parametrize(
    ("minutes", "waiting"),
    [
        (HOUR, 0),
        ([], 5),
        (HOUR[:14], 5),
        ([*HOUR[:-3], None, *HOUR[-2:]], 5),
        ([QueueMinute(ended=40, inserted=40)] * 15, 5),
        ([QueueMinute(ended=40, inserted=60)] * 15, 5),
        ([QueueMinute(ended=1, inserted=0)] * 15, 5),
        ([QueueMinute(ended=10, inserted=0, sampled=10)] * 15, 5),
        ([QueueMinute(ended=10, inserted=0)] * 7 + [QueueMinute(ended=40, inserted=0)] * 8, 5),
        ([QueueMinute(ended=90, inserted=0)] * 7 + [QueueMinute(ended=10, inserted=30)] * 8, 5),
        ([QueueMinute(ended=9, inserted=5, waiting=100 + n) for n in range(15)], 5),
        ([QueueMinute(ended=2, inserted=0)] * 15, 1_000_000),
    ],
    ids=[
        "none waits",
        "nothing known",
        "too little known",
        "a minute not known",
        "as many come as go",
        "more come",
        "few end",
        "few were read",
        "four times as fast of late",
        "it turned",
        "more waits all the same",
        "in a year",
    ],
)
def test_nothing_is_told_where_it_would_be_a_guess(
    minutes: list[QueueMinute | None], waiting: int
) -> None:
    assert time_to_empty(minutes, waiting) is None
