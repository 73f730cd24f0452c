"""Error messages for an invalid address or search text."""

from __future__ import annotations

from riverui.web.search import query
from riverui.web.search.addresses import Listing
from riverui.web.view.format import plain
from riverui.web.view.page_parts import Problem


def listing_problem(listing: Listing) -> Problem | None:
    """Return the error message of a list's address; None if it is valid."""
    if listing.problem:
        return Problem(title="This address is not valid.", detail=listing.problem)
    return search_problem(listing.search)


def search_problem(search: query.Search) -> Problem | None:
    """Return the error message of a search text; None if it is valid."""
    if not search.errors:
        return None
    messages = []
    for error in search.errors[:3]:
        piece = search.text[error.start : error.end].strip()[:40]
        clear = search.too_long or piece in error.message
        messages.append(error.message if clear else f"“{piece}”: {error.message}")
    return Problem(title="This search is not valid.", detail=plain(" ".join(messages)))
