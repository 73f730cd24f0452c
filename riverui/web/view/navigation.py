"""What the frame around every page shows of a section: its place in the navigation, its keys."""

from __future__ import annotations

from msgspec import Struct


class NavEntry(Struct, frozen=True, kw_only=True):
    """An entry of the navigation, for those who hold its right."""

    label: str
    route: str
    """Name of the route that it leads to."""
    right: str
    icon: str
    """Name of a symbol in static/icons.svg."""
    needs_tables: bool = False
    """Whether there is no entry where the tables of riverui are missing."""
    keys: str = ""
    """Keys that lead there, one after the other, such as `g j`."""


class Shortcut(Struct, frozen=True, kw_only=True):
    """A line of the help page: keys, and what they do."""

    keys: tuple[str, ...]
    does: str
