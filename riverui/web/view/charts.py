"""Small pictures drawn by the server as SVG: no script, coloured by classes, told in words for
readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from riverui.web.view.format import escaped, trusted

STATE_ICONS = {
    "pending": "hourglass",
    "scheduled": "clock",
    "available": "circle-dot",
    "running": "play",
    "retryable": "rotate-cw",
    "completed": "check",
    "discarded": "octagon-x",
    "cancelled": "ban",
}
"""The icon of each state, as the sprite names them."""


def stacked_bar(
    parts: Sequence[tuple[str, int]], largest: int, *, width: int = 96, height: int = 8
) -> Markup:
    """Draw shares of a total as one bar, coloured by state and as long as the total is beside
    `largest`. States are our own words, never a job's.
    """
    total = sum(value for _, value in parts)
    if total <= 0 or largest <= 0:
        return Markup("")
    length = max(width * min(total / largest, 1.0), 3.0)
    left = 0.0
    drawn = ""
    for state, value in parts:
        if value <= 0:
            continue
        part = length * value / total
        drawn += (
            f'<rect class="s-{state}" x="{left:.1f}" y="0" width="{max(part, 0.8):.1f}"'
            f' height="{height}"/>'
        )
        left += part
    words = ", ".join(f"{value:,} {state}" for state, value in parts if value)
    return trusted(
        f'<svg class="mix" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{words}">{drawn}</svg>'
    )


class Icons:
    """Icons out of the sprite at one address. Names and states are our own words, never a job's."""

    def __init__(self, sprite: str) -> None:
        self._sprite = escaped(sprite)

    def icon(self, name: str) -> Markup:
        """Return a picture beside a word that says the same."""
        return trusted(
            f'<svg class="icon" aria-hidden="true"><use href="{self._sprite}#{name}"/></svg>'
        )

    def state_icon(self, state: str) -> Markup:
        """Return a state as a picture alone, in its colour."""
        return trusted(
            f'<svg class="icon s-{state}" role="img" aria-label="{state}"><title>{state}</title>'
            f'<use href="{self._sprite}#{STATE_ICONS[state]}"/></svg>'
        )

    def state_badge(self, state: str) -> Markup:
        """Return a state as picture and word."""
        return trusted(
            f'<span class="badge s-{state}">{self.icon(STATE_ICONS[state])}{state}</span>'
        )
