"""What the current user may do."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import HTTPConnection

from riverui.errors import Forbidden, ReadOnlyDatabase
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import NOBODY, Viewer, reading, request_context

SIGNED_IN = "signed in"
"""Marks a route that is open to every signed-in person."""
PUBLIC = "public"
"""Marks a route that is open without sign-in."""


def access(request: HTTPConnection) -> Viewer:
    """Return who sent the request; NOBODY on public routes and before sign-in. On a read-only
    database, the rights to change something are removed.
    """
    found = request_context(request).access or NOBODY
    if dashboard(request).driver.read_only:
        return replace(found, rights=reading(found.rights))
    return found


def need(request: HTTPConnection, right: str) -> None:
    """Raise Forbidden unless the user holds the right (or the route needs none), ReadOnlyDatabase
    if the database accepts no changes.
    """
    if right in (SIGNED_IN, PUBLIC) or access(request).may(right):
        return
    board = dashboard(request)
    if (request_context(request).access or NOBODY).may(right):
        raise ReadOnlyDatabase(board.driver.read_only)
    raise Forbidden(f"You may not {board.sections.rights[right]}.")
