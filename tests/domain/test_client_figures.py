"""Which source tells of a queue: rows or workers, and never both."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from riverui.domain.client_figures import ends_of, failures_of, queues_of_clients
from riverui.domain.figures import OTHER, Tally

Told = dict[tuple[str, str], int]


def cells(told: Told) -> dict[tuple[str, str], Tally]:
    return {pair: Tally(completed=n) for pair, n in told.items()}


@pytest.mark.parametrize(
    ("rows", "clients", "sampled", "chosen"),
    [
        ({("mail", "send"): 100}, {("mail", "send"): 99}, False, {"mail"}),
        ({("mail", "send"): 100}, {("mail", "send"): 98}, False, set()),
        ({("mail", "send"): 100}, {("mail", "send"): 98}, True, {"mail"}),
        ({("mail", "send"): 100}, {("mail", "send"): 500}, False, {"mail"}),
        ({("mail", "send"): 100}, {}, False, set()),
        # Its rows are gone.
        ({}, {("mail", "send"): 3}, False, {"mail"}),
        # It is the queue that counts, not the kind.
        ({("mail", "send"): 99, ("mail", "go"): 1}, {("mail", "send"): 99}, False, {"mail"}),
        ({("mail", "send"): 9, ("go", "send"): 9}, {("mail", "send"): 9}, False, {"mail"}),
        # Nothing ended.
        ({}, {("mail", "send"): 0}, False, set()),
        # Who knows which queues these are.
        ({}, {(OTHER, OTHER): 9}, False, set()),
        ({(OTHER, OTHER): 9}, {("mail", "send"): 9}, False, set()),
        ({(OTHER, OTHER): 9}, {(OTHER, OTHER): 9}, False, set()),
        ({(OTHER, OTHER): 9, ("mail", "send"): 1}, {("mail", "send"): 1}, False, {"mail"}),
    ],
)
def test_clients_are_believed_who_told_nearly_all_of_a_queue(
    rows: Told, clients: Told, sampled: bool, chosen: set[str]
) -> None:
    assert queues_of_clients(cells(rows), cells(clients), sampled=sampled) == chosen


pairs = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", OTHER]), st.sampled_from(["x", "y", OTHER])),
    st.integers(0, 300),
)


@given(rows=pairs, clients=pairs)
def test_each_queue_is_of_one_source(rows: Told, clients: Told) -> None:
    ends = ends_of(cells(rows), cells(clients), sampled=False)
    if ends is None:
        return
    for queue in {queue for queue, _ in ends}:
        told = {pair: tally.completed for pair, tally in ends.items() if pair[0] == queue}
        sources = [{p: n for p, n in source.items() if p[0] == queue} for source in (rows, clients)]
        assert told in sources


def test_what_is_chosen_is_a_copy_without_failures() -> None:
    clients = {("mail", "send"): Tally(completed=5, failed=2, snoozed=3, interrupted=1)}
    ends = ends_of({}, clients, sampled=False)
    assert ends is not None
    ends["mail", "send"].completed += 1
    assert clients["mail", "send"].completed == 5
    assert (ends["mail", "send"].failed, ends["mail", "send"].snoozed) == (0, 0)


@pytest.mark.parametrize(
    ("rows", "clients", "told"),
    [
        ({("q", "a"): 2}, {}, {("q", "a"): 2}),
        ({}, {("q", "a"): 2}, {("q", "a"): 2}),
        ({("q", "a"): 2, ("q", "b"): 1}, {("q", "a"): 5}, {("q", "a"): 5, ("q", "b"): 1}),
        ({("q", OTHER): 2}, {("q", "a"): 2}, {("q", OTHER): 2}),
        ({("q", "a"): 2}, {("q", OTHER): 2}, {("q", "a"): 2}),
    ],
)
def test_failures_are_told_by_who_knows_of_more(rows: Told, clients: Told, told: Told) -> None:
    assert failures_of(rows, clients) == told
