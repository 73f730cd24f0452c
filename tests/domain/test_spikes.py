"""What counts as a spike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import FigureColumn, Tally
from riverui.domain.spikes import Spike, spikes

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def found(failed: Sequence[int | None]) -> list[Spike]:
    columns = [
        FigureColumn(
            at=NOON + timedelta(minutes=n), tally=None if number is None else Tally(failed=number)
        )
        for n, number in enumerate(failed)
    ]
    return list(spikes(columns, lambda tally: tally.failed))


def test_a_run_of_columns_is_one_spike() -> None:
    (spike,) = found([5] * 10 + [30, 40, 25] + [5] * 10)
    assert spike == Spike(
        at=NOON + timedelta(minutes=10), until=NOON + timedelta(minutes=13), most=40, usual=5
    )
    assert len(found([5] * 10 + [30, 5, 30] + [5] * 10)) == 2


def test_little_and_the_usual_are_no_spikes() -> None:
    assert found([0] * 20 + [19]) == []
    assert found([50] * 20 + [199]) == []
    assert len(found([50] * 20 + [200])) == 1
    assert found([500] * 20) == []


def test_too_little_is_known() -> None:
    assert found([None] * 50 + [0] * 8 + [90]) == []
    assert found([]) == []
