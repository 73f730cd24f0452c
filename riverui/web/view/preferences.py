"""The preferences of a browser."""

from __future__ import annotations

from dataclasses import dataclass

THEMES = ("system", "light", "dark")
TIMES = ("relative", "local", "utc")
LIVE_SECONDS = (0, 1, 2, 5, 10, 30, 60)
"""Intervals of live updates, in seconds; 0 is off."""
PAGE_SIZES = (20, 50, 100, 200)
"""Jobs on one page of a list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """The preferences of one browser; unknown or forged values fall back to these defaults."""

    theme: str = "system"
    time: str = "relative"
    live: int = 2
    """Seconds between live updates; 0 is off."""
    limit: int = 100
    show_args: bool | None = None
    """None follows the server's default."""
    columns: tuple[str, ...] = ()
    """Names of the columns of the job list, as `search.columns` reads them; empty for the standard
    columns.
    """


def choose(kept: dict[str, object]) -> Preferences:
    """Return preferences from a mapping, ignoring invalid values."""
    default = Preferences()
    theme, time, live, limit, show_args, columns = (
        kept.get(key) for key in ("theme", "time", "live", "limit", "show_args", "columns")
    )
    if not isinstance(columns, list | tuple) or not all(isinstance(name, str) for name in columns):
        columns = default.columns
    return Preferences(
        theme=theme if isinstance(theme, str) and theme in THEMES else default.theme,
        time=time if isinstance(time, str) and time in TIMES else default.time,
        live=live if type(live) is int and live in LIVE_SECONDS else default.live,
        limit=limit if type(limit) is int and limit in PAGE_SIZES else default.limit,
        show_args=show_args if isinstance(show_args, bool) else default.show_args,
        columns=tuple(columns),
    )
