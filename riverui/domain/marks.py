"""Marks: moments that charts show, such as a deploy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """One moment, to the minute, and what happened then."""

    at: datetime
    label: str
    """In a few words, such as v1.4.2."""
    release: str = ""
    """What was deployed, as workers tell it: a version or a commit; empty where nobody told."""
    url: str = ""
    """Where to read more; empty, or an address of http or https."""
    user: str = ""
    """Who made it: a person, or the client that was the first of its release."""
