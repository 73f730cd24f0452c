"""Searches without an index: they proceed in steps, driven by the page that shows them.

A step is one bounded request; the position of the next one and the number of jobs found so far are
in its address. The server only remembers who is searching, to allow one such search per viewer and
few per process.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

from starlette.requests import Request

from riverui.domain.jobs import JobState
from riverui.storage.interface.params import Count, JobOrder, SearchedWindow
from riverui.web.http.counts import Snapshot
from riverui.web.http.request_context import request_context, url
from riverui.web.search.addresses import Listing, list_url
from riverui.web.view.format import count_text

_MAX_SEARCHES = 3
"""Most concurrent searches in one process: each uses a connection of the pool about half of the
time.
"""
_SILENT = 5.0
"""Seconds without a step after which its page counts as closed: steps are at most a second apart,
unless the browser throttles a hidden tab.
"""


class Going(StrEnum):
    """The status of a search: FULL if its page is full, ENDED if all was searched, BY_HAND if each
    step is requested by the viewer.
    """

    GOING = "going"
    WAITING = "waiting"
    STOPPED = "stopped"
    BY_HAND = "by_hand"
    FULL = "full"
    ENDED = "ended"


class Turn(StrEnum):
    """Whether a search may take its next step, or why not."""

    TAKEN = "taken"
    BUSY = "busy"
    OVERTAKEN = "overtaken"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchProgress:
    """The progress of a search, as its address holds it."""

    search: str
    """The id of the search."""
    looked: int
    """Jobs searched."""
    found: int
    """Jobs found and shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchNote:
    """The progress of a search in steps, shown with its list, and the address of the next step."""

    state: Going
    looked: str
    """Jobs searched, as "150,000", or "1.2M of ≈ 10M" if their total is known."""
    share: float | None
    """The share of all jobs, from 0 to 1; None if unknown."""
    found: int
    further_url: str | None
    """The address of the next step as a page of its own, for browsers without JavaScript."""
    step_url: str
    begin_url: str
    """The address of the next step of a stopped search."""
    reason: str = ""
    """Why the server stopped it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lease:
    search: str
    until: float


class Searches:
    """The searches in progress in this process."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        """A monotonic clock, in seconds."""
        self._leases: dict[str, _Lease] = {}

    def turn(self, viewer: str, search: str, *, begin: bool, step: float) -> Turn:
        """Return whether this search may take a step of at most `step` seconds.

        A new search replaces the viewer's earlier one, which is OVERTAKEN from then on.
        """
        now = self._clock()
        self._leases = {name: lease for name, lease in self._leases.items() if lease.until > now}
        held = self._leases.get(viewer)
        if held is None and len(self._leases) >= _MAX_SEARCHES:
            return Turn.BUSY
        if held is not None and held.search != search and not begin:
            return Turn.OVERTAKEN
        self._leases[viewer] = _Lease(search=search, until=now + step + _SILENT)
        return Turn.TAKEN

    def rest(self, viewer: str, search: str, *, over: bool) -> None:
        """Note that a step has ended, and whether the whole search has."""
        held = self._leases.get(viewer)
        if held is None or held.search != search:
            return
        if over:
            del self._leases[viewer]
        else:
            self._leases[viewer] = _Lease(search=search, until=self._clock() + _SILENT)


def first_note(
    request: Request, listing: Listing, searched: SearchedWindow, found: int, snapshot: Snapshot
) -> SearchNote:
    """Return the note of a page whose search window ended before the page was full.

    A backward search continues on request only: its results belong above those shown.
    """
    # The next step continues the search under this id.
    request_context(request).shared = False
    progress = SearchProgress(search=secrets.token_hex(4), looked=searched.rows, found=found)
    state = Going.BY_HAND if searched.resume.before else Going.GOING
    return search_note(request, listing, searched, progress, snapshot, state=state, begin=True)


def search_note(
    request: Request,
    listing: Listing,
    searched: SearchedWindow,
    progress: SearchProgress,
    snapshot: Snapshot,
    *,
    state: Going,
    begin: bool = False,
    reason: str = "",
) -> SearchNote:
    """Return the progress of the search, with the address of the next step."""
    place = listing.query(cursor=searched.resume)
    carried = urlencode(
        {
            "looked": progress.looked,
            "found": progress.found,
            "search": progress.search,
        }
    )
    step_url = f"{url(request, 'jobs.search')}?{place}&{carried}"
    begin_url = f"{step_url}&begin=1"
    looked, share = _looked(progress.looked, _all(listing, snapshot))
    return SearchNote(
        state=state,
        looked=looked,
        share=share,
        found=progress.found,
        further_url=None
        if state in (Going.ENDED, Going.FULL)
        else list_url(request, listing, place),
        step_url=begin_url if begin else step_url,
        begin_url=begin_url,
        reason=reason,
    )


def _all(listing: Listing, snapshot: Snapshot) -> Count | None:
    """Return how many jobs the whole search covers: by id all, by time those of its states."""
    states: tuple[JobState, ...] = ()
    if listing.order in (JobOrder.TIME, JobOrder.TIME_DESC):
        states = listing.states
    return snapshot.total(states)


def _looked(looked: int, everything: Count | None) -> tuple[str, float | None]:
    """Return the number of jobs searched as text, and their share of all."""
    words = count_text(Count(value=looked))
    # By time, the windows of several states overlap: the number searched may exceed the total.
    if everything is None or everything.value <= looked:
        return words, None
    return f"{words} of {count_text(everything)}", looked / everything.value
