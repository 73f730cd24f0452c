"""What a section of the dashboard is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from riverui.web.http.routes import GuardedRoute
from riverui.web.view.job_cards import JobCard
from riverui.web.view.navigation import NavEntry, Shortcut


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One section: its record stands in the `__init__.py` of its folder, its pages and handlers
    beside it.
    """

    name: str
    """Its folder in templates, and what the names of its routes begin
    with.
    """
    navigation: NavEntry | None = None
    """Its entry of the navigation; None for a section without pages of its own."""
    routes: tuple[GuardedRoute, ...] = ()
    """Addresses of pages. Where several fit, the first of them answers."""
    api: tuple[GuardedRoute, ...] = ()
    """Addresses for programs, all of them under /api (or /metrics), each an `Endpoint`."""
    rights: Mapping[str, str] = field(default_factory=dict)
    """Rights that it brings, and what each lets one do, in words that go on from “You may”. Those
    that end with `.read` are all that a read-only dashboard leaves.
    """
    shortcuts: tuple[Shortcut, ...] = ()
    """Keys of its pages for the help page, besides those of its navigation entry."""
    template_globals: Mapping[str, Any] = field(default_factory=dict)
    """Names that its templates may use besides those of riverui.web.view.render."""
    job_cards: tuple[JobCard, ...] = ()
    """What it adds to the page of a job."""
