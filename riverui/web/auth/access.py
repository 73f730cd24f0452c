"""What whoever asks may do here and now."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import HTTPConnection

from riverui.errors import Forbidden, ReadOnlyDatabase
from riverui.web.auth.viewer import NOBODY, Viewer, reading
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import request_context

SIGNED_IN = "signed in"
"""Marks a route that any person may use who was let in at all."""
PUBLIC = "public"
"""Marks a route that answers before anyone signed in."""


def access(request: HTTPConnection) -> Viewer:
    """Return who is asking; NOBODY on public routes and before sign-in. Nobody may change a
    database that is read-only.
    """
    found = request_context(request).access or NOBODY
    if dashboard(request).driver.read_only:
        return replace(found, rights=reading(found.rights))
    return found


def need(request: HTTPConnection, right: str) -> None:
    """Raise Forbidden unless whoever asks holds the right (or the route needs none),
    ReadOnlyDatabase where it is the database that takes no changes.
    """
    if right in (SIGNED_IN, PUBLIC) or access(request).may(right):
        return
    board = dashboard(request)
    if (request_context(request).access or NOBODY).may(right):
        raise ReadOnlyDatabase(board.driver.read_only)
    raise Forbidden(f"You may not {board.sections.rights[right]}.")
