"""Where pages, charts and reports get their figures from, however those were gathered."""

from __future__ import annotations

from typing import Protocol

from riverui.domain.figures import Figures, Window


class FigureReader(Protocol):
    """Tells figures; the collector of a dashboard is one."""

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind where they are named.

        Answers at once with what is known: it starts the collector where it rests, and waits for
        a first reading a second at most. Never raises for the database's sake: `Figures.trouble`
        tells.
        """
        ...

    async def close(self) -> None:
        """Stop what runs in the background."""
        ...
