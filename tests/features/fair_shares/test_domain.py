"""Fair shares: each key gets jobs by its weight, however many are asked for at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.partitions import Partition
from riverui.errors import ConfigError
from riverui.features.fair_shares.domain import FairShare, Ring

TENANT = Partition(by_args=("tenant",))
WEIGHTS = st.dictionaries(
    st.text(min_size=1, max_size=3),
    st.floats(min_value=0.05, max_value=20),
    min_size=1,
    max_size=12,
)


def anything(job: object) -> bool:
    return True


@given(WEIGHTS, st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=60))
def test_keys_that_always_have_jobs_get_what_their_weights_say(
    weights: Mapping[str, float], asked: list[int]
) -> None:
    ring = Ring(FairShare(partition=TENANT, weights=weights, default_weight=0.05))
    waiting = {key: [key] * 100 for key in weights}
    counts: Counter[str] = Counter()
    for wanted in asked:
        dealt = ring.deal(waiting, wanted, anything)
        assert len(dealt) == wanted
        counts.update(dealt)
    laps = [counts[key] / (weight / 0.05) for key, weight in weights.items()]
    # In a round of its own each may be ahead of another by one turn, and by a part of a job.
    assert max(laps) - min(laps) <= 1 + max(1 / (weight / 0.05) for weight in weights.values())


@settings(max_examples=30)
@given(st.lists(st.integers(min_value=1, max_value=30), min_size=50, max_size=50))
def test_many_who_deal_by_themselves_are_fair_together(asked: list[int]) -> None:
    share = FairShare(partition=TENANT, weights={"gold": 3}, default_weight=1)
    names = ["gold", *(f"t{number}" for number in range(7))]
    rings = [Ring(share, after=name) for name in names[:5]]
    counts: Counter[str] = Counter()
    for turn, wanted in enumerate(asked):
        waiting = {name: [name] * 100 for name in names}
        counts.update(rings[turn % 5].deal(waiting, wanted, anything))
    laps = sum(asked) / 10
    for name in names:
        weight = share.weight_of(name)
        assert abs(counts[name] - laps * weight) <= 5 * (weight + 1)


@given(
    st.dictionaries(st.text(max_size=2), st.lists(st.integers(), max_size=5), max_size=8),
    st.text(max_size=2),
    st.integers(min_value=0, max_value=50),
)
def test_no_job_is_dealt_twice_and_none_is_left_that_was_wanted(
    jobs: dict[str, list[int]], after: str, wanted: int
) -> None:
    waiting = {key: [(key, n) for n in range(len(found))] for key, found in jobs.items()}
    dealt = Ring(FairShare(partition=TENANT), after=after).deal(waiting, wanted, anything)
    assert len(set(dealt)) == len(dealt) == min(wanted, sum(map(len, waiting.values())))
    for key, found in waiting.items():
        mine = [job for job in dealt if job[0] == key]
        assert mine == found[: len(mine)]


def test_ten_jobs_do_not_stand_behind_a_million() -> None:
    ring = Ring(FairShare(partition=TENANT))
    waiting = {"big": list(range(1_000)), "small": [-1, -2, -3]}
    assert ring.deal(waiting, 6, anything) == [0, -1, 1, -2, 2, -3]


def test_it_continues_where_it_stopped() -> None:
    ring = Ring(FairShare(partition=TENANT, weights={"b": 3}))
    waiting = {key: [key] * 9 for key in "abc"}
    dealt = "".join("".join(ring.deal(waiting, n, anything)) for n in (2, 1, 3, 4, 1, 4))
    assert dealt == "abbbc" * 3


def test_a_job_that_may_not_begin_is_passed_over() -> None:
    ring = Ring(FairShare(partition=TENANT))
    waiting = {"a": [1, 2, 3], "b": [4, 5]}
    assert ring.deal(waiting, 4, lambda job: job != 2) == [1, 4, 3, 5]


def test_a_round_ends_after_the_last_key_read() -> None:
    ring = Ring(FairShare(partition=TENANT))
    assert ring.deal({"a": [1, 2], "b": [3, 4]}, 9, anything, whole=False) == [1, 3]
    assert ring.after == "b"
    assert ring.deal({"c": [5]}, 9, anything, whole=False) == [5]
    ring.begin_again()
    assert ring.deal({"a": [2], "b": [4]}, 9, anything, whole=False) == [2, 4]


def test_a_round_that_is_read_in_pieces_goes_on_within_a_turn() -> None:
    ring = Ring(FairShare(partition=TENANT, weights={"b": 3}))
    dealt = ""
    for _ in range(30):
        waiting = {key: [key] * 9 for key in "abc" if key > ring.start}
        more = ring.deal(waiting, 1, anything, whole=False)
        dealt += "".join(more)
        if not more:
            ring.begin_again()
    assert dealt.startswith("abbbc" * 5)
    ring.skip_to("b")
    assert ring.start == "b"


def test_what_others_took_is_made_up_for_in_the_next_turn() -> None:
    ring = Ring(FairShare(partition=TENANT, weights={"b": 2}))
    waiting = {key: [key] * 99 for key in "abc"}
    assert ring.deal(waiting, 4, anything) == [*"abbc"]
    for key in "abc":
        ring.owe(key)
    assert ring.most(1, 1) == 1
    assert ring.most(9, 9) == 5
    assert ring.deal(waiting, 7, anything) == [*"aabbbcc"]
    assert ring.most(9, 9) == 3
    assert ring.deal(waiting, 4, anything) == [*"abbc"]


def test_no_more_is_made_up_for_than_a_round_gives() -> None:
    ring = Ring(FairShare(partition=TENANT, weights={"b": 2}))
    for key in "aaaabbbb":
        ring.owe(key)
    assert ring.deal({key: [key] * 99 for key in "ab"}, 6, anything) == [*"aabbbb"]


def test_nothing_is_saved_up_for_a_key_without_jobs() -> None:
    ring = Ring(FairShare(partition=TENANT))
    ring.owe("b")
    for _ in range(3):
        assert ring.deal({"a": ["a"]}, 1, anything) == ["a"]
    assert ring.deal({key: [key] * 9 for key in "ab"}, 4, anything) == [*"baba"]
    for key in range(30_000):
        ring.owe(str(key))


def test_a_weight_is_named_by_the_key_or_its_value() -> None:
    share = FairShare(partition=TENANT, weights={"gold": 3, '{"tenant": 7}': 2, "8": 5})
    assert share.weight_of('{"tenant": "gold"}') == 3
    assert share.weight_of('{"tenant": 7}') == 2
    assert share.weight_of('{"tenant": 8}') == 5
    assert share.weight_of('{"tenant": null}') == 1
    assert share.weight_of('{"tenant": "a lo… 0123') == 1
    assert share.weight_of("[" * 100_000) == 1
    assert FairShare(partition=Partition(by_kind=True), weights={"mail": 2}).weight_of("mail") == 2


def test_enough_jobs_of_each_key_are_read() -> None:
    ring = Ring(FairShare(partition=TENANT, weights={"gold": 3}))
    assert ring.most(10, 1_000) == 4
    assert ring.most(100, 2) == 100
    assert ring.most(100, 0) == 100
    assert ring.most(100, 50) == 8


@pytest.mark.parametrize(
    "given",
    [
        {"partition": Partition()},
        {"partition": "tenant"},
        {"partition": TENANT, "weights": ["gold"]},
        {"partition": TENANT, "weights": {"gold": 0}},
        {"partition": TENANT, "weights": {"gold": True}},
        {"partition": TENANT, "weights": {"gold": float("inf")}},
        {"partition": TENANT, "weights": {"gold": 1001}},
        {"partition": TENANT, "default_weight": -1},
    ],
)
def test_shares_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        FairShare(**given)
