"""Searches that no index serves: they go on step by step, driven by the page that shows them.

A step is one bounded request; where the next one begins, and what was found so far, travels in its
address. The server keeps only who searches just now, so that one viewer has one such search and a
process few.
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
from riverui.web.http.request_context import request_context
from riverui.web.http.urls import url
from riverui.web.live.counts import Snapshot
from riverui.web.search.addresses import Listing, list_url
from riverui.web.view.format import count_text

_MOST_SEARCHES = 3
"""Searches at once in one process: each keeps a connection of the pool busy about half of the time.
"""
_SILENT = 5.0
"""Seconds without a step after which its page is taken for closed: steps are a second apart at
most, unless the browser slows down a tab that nobody sees.
"""


class Going(StrEnum):
    """How a search stands: FULL is its page, ENDED the whole search, BY_HAND takes each step on
    request.
    """

    GOING = "going"
    WAITING = "waiting"
    STOPPED = "stopped"
    BY_HAND = "by_hand"
    FULL = "full"
    ENDED = "ended"


class Turn(StrEnum):
    """Whether a search may take its next step."""

    TAKEN = "taken"
    BUSY = "busy"
    OVERTAKEN = "overtaken"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchProgress:
    """What a search has behind it, as its address tells."""

    search: str
    """Names the search while it goes on."""
    looked: int
    """Jobs looked at."""
    found: int
    """Jobs found and shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchNote:
    """The list is the result of a search by steps: how far it has come, and the address of the next
    step.
    """

    state: Going
    looked: str
    """Jobs looked at, as "150,000", or "1.2M of ≈ 10M" where it is known how many there are."""
    share: float | None
    """How much of all that is, from 0 to 1; None where that is not known."""
    found: int
    further_url: str | None
    """What follows as a page of its own, for browsers without script."""
    step_url: str
    begin_url: str
    """The next step of a search that was stopped."""
    reason: str = ""
    """Why the server stopped it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lease:
    search: str
    until: float


class Searches:
    """The searches that go on just now in this process."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        """Tells seconds since some moment, without ever going back."""
        self._leases: dict[str, _Lease] = {}

    def turn(self, viewer: str, search: str, *, begin: bool, step: float) -> Turn:
        """Say whether this search may take a step of at most `step` seconds.

        A search that begins takes the place of the viewer's earlier one, which is OVERTAKEN from
        then on.
        """
        now = self._clock()
        self._leases = {name: lease for name, lease in self._leases.items() if lease.until > now}
        held = self._leases.get(viewer)
        if held is None and len(self._leases) >= _MOST_SEARCHES:
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
    """Return the note of a page whose window ended before it was full.

    Backwards it goes on by hand only: what is found there belongs above what is shown.
    """
    # Whoever goes on has the search under this name.
    request_context(request).shared = False
    progress = SearchProgress(search=secrets.token_hex(4), looked=searched.rows, found=found)
    state = Going.BY_HAND if searched.resume.before else Going.GOING
    return note(request, listing, searched, progress, snapshot, state=state, begin=True)


def note(
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
    """Return how far the search has come, with the address of what follows."""
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
    """Return how many jobs the whole search has to look at: by id all there are, by time those of
    its states.
    """
    states: tuple[JobState, ...] = ()
    if listing.order in (JobOrder.TIME, JobOrder.TIME_DESC):
        states = listing.states
    return snapshot.total(states)


def _looked(looked: int, everything: Count | None) -> tuple[str, float | None]:
    """Return the jobs looked at in words, and their share of all."""
    words = count_text(Count(value=looked))
    # By time, the windows of several states overlap: then it may have looked more often than there
    # are jobs.
    if everything is None or everything.value <= looked:
        return words, None
    return f"{words} of {count_text(everything)}", looked / everything.value
