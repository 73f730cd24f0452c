"""A section in the frame of every page: its navigation entry and its keys."""

from __future__ import annotations

from msgspec import Struct

from riverui.storage.store import Store


class NavEntry(Struct, frozen=True, kw_only=True):
    """An entry of the navigation, for viewers with its right."""

    label: str
    route: str
    """Name of the route that it links to."""
    right: str
    icon: str
    """Name of a symbol in static/icons.svg."""
    store: type[Store] | None = None
    """Without whose tables and statements the entry is hidden; None to show it always."""
    keys: str = ""
    """Keys that open it, pressed in turn, such as `g j`."""
    phone: bool = False
    """Whether it stands in the bar of phones, which holds four, and not below More."""


class Shortcut(Struct, frozen=True, kw_only=True):
    """A line of the help page: keys, and what they do."""

    keys: tuple[str, ...]
    does: str
