"""Histograms of durations, as bars over a logarithmic scale."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import timedelta

from markupsafe import Markup

from riverui.domain.sketch import GAMMA, Sketch
from riverui.domain.time import duration
from riverui.web.view.format import number, trusted

_BINS = 6
"""Bins of a sketch per bar: each bar ends at 1.8 times the end of the one before."""
_MOST = 40
"""Most bars: enough for durations from a millisecond to a month."""
_WIDTH, _HIGH = 10, 100
"""Width of a bar and height of the chart, in the units of the stretched shapes."""


def histogram(sketch: Sketch, *, label: str, usual: Sketch | None = None) -> Markup:
    """Draw a sketch as a histogram. A line over the bars shows the distribution of `usual`, scaled
    to the same total. Empty if nothing was counted.
    """
    bars = _bars(sketch)
    if not bars:
        return Markup("")
    before = _bars(usual) if usual is not None else {}
    scale = sum(bars.values()) / sum(before.values()) if before else 0.0
    line = {place: n * scale for place, n in before.items()}
    first, last = min((*bars, *line)), max((*bars, *line))
    last = min(last, first + _MOST - 1)
    tallest = max((*bars.values(), *line.values()))
    drawn, points = [], []
    for n, place in enumerate(range(first, last + 1)):
        count, x = bars.get(place, 0), n * _WIDTH
        title = f"{duration(_end(place - 1))} to {duration(_end(place))}: {number(count)}"
        high = _HIGH * count / tallest
        drawn.append(
            f"<g><title>{html.escape(title)}</title>"
            f'<rect class="hit" x="{x}" y="0" width="{_WIDTH}" height="{_HIGH}"/>'
            f'<rect class="chart-bar series-1" x="{x + 1}" y="{_HIGH - high:.1f}"'
            f' width="{_WIDTH - 2}" height="{high:.1f}"/></g>'
        )
        points.append(f"{x + _WIDTH // 2} {_HIGH - _HIGH * line.get(place, 0) / tallest:.1f}")
    width = (last - first + 1) * _WIDTH
    path = f'<path class="chart-line series-2" d="M{"L".join(points)}"/>' if line else ""
    return trusted(
        f'<figure class="histogram"><svg viewBox="0 0 {width} {_HIGH}" preserveAspectRatio="none"'
        f' role="img" aria-label="{html.escape(label)}">{"".join(drawn)}{path}</svg>'
        f"<figcaption><span>{duration(_end(first - 1))}</span>"
        f"<span>{duration(_end((first + last) // 2))}</span><span>{duration(_end(last))}</span>"
        "</figcaption></figure>"
    )


def _bars(sketch: Sketch) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for place, n in sketch.counts.items():
        bar = -(-place // _BINS)
        found[bar] = found.get(bar, 0) + n
    return found


def _end(bar: int) -> timedelta:
    return timedelta(microseconds=GAMMA ** (bar * _BINS))
