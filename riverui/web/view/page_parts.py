"""Small records that the pages of several sections hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One entry of a menu that is a link."""

    value: str
    label: str
    url: str
    current: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something went wrong in a region: what, and what to do about it."""

    title: str
    detail: str = ""
