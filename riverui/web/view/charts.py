"""Small SVG charts rendered on the server: no script, coloured by classes, with text for screen
readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from riverui.web.view.format import trusted

_SLOTS = 20
"""Most slots drawn individually: more are drawn as one bar."""
_SLOTS_WIDTH = 160.0
"""Width of that bar in CSS pixels: it fits beside a queue's name in a card."""
_SLOT, _SLOT_GAP = 10.0, 2.0
"""Width of a slot and of the gap between two, in CSS pixels."""


def stacked_bar(
    parts: Sequence[tuple[str, int]], largest: int, *, width: int = 96, height: int = 8
) -> Markup:
    """Return a bar of the parts of a total, coloured by state, whose length is the total's share of
    `largest`. States are constants, never a job's text.
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


def slot_bar(taken: int, most: int, label: str = "slots taken") -> Markup:
    """Return a bar of used slots; `label` names them for screen readers."""
    taken = max(0, min(taken, most))
    if most <= 0:
        return Markup("")
    if most <= _SLOTS:
        parts = [(_SLOT, n < taken) for n in range(most)]
    else:
        parts = [(_SLOTS_WIDTH * taken / most, True), (_SLOTS_WIDTH * (most - taken) / most, False)]
    left, drawn = 0.0, ""
    for width, is_taken in parts:
        if width > 0:
            drawn += (
                f'<rect class="{"taken" if is_taken else "free"}" x="{left:.1f}" y="0"'
                f' width="{width:.1f}" height="{_SLOT:.0f}" rx="1.5"/>'
            )
            left += width + (_SLOT_GAP if most <= _SLOTS else 0)
    words = f"{taken:,} of {most:,} {label}"
    return trusted(
        f'<svg class="slots" viewBox="0 0 {left:.0f} {_SLOT:.0f}" width="{left:.0f}"'
        f' height="{_SLOT:.0f}" preserveAspectRatio="none" role="img" aria-label="{words}">'
        f"{drawn}</svg>"
    )
