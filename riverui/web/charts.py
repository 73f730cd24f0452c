"""Small pictures drawn by the server as SVG: no script, coloured by classes, told in words for readers."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup


def stacked_bar(
    parts: Sequence[tuple[str, int]], largest: int, *, width: int = 96, height: int = 8
) -> Markup:
    """Shares of a total as one bar, as long as the total is beside `largest`, coloured by state."""
    total = sum(value for _, value in parts)
    if total <= 0 or largest <= 0:
        return Markup("")
    length = max(width * min(total / largest, 1.0), 3.0)
    left = 0.0
    drawn: list[Markup] = []
    for state, value in parts:
        if value <= 0:
            continue
        part = length * value / total
        drawn.append(
            Markup('<rect class="s-{}" x="{}" y="0" width="{}" height="{}"/>').format(
                state, f"{left:.1f}", f"{max(part, 0.8):.1f}", height
            )
        )
        left += part
    words = ", ".join(f"{value:,} {state}" for state, value in parts if value)
    return Markup(
        '<svg class="mix" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(width, height, width, height, words, Markup("").join(drawn))
