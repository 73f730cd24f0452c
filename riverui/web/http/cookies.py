"""State kept in the browser: signed cookies that scripts cannot read.

Preferences are among them, so that the first paint of a page is already right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from riverui.web.http.context import Service, dashboard
from riverui.web.http.request_context import base_path, request_context
from riverui.web.view.preferences import Preferences, choose

_PURPOSE = "preferences"
"""The suffix of the cookie's name, and the salt of its signature."""
_YEAR_SECONDS = 365 * 24 * 3600
"""How long preferences are kept: longer than anyone stays away from a dashboard in use."""

_REMEMBERED = 10_000
"""Parsed cookies that are cached: more than a process has viewers, in some 10 MB."""


def preferences(request: Request) -> Preferences:
    """Return this browser's preferences; anything missing, forged or out of range gets
    its default.
    """
    context = request_context(request)
    if context.preferences is None:
        context.preferences = _read(request)
    return context.preferences


def _read(request: Request) -> Preferences:
    cookie = request.cookies.get(cookie_name(request, _PURPOSE))
    if not cookie:
        return Preferences()
    try:
        return dashboard(request).get(_READER)(cookie)
    except BadData:
        return Preferences()


def _preferences_reader(signer: URLSafeTimedSerializer) -> Callable[[str], Preferences]:
    """Return a function that verifies and parses a cookie and caches recent results, as live
    regions send theirs all the time. It raises BadData for a cookie that is not ours.
    """

    @lru_cache(maxsize=_REMEMBERED)
    def read(cookie: str) -> Preferences:
        kept = signer.loads(cookie, max_age=_YEAR_SECONDS, salt=_PURPOSE)
        return choose(kept if isinstance(kept, dict) else {})

    return read


_READER = Service(make=lambda board: _preferences_reader(board.signer))


def write_preferences(request: Request, response: Response, preferences: Preferences) -> None:
    """Store these preferences for a year in a cookie of this dashboard's own paths."""
    cookie = dashboard(request).signer.dumps(asdict(preferences), salt=_PURPOSE)
    assert isinstance(cookie, str)
    set_cookie(request, response, _PURPOSE, cookie, max_age=_YEAR_SECONDS)


def cookie_name(request: HTTPConnection, purpose: str, *, base: str | None = None) -> str:
    """Return a cookie name that is unique per dashboard on a host: browsers also send cookies of
    `/` to `/river`. `base` is the base path, for use before the gate has set it.
    """
    base = base_path(request) if base is None else base
    return f"riverui{''.join(char if char.isalnum() else '-' for char in base)}_{purpose}"


def set_cookie(
    request: HTTPConnection,
    response: Response,
    purpose: str,
    value: str,
    *,
    max_age: int,
    base: str | None = None,
) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send along; `max_age` is in
    seconds. `base` is as for `cookie_name`.
    """
    response.set_cookie(
        cookie_name(request, purpose, base=base),
        value,
        max_age=max_age,
        path=(base_path(request) if base is None else base) or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
