"""Which rollups a window is made of, which queues clients know better than rows, and the bytes of
sketches.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from riverui.domain.figures import OTHER, Tally
from riverui.domain.sketch import FIRST_BIN, LAST_BIN
from riverui.features.figures import packed_bins
from riverui.features.figures.domain import (
    DAY,
    HOUR,
    MAX_PAIRS,
    MINUTE,
    TEN_MINUTES,
    busiest,
    choose_ends,
    choose_failures,
    ends_by_clients,
    stretches,
)

Counts = dict[tuple[str, str], int]


def tallies(counts: Counts) -> dict[tuple[str, str], Tally]:
    return {pair: Tally(completed=n) for pair, n in counts.items()}


def test_the_rest_of_many_kinds_is_one() -> None:
    pairs = {("q", f"kind_{n}"): Tally(completed=1000 - n) for n in range(300)}
    pairs["tiny", "kind"] = Tally(completed=1)
    kept = busiest(pairs)
    assert len(kept) == MAX_PAIRS + 2
    assert kept["q", OTHER].completed == sum(1000 - n for n in range(200, 300))
    assert kept[OTHER, OTHER].completed == 1
    assert busiest(kept).keys() == kept.keys()


MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "until", "newest", "expected"),
    [
        (0, 1480, {}, []),
        (0, 1480, {MINUTE: 780}, [(MINUTE, 0, 781)]),
        (
            0,
            1480,
            {MINUTE: 1474, TEN_MINUTES: 1460, HOUR: 1380, DAY: 0},
            [(DAY, 0, 1440), (TEN_MINUTES, 1440, 1470), (MINUTE, 1470, 1475)],
        ),
        (
            710,
            897,
            {MINUTE: 898, TEN_MINUTES: 880, HOUR: 780},
            [
                (TEN_MINUTES, 710, 720),
                (HOUR, 720, 840),
                (TEN_MINUTES, 840, 890),
                (MINUTE, 890, 897),
            ],
        ),
    ],
)
def test_stretches_are_wide_in_the_middle_and_fine_at_the_ends(
    since: int,
    until: int,
    newest: dict[timedelta, int],
    expected: list[tuple[timedelta, int, int]],
) -> None:
    found = stretches(
        MIDNIGHT + since * MINUTE,
        MIDNIGHT + until * MINUTE,
        {span: MIDNIGHT + n * MINUTE for span, n in newest.items()},
        widest=DAY,
    )
    assert [
        (each.step, (each.since - MIDNIGHT) // MINUTE, (each.until - MIDNIGHT) // MINUTE)
        for each in found
    ] == expected


@pytest.mark.parametrize(
    ("rows", "clients", "sampled", "chosen"),
    [
        ({("mail", "send"): 100}, {("mail", "send"): 99}, False, {"mail"}),
        ({("mail", "send"): 100}, {("mail", "send"): 98}, False, set()),
        ({("mail", "send"): 100}, {("mail", "send"): 98}, True, {"mail"}),
        ({("mail", "send"): 100}, {("mail", "send"): 500}, False, {"mail"}),
        ({("mail", "send"): 100}, {}, False, set()),
        # Its rows were deleted.
        ({}, {("mail", "send"): 3}, False, {"mail"}),
        # The queue counts, not the kind.
        ({("mail", "send"): 99, ("mail", "go"): 1}, {("mail", "send"): 99}, False, {"mail"}),
        ({("mail", "send"): 9, ("go", "send"): 9}, {("mail", "send"): 9}, False, {"mail"}),
        # Nothing ended.
        ({}, {("mail", "send"): 0}, False, set()),
        # These queues are unknown.
        ({}, {(OTHER, OTHER): 9}, False, set()),
        ({(OTHER, OTHER): 9}, {("mail", "send"): 9}, False, set()),
        ({(OTHER, OTHER): 9}, {(OTHER, OTHER): 9}, False, set()),
        ({(OTHER, OTHER): 9, ("mail", "send"): 1}, {("mail", "send"): 1}, False, {"mail"}),
    ],
)
def test_clients_know_a_queue_if_they_counted_nearly_all_of_it(
    rows: Counts, clients: Counts, sampled: bool, chosen: set[str]
) -> None:
    assert ends_by_clients(tallies(rows), tallies(clients), sampled=sampled) == chosen


pairs = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", OTHER]), st.sampled_from(["x", "y", OTHER])),
    st.integers(0, 300),
)


@given(rows=pairs, clients=pairs)
def test_each_queue_is_of_one_source(rows: Counts, clients: Counts) -> None:
    by_rows, by_clients = tallies(rows), tallies(clients)
    queues = ends_by_clients(by_rows, by_clients, sampled=False)
    ends = choose_ends(by_rows, by_clients, queues=queues)
    for queue in {queue for queue, _ in ends}:
        counts = {pair: tally.completed for pair, tally in ends.items() if pair[0] == queue}
        sources = [{p: n for p, n in source.items() if p[0] == queue} for source in (rows, clients)]
        assert counts in sources


def test_ended_jobs_of_clients_come_without_failures() -> None:
    clients = {("mail", "send"): Tally(completed=5, failed=2, snoozed=3, interrupted=1)}
    ends = choose_ends({}, clients, queues=frozenset({"mail"}))
    assert (ends["mail", "send"].failed, ends["mail", "send"].snoozed) == (0, 0)
    assert clients["mail", "send"].failed == 2


@pytest.mark.parametrize(
    ("rows", "clients", "chosen"),
    [
        ({("q", "a"): 2}, {}, {("q", "a"): 2}),
        ({}, {("q", "a"): 2}, {("q", "a"): 2}),
        ({("q", "a"): 2, ("q", "b"): 1}, {("q", "a"): 5}, {("q", "a"): 5, ("q", "b"): 1}),
        ({("q", OTHER): 2}, {("q", "a"): 2}, {("q", OTHER): 2}),
        ({("q", "a"): 2}, {("q", OTHER): 2}, {("q", "a"): 2}),
    ],
)
def test_the_larger_number_of_failures_is_chosen(
    rows: Counts, clients: Counts, chosen: Counts
) -> None:
    assert choose_failures(rows, clients) == chosen


@pytest.mark.parametrize(
    "counts",
    [
        {},
        {FIRST_BIN: 1},
        {LAST_BIN: 255, FIRST_BIN: 1},
        {100: 256, 101: 1},
        {100: 2**32 - 1},
        {n: 2**40 + n for n in range(FIRST_BIN, LAST_BIN + 1)},
    ],
)
def test_bins_are_packed_and_unpacked(counts: dict[int, int]) -> None:
    packed = packed_bins.pack(counts)
    assert packed_bins.unpack(packed) == counts
    assert len(packed) <= 2048


def test_bytes_of_other_formats_are_read_too() -> None:
    assert packed_bins.unpack(b"\x00\x00\x05\x05") == {FIRST_BIN: 1, FIRST_BIN + 5: 2}
    for odd in (b"\x03abc", b"\x01a", b"\x02ab", None):
        assert packed_bins.unpack(odd) == {}
