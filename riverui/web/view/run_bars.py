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
"""Pixels of a bar, between two, and of the tallest."""
_LEAST = 2.0
"""Pixels of the lowest bar, so that one sees that there is one."""


class RunBar(Struct, frozen=True, kw_only=True):
    """One run."""

    state: str
    """River's word for its state, which gives the colour."""
    waited: timedelta | None
    ran: timedelta | None
    """None where it is not known."""
    url: str
    words: str
    """What it is, for the tooltip and for readers."""


def run_bars(bars: Sequence[RunBar], *, label: str) -> Markup:
    """Draw runs, the oldest first: how long each waited (pale) below how long it ran, as tall as
    that is beside the longest of them. States and labels are our own words, never a job's.
    """
    if not bars:
        return Markup("")
    longest = max(max(_seconds(bar) for bar in bars), 0.001)
    drawn = ""
    for place, bar in enumerate(bars):
        left, total = place * (_WIDTH + _GAP), _seconds(bar)
        tall = max(_LEAST, _HEIGHT * total / longest)
        pale = tall * _span(bar.waited) / total if total else 0.0
        title = f"{bar.words}{_told('waited', bar.waited)}{_told('ran', bar.ran)}"
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
        f' role="group" aria-label="{html.escape(label)}">{drawn}</svg>'
    )


def _seconds(bar: RunBar) -> float:
    return _span(bar.waited) + _span(bar.ran)


def _span(span: timedelta | None) -> float:
    return span.total_seconds() if span is not None else 0.0


def _told(word: str, span: timedelta | None) -> str:
    return f", {word} {duration(span)}" if span is not None else ""
