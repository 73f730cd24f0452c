"""Cards that sections add to the page of a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request

from riverui.domain.jobs import JobShowRow


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCard:
    """A card on the page of a job."""

    template: str
    """Draws `card`, what `read` returned."""
    read: Callable[[Request, JobShowRow], Awaitable[object | None]]
    """Return what to draw for a job; None for no card."""
