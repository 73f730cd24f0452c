"""Small records used by the pages of several sections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A menu entry that is a link."""

    value: str
    label: str
    url: str
    current: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """An error shown in a region: what happened, and what to do about it."""

    title: str
    detail: str = ""
