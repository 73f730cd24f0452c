"""Marks: moments that charts show, such as a deploy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A moment that charts mark, such as a deploy, to the minute."""

    at: datetime
    label: str
    """In a few words, such as v1.4.2."""
    release: str = ""
    """The deployed version or commit, as workers report it; empty if none was reported."""
    url: str = ""
    """Where to read more; empty, or an address of http or https."""
    user: str = ""
    """The person who made it, or the first client of the release."""
