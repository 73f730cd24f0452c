"""Charts: what they tell, where they lead, and that nothing breaks out of them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from riverui.web.assets import STATIC
from riverui.web.view.chart_axes import Unit, time_ticks, value_axis, value_text
from riverui.web.view.chart_data import Mark, Series, Shape, TimeChart
from riverui.web.view.time_chart import MAX_COLUMNS, sparkline, time_chart
from tests.cases import cases
from tests.web.html import Element, parse

START = datetime(2026, 11, 22, 13, 57, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVIL = "<b>\"'&\u202e"


def chart(*series: Series, **changes: object) -> TimeChart:
    plain = TimeChart(
        name="ended",
        label="Jobs ended",
        start=START,
        step=MINUTE,
        series=series,
        unit=Unit.JOBS,
        links=[f"/jobs?q=minute{n}" for n in range(len(series[0].values))],
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def bars(*values: float | None, css: str = "s-completed", label: str = "completed") -> Series:
    return Series(name=label, label=label, css=css, values=values, shape=Shape.BAR)


def line(*values: float | None, **more: object) -> Series:
    return Series(name="p95", label="p95", css="series-1", values=values, **more)  # type: ignore[arg-type]


def drawn(shown: TimeChart) -> Element:
    found = parse(time_chart(shown)).one("figure")
    for element in found.walk():
        assert "style" not in element.attributes
        assert element.tag != "style"
        assert not any(name.startswith("on") for name in element.attributes)
    return found


def names(found: Element) -> list[str]:
    return [hit.attributes["aria-label"] for hit in found.all(class_="chart-hit")]


def path(found: Element, css: str) -> str:
    shapes = found.one(class_="chart-shapes")
    return next(p for p in shapes.all("path") if p.fits("", {"class_": css})).attributes["d"]


def test_each_column_is_a_link_that_says_what_it_shows() -> None:
    found = drawn(
        chart(bars(1200, 0, 3), bars(4, 0, 0, css="s-discarded", label="discarded"), name="x")
    )
    hits = found.all("a", class_="chart-hit")
    assert [hit.attributes["href"] for hit in hits] == [f"/jobs?q=minute{n}" for n in range(3)]
    assert names(found) == [
        "13:57 to 13:58 UTC: completed 1,200; discarded 4",
        "13:58 to 13:59 UTC: completed 0; discarded 0",
        "13:59 to 14:00 UTC: completed 3; discarded 0",
    ]
    # One stop of the Tab key for each chart; arrow keys lead on.
    assert [hit.attributes["tabindex"] for hit in hits] == ["-1", "-1", "0"]


def test_without_links_columns_are_told_all_the_same() -> None:
    found = drawn(chart(bars(1, 2), links=()))
    assert not found.all("a")
    assert [hit.attributes["role"] for hit in found.all(class_="chart-hit")] == ["img", "img"]
    assert names(found)[1] == "13:58 to 13:59 UTC: completed 2"


def test_bars_stand_on_each_other_and_the_least_is_seen() -> None:
    found = drawn(chart(bars(50, 100), bars(0, 1, css="s-discarded", label="discarded")))
    # The axis goes to 200: 50 of them are a quarter of 1,000.
    assert path(found, "s-completed") == "M1 750h8v250h-8zM11 500h8v500h-8z"
    assert path(found, "s-discarded") == "M11 485h8v15h-8z"
    labels = [text.text for text in found.one(class_="chart-y").all("text")]
    assert labels == ["0", "100", "200"]


def test_lines_have_gaps_where_nothing_is_told_and_points_are_seen() -> None:
    found = drawn(chart(line(2, 2, None, 1, None, 0, 0)))
    assert path(found, "chart-line") == "M5 0L15 0M55 1000L65 1000"
    assert path(found, "chart-dot") == "M35 500h0"
    band = drawn(chart(line(2, None, 1, 1, shape=Shape.BAND)))
    assert path(band, "chart-band") == "M0 1000V0L5 0H10V1000zM20 1000V500L25 500L35 500H40V1000z"


def test_times_of_which_nothing_is_known_have_a_ground_of_their_own() -> None:
    known = [False, False, True, True]
    found = drawn(chart(bars(None, None, 0, 5), known=known))
    (gap,) = found.all(class_="chart-gap")
    assert (gap.attributes["x"], gap.attributes["width"]) == ("0%", "50%")
    assert names(found)[:3] == [
        "13:57 to 13:58 UTC: nothing known",
        "13:58 to 13:59 UTC: nothing known",
        "13:59 to 14:00 UTC: completed 0",
    ]
    empty = drawn(chart(bars(None), known=[False], nothing="No figures yet."))
    assert empty.one(class_="chart-nothing").text == "No figures yet."
    assert not found.all(class_="chart-nothing")
    assert drawn(chart(bars(0, None))).all(class_="chart-nothing"), "there were no jobs"
    assert not drawn(chart(line(0.0, None), unit=Unit.SECONDS)).all(class_="chart-nothing")


def test_the_newest_column_is_hatched_while_its_time_is_not_over() -> None:
    found = drawn(chart(bars(1, 2, 3, 4)))
    (hatched,) = found.all(class_="chart-hatch")
    assert (hatched.attributes["x"], hatched.attributes["width"]) == ("75%", "25%")
    assert hatched.attributes["fill"] == f"url(#{found.one('pattern').attributes['id']})"
    assert "so far" in found.one("tbody").all("tr")[0].text
    assert not drawn(chart(bars(1, 2), unfinished=False)).all(class_="chart-hatch")


def test_what_is_at_least_so_much_is_a_band_up_to_the_top() -> None:
    depth = line(5_000, 10_000, 10_000, shape=Shape.BAND, capped=[False, True, True])
    found = drawn(chart(depth, unfinished=False))
    (band,) = found.all(class_="chart-hatch")
    assert (band.attributes["x"], band.attributes["width"]) == ("33.33%", "66.67%")
    assert band.attributes["height"] == "50%", "the axis goes to 20,000"
    assert found.one(class_="chart-note").text == "≥ 10,000"
    assert names(found)[1:] == [
        "13:58 to 13:59 UTC: p95 ≥ 10,000",
        "13:59 to 14:00 UTC: p95 ≥ 10,000",
    ]


def test_what_was_sampled_is_marked_as_a_guess() -> None:
    found = drawn(chart(bars(120, 0, 7), sampled=[10, 10, 1]))
    assert [name.partition(": ")[2] for name in names(found)] == [
        "completed ≈ 120",
        "completed 0",
        "completed 7",
    ]


def test_the_table_has_the_same_the_newest_first() -> None:
    found = drawn(chart(bars(1200, 0, None), files=[("CSV", "/figures/ended.csv?a=1&b=2")]))
    table = found.one("details").one("table")
    rows = [[cell.text for cell in row.all("th") + row.all("td")] for row in table.all("tr")]
    assert rows == [
        ["UTC", "completed"],
        ["13:59 to 14:00 so far", "–"],
        ["13:58 to 13:59", "0"],
        ["13:57 to 13:58", "1,200"],
    ]
    assert table.link("13:57 to 13:58") == "/jobs?q=minute0"
    assert found.link("CSV") == "/figures/ended.csv?a=1&b=2"


def test_marks_stand_where_they_happened_and_only_within_the_chart() -> None:
    marks = [
        Mark(at=START - MINUTE, label="before"),
        Mark(at=START + MINUTE, label="v1.4.2", url="https://git.test/v1.4.2?a=1&b=2"),
        Mark(at=START + 3.8 * MINUTE, label="x" * 200),
        Mark(at=START + 4 * MINUTE, label="after"),
    ]
    found = drawn(chart(bars(1, 2, 3, 4), marks=marks)).all(class_="chart-mark")
    assert [mark.one("line").attributes["x1"] for mark in found] == ["25%", "95%"]
    assert found[0].one("a").attributes["href"] == "https://git.test/v1.4.2?a=1&b=2"
    assert found[0].one("title").text == "11-22 13:58 UTC v1.4.2"
    assert found[1].one("text").text == "x" * 24 + "…"
    assert found[1].one("text").attributes["class"] == "late", "there is no room behind it"


def test_texts_of_others_are_texts() -> None:
    series = Series(name=EVIL, label=EVIL, css="series-1", values=[1, 2])
    found = drawn(chart(series, label=EVIL, marks=[Mark(at=START, label=EVIL, url="/x\"'<")]))
    assert not found.all("b")
    assert "<b>\"'&\\u202e" in found.one(class_="chart-legend").text
    assert found.one(class_="chart-plot").attributes["aria-label"] == "<b>\"'&\\u202e"
    assert "<b>\"'&\\u202e 1" in names(found)[0]
    assert found.one(class_="chart-mark").one("text").text == "<b>\"'&\\u202e"
    assert found.one(class_="chart-mark").one("a").attributes["href"] == "/x\"'<"
    assert "\u202e" not in str(time_chart(chart(series, label=EVIL)))


def test_a_chart_has_no_more_columns_than_a_phone_can_show() -> None:
    drawn(chart(bars(*range(MAX_COLUMNS))))
    with pytest.raises(ValueError, match="at most 120"):
        time_chart(chart(bars(*range(MAX_COLUMNS + 1))))


def test_a_sparkline_is_told_in_words_and_empty_without_values() -> None:
    found = parse(sparkline([1, None, 2], label=f"wait {EVIL}", unit=Unit.JOBS)).one("svg")
    assert found.attributes["aria-label"] == "wait <b>\"'&\\u202e"
    lines = [found.attributes["d"] for found in found.all("path")]
    assert lines == ["", "M5 500h0M25 0h0"]
    assert sparkline([None, None], label="nothing", unit=Unit.JOBS) == ""


@pytest.mark.parametrize(
    ("values", "unit", "ticks"),
    [
        ([], Unit.JOBS, ["0", "1", "2"]),
        ([0, 3], Unit.JOBS, ["0", "2", "4"]),
        ([10], Unit.JOBS, ["0", "5", "10"]),
        ([1_430], Unit.JOBS, ["0", "1,000", "2,000"]),
        ([7_999_999], Unit.JOBS, ["0", "4M", "8M"]),
        ([0.0031], Unit.SHARE, ["0 %", "1 %", "2 %"]),
        ([0.31], Unit.SHARE, ["0 %", "20 %", "40 %"]),
        ([0.97, 1.0], Unit.SHARE, ["0 %", "50 %", "100 %"]),
        ([0.3], Unit.SECONDS, ["0 s", "200 ms", "400 ms"]),
    ],
)
def test_an_axis_has_three_round_ticks(
    values: Sequence[float], unit: Unit, ticks: list[str]
) -> None:
    axis = value_axis(values, unit)
    assert [text for _, text in axis.ticks] == ticks
    assert [axis.place(value) for value, _ in axis.ticks] == [0, 0.5, 1]


def test_a_large_chart_has_more_ticks_but_no_halves_of_jobs() -> None:
    with cases() as case:
        for top, unit, ticks in (
            (1_430, Unit.JOBS, ["0", "500", "1,000", "1,500", "2,000"]),
            (10, Unit.JOBS, ["0", "2", "4", "6", "8", "10"]),
            (6, Unit.JOBS, ["0", "3", "6"]),
            (0.31, Unit.SHARE, ["0 %", "10 %", "20 %", "30 %", "40 %"]),
        ):
            with case(f"{top} {unit}"):
                axis = value_axis([top], unit, large=True)
                assert [text for _, text in axis.ticks] == ticks


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([], ["10 ms", "30 ms", "100 ms", "300 ms", "1 s"]),
        ([0, 0.02, 0.03], ["10 ms", "30 ms", "100 ms", "300 ms", "1 s"]),
        ([0.002, 70], ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 m", "10 m"]),
        ([1], ["1 s", "3 s", "10 s", "30 s", "1 m"]),
        ([2_700_000], ["1 d", "3 d", "7 d", "14 d", "30 d"]),
        ([0.0001, 9e9], ["1 ms", "100 ms", "10 s", "10 m", "6 h", "30 d"]),
    ],
)
def test_a_logarithmic_axis_holds_all_times(values: Sequence[float], ticks: list[str]) -> None:
    axis = value_axis(values, Unit.SECONDS, logarithmic=True)
    assert [text for _, text in axis.ticks] == ticks
    places = [axis.place(value) for value, _ in axis.ticks]
    assert (places[0], places[-1]) == (0, 1)
    # Their texts have room in 132 px, and no half of the axis is without one.
    assert all(0.13 <= after - before <= 0.4 for before, after in itertools.pairwise(places))
    assert [axis.place(value) for value in (0, 1e12)] == [0, 1]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, Unit.JOBS, "0"),
        (0.4, Unit.JOBS, "0.4"),
        (0.034, Unit.JOBS, "0.034"),
        (1_203, Unit.JOBS, "1,203"),
        (1_234_567, Unit.JOBS, "1.2M"),
        (0, Unit.SECONDS, "0 s"),
        (252, Unit.SECONDS, "4 m 12 s"),
        (0.004, Unit.SHARE, "0.4 %"),
        (0.31, Unit.SHARE, "31 %"),
        (1, Unit.SHARE, "100 %"),
    ],
)
def test_values_in_words(value: float, unit: Unit, text: str) -> None:
    assert value_text(value, unit) == text


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (timedelta(hours=1), ["14:00", "14:10", "14:20", "14:30", "14:40", "14:50"]),
        (timedelta(hours=6), ["14:00", "15:00", "16:00", "17:00", "18:00", "19:00"]),
        (timedelta(days=7), [f"11-{day}" for day in range(23, 30)]),
    ],
)
def test_labels_of_the_time_axis_are_whole_times(span: timedelta, texts: list[str]) -> None:
    ticks = time_ticks(START, START + span)
    assert [text for _, _, text in ticks] == texts
    assert all(at == START + place * span for place, at, _ in ticks)


# Colours: each of the seven is told from the ground, and from the six others by everybody.


def product(row: Sequence[float], vector: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(row, vector, strict=True))


def linear(color: str) -> list[float]:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def luminance(color: str) -> float:
    return product((0.2126, 0.7152, 0.0722), linear(color))


def oklab(rgb: Sequence[float]) -> list[float]:
    cones = [
        product(row, rgb) ** (1 / 3)
        for row in (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    ]
    return [
        product(row, cones)
        for row in (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        )
    ]


SIGHT = {
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    # Machado, Oliveira and Fernandes 2009, severity 1.
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def colors() -> dict[str, tuple[list[str], str]]:
    """Return the seven colours and their ground, by theme."""
    tokens = (STATIC / "css/tokens.css").read_text()
    pairs = re.findall(r"--series-\d: light-dark\((#\w{6}), (#\w{6})\)", tokens)
    assert len(pairs) == 7
    return {
        "light": ([light for light, _ in pairs], "#ffffff"),
        "dark": ([dark for _, dark in pairs], "#12161e"),
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_ground(theme: str) -> None:
    found, ground = colors()[theme]
    for color in found:
        low, high = sorted((luminance(color), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3, color


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart_by_everybody(theme: str, sight: str) -> None:
    def seen(color: str) -> list[float]:
        rgb = linear(color)
        return oklab([min(max(product(row, rgb), 0), 1) for row in SIGHT[sight]])

    found, _ = colors()[theme]
    for one, other in itertools.combinations(found, 2):
        assert math.dist(seen(one), seen(other)) > 0.12, (one, other)
