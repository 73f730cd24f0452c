"""Small pictures: what they show, and that nothing breaks out of them."""

from __future__ import annotations

from riverui.web.view.charts import stacked_bar
from riverui.web.view.format import STATE_ICONS, Icons
from tests.web.html import parse


def test_an_icon_is_hidden_from_readers_and_a_state_is_told_to_them() -> None:
    icons = Icons("/static/1/icons.svg")
    icon = parse(icons.icon("play")).one("svg")
    assert icon.attributes["aria-hidden"] == "true"
    assert icon.one("use").attributes["href"] == "/static/1/icons.svg#play"
    state = parse(icons.state_icon("retryable")).one("svg")
    assert (state.attributes["aria-label"], state.one("title").text) == ("retryable", "retryable")
    assert state.one("use").attributes["href"].endswith(f"#{STATE_ICONS['retryable']}")
    assert parse(icons.state_badge("running")).one("span", class_="s-running").text == "running"


def test_nothing_breaks_out_of_an_icons_address() -> None:
    drawn = parse(Icons("/a&amp;\"><b>'/icons.svg").icon("play"))
    assert drawn.one("use").attributes["href"] == "/a&amp;\"><b>'/icons.svg#play"
    assert not drawn.all("b")


def test_a_bar_is_as_long_as_its_share_of_the_largest_and_told_in_words() -> None:
    bar = parse(stacked_bar([("available", 30), ("running", 0), ("retryable", 10)], 80)).one("svg")
    assert bar.attributes["aria-label"] == "30 available, 10 retryable"
    assert [part.attributes["width"] for part in bar.all("rect")] == ["36.0", "12.0"]
    assert stacked_bar([("available", 0)], 80) == ""
