"""When a queue is empty is told where it can be, and nowhere else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from riverui.domain.forecast import QueueMinute, time_to_empty

HOUR = [QueueMinute(ended=60, came=40, waiting=1_000 - 20 * n) for n in range(30)]
"""Minutes in which twenty more jobs end than come."""


def test_a_queue_is_empty_when_what_waits_is_done_at_the_pace_of_late() -> None:
    assert time_to_empty(HOUR, 200) == timedelta(minutes=10)
    slow = [QueueMinute(ended=3, came=2)] * 45
    assert time_to_empty([*slow, *HOUR], 30) == timedelta(minutes=1.5), "what was before is past"


def test_depths_need_not_be_known() -> None:
    assert time_to_empty([QueueMinute(ended=2, came=0)] * 15, 4) == timedelta(minutes=2)


@pytest.mark.parametrize(
    ("minutes", "waiting"),
    [
        (HOUR, 0),
        ([], 5),
        (HOUR[:14], 5),
        ([*HOUR[:-3], None, *HOUR[-2:]], 5),
        ([QueueMinute(ended=40, came=40)] * 15, 5),
        ([QueueMinute(ended=40, came=60)] * 15, 5),
        ([QueueMinute(ended=1, came=0)] * 15, 5),
        ([QueueMinute(ended=10, came=0, sampled=10)] * 15, 5),
        ([QueueMinute(ended=10, came=0)] * 7 + [QueueMinute(ended=40, came=0)] * 8, 5),
        ([QueueMinute(ended=90, came=0)] * 7 + [QueueMinute(ended=10, came=30)] * 8, 5),
        ([QueueMinute(ended=9, came=5, waiting=100 + n) for n in range(15)], 5),
        ([QueueMinute(ended=2, came=0)] * 15, 1_000_000),
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
