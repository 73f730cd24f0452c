"""Slots as small pictures."""

from __future__ import annotations

import pytest

from riverui.web.view.charts import slot_bar
from tests.web.html import parse


@pytest.mark.parametrize(
    ("taken", "most", "classes"),
    [(0, 2, ["free"] * 2), (2, 3, ["taken", "taken", "free"]), (5, 3, ["taken"] * 3)],
)
def test_a_few_slots_are_squares(taken: int, most: int, classes: list[str]) -> None:
    bar = parse(slot_bar(taken, most)).one("svg")
    assert [rect.attributes["class"] for rect in bar.all("rect")] == classes
    assert bar.attributes["width"] == str(12 * most)


def test_many_slots_are_one_bar() -> None:
    bar = parse(slot_bar(25, 100)).one("svg")
    assert [rect.attributes["width"] for rect in bar.all("rect")] == ["40.0", "120.0"]
    assert bar.attributes["aria-label"] == "25 of 100 slots taken"
    (full,) = parse(slot_bar(100, 100)).all("rect")
    assert full.attributes["class"] == "taken"
    assert slot_bar(1, 0) == slot_bar(0, -1) == ""
