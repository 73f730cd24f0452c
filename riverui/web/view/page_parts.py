"""Small records used by the pages of several sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A menu entry that is a link."""

    value: str
    label: str
    url: str
    current: bool = False


def order_choices(
    orders: Mapping[str, tuple[str, object]], current: str, url: Callable[[str], str]
) -> tuple[Choice, ...]:
    """Return the menu of a list's orders, whose labels come first in `orders`; `url` returns the
    address of the list in an order.
    """
    return tuple(
        Choice(value=value, label=label, url=url(value), current=value == current)
        for value, (label, _) in orders.items()
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """An error shown in a region: what happened, and what to do about it."""

    title: str
    detail: str = ""
