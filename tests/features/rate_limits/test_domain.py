"""Buckets of tokens: never more than the limit and a full bucket, and no token lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from riverui.domain.partitions import Partition
from riverui.errors import ConfigError
from riverui.features.rate_limits.buckets import SPARE, Purse, Rate, fetch_again_in, pace_now
from riverui.features.rate_limits.domain import MAX_BUCKETS, RateLimit

RATES = st.builds(
    Rate,
    st.floats(min_value=0.01, max_value=10_000),
    st.floats(min_value=1, max_value=10_000),
)
WAITS = st.lists(st.floats(min_value=0, max_value=10), min_size=1, max_size=60)


@given(RATES, WAITS)
def test_in_any_window_no_more_begin_than_the_limit_and_a_full_bucket(
    rate: Rate, waits: list[float]
) -> None:
    now, full_at = 0.0, 0.0
    begun: list[tuple[float, float]] = []
    for wait in waits:
        now += wait / rate.per_second
        purse = Purse(rate, rate.tokens(full_at - now))
        while len(begun) < 10_000 and purse.take(1):
            pass
        full_at = now + rate.spent(full_at - now, purse.spent)
        begun.append((now, purse.spent))
    for first, (since, _) in enumerate(begun):
        total = 0.0
        for at, spent in begun[first:]:
            total += spent
            most = rate.per_second * (at - since) + rate.burst + SPARE
            assert total <= most * (1 + 1e-9) + 1e-4


@given(RATES)
def test_who_comes_when_the_next_token_is_due_loses_none(rate: Rate) -> None:
    now, full_at, begun = 0.0, 0.0, 0.0
    for _ in range(60):
        purse = Purse(rate, rate.tokens(full_at - now))
        while purse.take(1):
            pass
        full_at = now + rate.spent(full_at - now, purse.spent)
        begun += purse.spent
        assert begun + 1 + 1e-3 >= rate.per_second * now + rate.burst
        assert purse.waits_for is not None
        # A tenth of a token late, as everybody is.
        now += fetch_again_in(rate, purse.waits_for, 0.1) + 0.1 / rate.per_second


@given(RATES, st.lists(st.floats(min_value=0, max_value=100_000), min_size=1, max_size=30))
def test_a_job_heavier_than_the_bucket_begins_and_pays_later(
    rate: Rate, weights: list[float]
) -> None:
    now, full_at, spent = 0.0, 0.0, 0.0
    for weight in weights:
        purse = Purse(rate, rate.tokens(full_at - now))
        if not purse.take(weight):
            assert purse.waits_for is not None
            now += purse.waits_for
            purse = Purse(rate, rate.tokens(full_at - now))
            assert purse.take(weight)
        full_at = now + rate.spent(full_at - now, weight)
        spent += weight
        # What was taken has come in, but for a full bucket and the last job.
        assert spent - weight <= rate.per_second * now + rate.burst + SPARE + 1e-3 * len(weights)


def test_a_job_that_waits_holds_up_lighter_ones_behind_it() -> None:
    purse = Purse(Rate(2.0, 10.0), 4.0)
    assert purse.take(3)
    assert not purse.take(2)
    assert purse.waits_for == pytest.approx(0.5)
    assert not purse.take(1)
    assert purse.spent == 3
    purse.put_back(3)
    assert purse.spent == 0


def test_several_tokens_are_waited_for_together() -> None:
    assert fetch_again_in(Rate(10_000, 10_000), 0.0001, 0.1) == pytest.approx(0.1001)
    assert fetch_again_in(Rate(1_000, 10), 0.001, 0.1) == pytest.approx(0.0056)
    assert fetch_again_in(Rate(10, 1), 0.1, 0.1) == pytest.approx(0.11)
    assert fetch_again_in(Rate(1 / 60, 1), 55.0, 0.1) == pytest.approx(55.1)


def test_a_pace_fades() -> None:
    assert pace_now(100, 0) == 100
    assert pace_now(100, 10) == pytest.approx(36.8, abs=0.1)
    assert pace_now(100, 1e9) == 0


@pytest.mark.parametrize(
    "given",
    [
        {"limit": 0},
        {"limit": True},
        {"limit": float("nan")},
        {"limit": 10, "per": 1},
        {"limit": 10, "per": timedelta(0)},
        {"limit": 10**7},
        {"limit": 10, "burst": 0.5},
        {"limit": 10, "burst": float("inf")},
        {"limit": 10, "partition": "customer"},
        {"limit": 10, "weight": -1},
        {"limit": 10, "weight": {"mail": "2"}},
        {"limit": 10, "weight": ""},
        {"limit": 10, "weight": "tokens", "weight_args": ("tokens",)},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        RateLimit(**given)


def test_a_bucket_holds_the_limit_by_default() -> None:
    assert RateLimit(limit=100).rate == Rate(100, 100)
    assert RateLimit(limit=30, per=timedelta(minutes=1), burst=5).rate == Rate(0.5, 5)
    assert RateLimit(limit=0.5).rate == Rate(0.5, 1)


@pytest.mark.parametrize(
    ("weight", "key", "expected"),
    [
        (1, "", 1),
        (2.5, "", 2.5),
        (0, "", 0),
        ({"mail": 3}, "", 3),
        ({"other": 3}, "", 1),
        ("tokens", '{"tokens": 12}', 12),
        ("tokens", '{"tokens": null}', 1),
        ("tokens", '{"tokens": "12"}', 1),
        ("tokens", '{"tokens": true}', 1),
        ("tokens", '{"tokens": -4}', 1),
        ("tokens", '{"tokens": 1e999}', MAX_BUCKETS * 100),
        ("tokens", '{"tokens": ' + "9" * 5_000 + "}", 1),
        ("tokens", '{"tokens": "a lo… 0123', 1),
        ("tokens", "[" * 100_000, 1),
    ],
)
def test_what_a_job_weighs(weight: Any, key: str, expected: float) -> None:
    limit = RateLimit(limit=100, weight=weight)
    keys = dict.fromkeys(limit.weighs_args, key)
    assert limit.weight_of("mail", keys) == expected


def test_a_function_weighs_by_the_args_that_it_names() -> None:
    limit = RateLimit(
        limit=100,
        weight=lambda kind, args: len(kind) + float(str(args["in"])) + float(str(args["out"])),
        weight_args=("out", "in"),
    )
    keys = {Partition(by_args=("in",)): '{"in": 3}', Partition(by_args=("out",)): '{"out": 4}'}
    assert set(limit.weighs_args) == set(keys)
    assert limit.weight_of("ab", keys) == 9


def test_the_queue_may_say_other_numbers() -> None:
    limit = RateLimit(limit=100, burst=5, weight=2)
    assert limit.overridden("{}") is limit
    assert limit.overridden('{"riverui:rate_limit": {"limit": 7}}') == RateLimit(limit=7, weight=2)
    metadata = '{"riverui:rate_limit": {"limit": 30, "per_seconds": 60, "burst": 2}, "other": 1}'
    assert limit.overridden(metadata) == RateLimit(
        limit=30, per=timedelta(minutes=1), burst=2, weight=2
    )


@pytest.mark.parametrize(
    "override", ["7", "[]", "null", '{"limit": -1}', '{"limit": "x"}', '{"per_seconds": 1e99}', "{"]
)
def test_numbers_of_the_queue_that_make_no_sense_do_not_count(override: str) -> None:
    limit = RateLimit(limit=100)
    assert limit.overridden('{"riverui:rate_limit": ' + override + "}") is limit
