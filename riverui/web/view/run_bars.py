"""The newest runs of something as a row of small bars, each a link to its job."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import timedelta

from markupsafe import Markup
from msgspec import Struct

from riverui.domain.time import duration
from riverui.web.view.format import trusted

_WIDTH, _GAP, _HEIGHT = 5, 2, 26
"""Width of a bar, gap between bars, and height of the tallest, in pixels."""
_LEAST = 2.0
"""Height of the lowest bar in pixels, so that it is visible."""


class RunBar(Struct, frozen=True, kw_only=True):
    """One run."""

    state: str
    """River's word for its state, which gives the colour."""
    waited: timedelta | None
    ran: timedelta | None
    """None if unknown."""
    url: str
    words: str
    """Its description, for the tooltip and screen readers."""


def run_bars(bars: Sequence[RunBar], *, label: str) -> Markup:
    """Draw runs, the oldest first: each bar shows the wait (pale) below the run, scaled to the
    longest. States and labels must not come from a job.
    """
    if not bars:
        return Markup("")
    longest = max(max(_seconds(bar) for bar in bars), 0.001)
    drawn = ""
    for place, bar in enumerate(bars):
        left, total = place * (_WIDTH + _GAP), _seconds(bar)
        tall = max(_LEAST, _HEIGHT * total / longest)
        pale = tall * _span(bar.waited) / total if total else 0.0
        title = f"{bar.words}{_span_text('waited', bar.waited)}{_span_text('ran', bar.ran)}"
        drawn += (
            f'<a href="{html.escape(bar.url)}" aria-label="{html.escape(title)}">'
            f"<title>{html.escape(title)}</title>"
            f'<rect class="hit" x="{left}" y="0" width="{_WIDTH + _GAP}" height="{_HEIGHT}"/>'
            f'<rect class="s-{bar.state}" x="{left}" y="{_HEIGHT - tall:.1f}" width="{_WIDTH}"'
            f' height="{tall - pale:.1f}"/>'
        )
        if pale >= 0.5:
            drawn += (
                f'<rect class="s-{bar.state} waited" x="{left}" y="{_HEIGHT - pale:.1f}"'
                f' width="{_WIDTH}" height="{pale:.1f}"/>'
            )
        drawn += "</a>"
    width = len(bars) * (_WIDTH + _GAP)
    return trusted(
        f'<svg class="runs" viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
        f' preserveAspectRatio="none" role="group" aria-label="{html.escape(label)}">{drawn}</svg>'
    )


def _seconds(bar: RunBar) -> float:
    return _span(bar.waited) + _span(bar.ran)


def _span(span: timedelta | None) -> float:
    return span.total_seconds() if span is not None else 0.0


def _span_text(word: str, span: timedelta | None) -> str:
    return f", {word} {duration(span)}" if span is not None else ""
