"""What sections add to the pages of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from starlette.requests import HTTPConnection, Request

from riverui.domain.jobs import JobShowRow
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.params import Term


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCard:
    """A card on the page of a job."""

    template: str
    """Renders `card`, the result of `read`."""
    read: Callable[[Request, JobShowRow], Awaitable[object | None]]
    """Returns the card of a job; None for no card."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindCard:
    """A card on the page of a kind."""

    template: str
    """Renders `card`, the result of `read`."""
    read: Callable[[Request, str], Awaitable[object | None]]
    """Returns the card of a kind; None for no card."""


class PaletteEntry(NamedTuple):
    """An entry of the palette."""

    label: str
    """May be a job's text."""
    url: str
    icon: str
    """Name of a symbol in static/icons.svg."""
    hint: str
    """What it is: a queue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaletteSource:
    """What a section offers in the palette."""

    right: str
    """The right that viewers need to be offered it."""
    find: Callable[[Request, str], Awaitable[Sequence[PaletteEntry]]]
    """Returns a few entries, the best first, for a typed text, which is not empty; none if they
    cannot be read within a second.
    """


MAX_SOURCE = 5
"""Entries that a section offers at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened, for the timeline."""

    at: datetime
    icon: str
    words: str
    name: str = ""
    """The queue or client that it is about, which the words follow."""
    user: str = ""
    """Who did it; empty if nobody did, or if that is not known."""
    url: str = ""
    """Where to read more."""
    deed: bool = False
    """Whether a person did it."""
    election: bool = False
    """Whether a client was elected leader."""


EventReader = Callable[[Request, datetime, datetime], Awaitable[Sequence[Event]]]
"""Returns what happened from one time on and before another, as far as the viewer may know. May
raise DatabaseError.
"""


class AttemptsLink(NamedTuple):
    """A link beside the attempts of a job."""

    label: str
    url: str
    hint: str


class JobGroup(NamedTuple):
    """Jobs that a section finds by the name of their group, for a bulk action."""

    term: Term
    title: str
    """Which jobs they are, in words that follow “3 jobs”."""


UndoFields = Sequence[tuple[str, str]]
"""Names and values; empty if nothing can be undone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobKeeping:
    """Keeps deleted jobs, so that they can be put back."""

    effect: tuple[str, str]
    """What deleting does to one job, and to several, in sentences."""
    ready: Callable[[HTTPConnection], Awaitable[bool]]
    """Return whether jobs can be kept."""
    delete: Callable[[Request, Sequence[int]], Awaitable[tuple[JobChanges, UndoFields]]]
    """Delete jobs and keep them; return the changes, and fields of the form that undoes them."""
    undo_route: str
    """The route that the form is posted to."""
    page: Callable[[Request, int], Awaitable[str]]
    """Return the page of a job that was deleted; empty if it is not kept."""
