"""Histograms of durations, as bars over a logarithmic scale."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from datetime import timedelta
from math import ceil, log

from markupsafe import Markup

from riverui.domain.sketch import GAMMA, Sketch
from riverui.domain.time import duration
from riverui.web.view.chart_axes import Unit, value_axis
from riverui.web.view.format import number, trusted

_MAX_BARS = 28
"""Most bars: on a phone each is still 10 pixels wide."""
_FEWEST_BARS = 10
"""Fewest bars that there is room for: one alone is not a block as wide as the page."""
_FEWEST_BINS = 2
"""Fewest bins of a sketch per bar: single bins have gaps and peaks by chance."""
_WIDTH, _HIGH, _TOP = 10, 100, 92
"""Width of a bar, height of the chart and of the tallest bar, in the units of the shapes."""
_EDGE = 0.03
"""Part of the axis at either end without labels, which would stand out beyond it."""


def histogram(sketch: Sketch, *, label: str, usual: Sketch | None = None) -> Markup:
    """Draw a sketch as a histogram. A line over the bars shows the distribution of `usual`, scaled
    to the same total. Empty if nothing was counted.
    """
    if not sketch.counts:
        return Markup("")
    before = usual.counts if usual is not None else {}
    places = (*sketch.counts, *before)
    bins = max(_FEWEST_BINS, ceil((max(places) - min(places) + 1) / _MAX_BARS))
    bars, line = _bars(sketch.counts, bins), _bars(before, bins)
    scale = sketch.n / usual.n if usual is not None and line else 0.0
    first, last = min((*bars, *line)), max((*bars, *line))
    spare = max(0, _FEWEST_BARS - (last - first + 1))
    first, last = first - spare // 2, last + spare - spare // 2
    tallest = max(*bars.values(), *(n * scale for n in line.values()), 1)
    drawn, points = [], []
    for n, place in enumerate(range(first, last + 1)):
        count, x = bars.get(place, 0), n * _WIDTH
        title = (
            f"{duration(_end(place - 1, bins))} to {duration(_end(place, bins))}: {number(count)}"
        )
        high = _TOP * count / tallest
        drawn.append(
            f"<g><title>{html.escape(title)}</title>"
            f'<rect class="hit" x="{x}" y="0" width="{_WIDTH}" height="{_HIGH}"/>'
            f'<rect class="chart-bar" x="{x + 1}" y="{_HIGH - high:.1f}"'
            f' width="{_WIDTH - 1}" height="{high:.1f}"/></g>'
        )
        points.append(
            f"{x + _WIDTH // 2} {_HIGH - _TOP * line.get(place, 0) * scale / tallest:.1f}"
        )
    width = (last - first + 1) * _WIDTH
    path = f'<path class="chart-line series-2" d="M{"L".join(points)}"/>' if line else ""
    return trusted(
        f'<figure class="histogram"><svg viewBox="0 0 {width} {_HIGH}" preserveAspectRatio="none"'
        f' role="img" aria-label="{html.escape(label)}">{"".join(drawn)}{path}</svg>'
        f'<svg class="chart-x" aria-hidden="true">'
        f"{''.join(_ticks(_end(first - 1, bins), _end(last, bins)))}</svg></figure>"
    )


def _bars(counts: Mapping[int, int], bins: int) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for place, n in counts.items():
        bar = -(-place // bins)
        found[bar] = found.get(bar, 0) + n
    return found


def _end(bar: int, bins: int) -> timedelta:
    return timedelta(microseconds=GAMMA ** (bar * bins))


def _ticks(low: timedelta, high: timedelta) -> Iterator[str]:
    """Yield the labels of the axis between two spans."""
    begin, end = log(low.total_seconds()), log(high.total_seconds())
    axis = value_axis([low.total_seconds(), high.total_seconds()], Unit.SECONDS, logarithmic=True)
    for seconds, text in axis.ticks:
        x = (log(seconds) - begin) / (end - begin)
        if _EDGE <= x <= 1 - _EDGE:
            yield f'<text x="{100 * x:.1f}%" y="14">{text}</text>'
