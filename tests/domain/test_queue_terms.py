"""The rules of a queue that clients tell: what is read is what was told, or nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.partitions import Partition
from riverui.domain.queue_terms import BatchTerms, QueueTerms
from riverui.features.fair_shares.domain import FairShare
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


@pytest.mark.parametrize(
    "terms",
    [
        QueueTerms(),
        QueueTerms(rate_limit=RateLimit(limit=2.5, per=timedelta(minutes=3), weight={"a": 2.0})),
        QueueTerms(rate_limit=RateLimit(limit=1, burst=4, partition=BY_TENANT, weight="tokens")),
        QueueTerms(fair_share=FairShare(partition=BY_TENANT, weights={"a": 2.0}), ephemeral=True),
        QueueTerms(batches={"mail": BatchTerms(max_count=3, max_delay=timedelta(seconds=2))}),
    ],
)
def test_what_is_told_is_read_again(terms: QueueTerms) -> None:
    assert QueueTerms.read(json.loads(json.dumps(terms.as_object()))) == terms


def test_what_cannot_be_told_is_told_as_unknown() -> None:
    share = FairShare(partition=BY_TENANT, weights={str(n): 2.0 for n in range(1_000)})
    limit = RateLimit(limit=1, weight=lambda kind, args: 1.0)
    found = QueueTerms.read(QueueTerms(rate_limit=limit, fair_share=share).as_object())
    assert (found.weighs, found.shares) == (False, False)
    assert found.rate_limit == RateLimit(limit=1)
    assert found.fair_share == FairShare(partition=BY_TENANT)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["rate_limit", "fair_share", "ephemeral", "batches"]), JSON))
def test_what_somebody_else_wrote_is_no_trouble(told: dict[str, Any]) -> None:
    QueueTerms.read(told)


@pytest.mark.parametrize("told", [None, 1, "x", [], {}])
def test_what_is_no_object_tells_nothing(told: object) -> None:
    assert not QueueTerms.read(told).any
