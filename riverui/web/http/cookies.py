"""State kept in the browser, in signed cookies that scripts cannot read.

Preferences, so that the first paint of a page is already right, and the notice of an action, for
the next page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import NamedTuple

from itsdangerous import BadData, URLSafeTimedSerializer
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from riverui.web.http.context import Service, dashboard
from riverui.web.http.request_context import base_path, request_context
from riverui.web.view.preferences import Preferences, choose

_PREFERENCES = "preferences"
"""The suffix of the cookie's name, and the salt of its signature."""
_YEAR_SECONDS = 365 * 24 * 3600
"""How long preferences are kept: longer than anyone stays away from a dashboard in use."""

_REMEMBERED = 10_000
"""Parsed cookies that are cached: more than a process has viewers, in some 10 MB."""

LEVELS = ("info", "success", "warning", "error")

_NOTICE = "notice"
"""The suffix of the cookie's name, and the salt of its signature."""
_NOTICE_SECONDS = 60
"""How long a notice waits for the page that shows it: a redirect takes less."""
_NOTICE_DETAILS = 5
"""Most details of a notice."""
_NOTICE_TEXT = 300
"""Characters of each text of a notice: a cookie holds some 4,000 bytes."""


def preferences(request: Request) -> Preferences:
    """Return this browser's preferences; anything missing, forged or out of range gets
    its default.
    """
    context = request_context(request)
    if context.preferences is None:
        context.preferences = _read(request)
    return context.preferences


def _read(request: Request) -> Preferences:
    cookie = request.cookies.get(cookie_name(request, _PREFERENCES))
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
        kept = signer.loads(cookie, max_age=_YEAR_SECONDS, salt=_PREFERENCES)
        return choose(kept if isinstance(kept, dict) else {})

    return read


_READER = Service(make=lambda board: _preferences_reader(board.signer))


def write_preferences(request: Request, response: Response, preferences: Preferences) -> None:
    """Store these preferences for a year in a cookie of this dashboard's own paths."""
    cookie = dashboard(request).signer.dumps(asdict(preferences), salt=_PREFERENCES)
    assert isinstance(cookie, str)
    set_cookie(request, response, _PREFERENCES, cookie, max_age=_YEAR_SECONDS)


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


class NoticeForm(NamedTuple):
    """A button of a notice, such as one to undo the action."""

    label: str
    address: str
    """The path it posts to, one of ours."""
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One message: what happened, and the next step if there is one."""

    level: str
    """info, success, warning or error."""
    title: str
    details: tuple[str, ...] = ()
    link: tuple[str, str] | None = None
    """Label and address, a path of ours."""
    undo: NoticeForm | None = None


def keep_notice(request: Request, response: Response, notice: Notice) -> None:
    """Put the notice into the cookie, for the next page to show once."""
    short = asdict(notice) | {
        "title": notice.title[:_NOTICE_TEXT],
        "details": [detail[:_NOTICE_TEXT] for detail in notice.details[:_NOTICE_DETAILS]],
    }
    cookie = dashboard(request).signer.dumps(short, salt=_NOTICE)
    set_cookie(request, response, _NOTICE, str(cookie), max_age=_NOTICE_SECONDS)


def take_notices(request: Request) -> tuple[Notice, ...]:
    """Return the notice in the cookie; empty if it is missing, old or forged."""
    if not (cookie := request.cookies.get(cookie_name(request, _NOTICE))):
        return ()
    try:
        kept = dashboard(request).signer.loads(cookie, salt=_NOTICE, max_age=_NOTICE_SECONDS)
        link, undo = kept["link"], kept.get("undo")
        return (
            Notice(
                level=kept["level"] if kept["level"] in LEVELS else "info",
                title=str(kept["title"]),
                details=tuple(map(str, kept["details"])),
                link=(str(link[0]), str(link[1])) if link else None,
                undo=NoticeForm(
                    str(undo[0]), str(undo[1]), tuple((str(n), str(v)) for n, v in undo[2])
                )
                if undo
                else None,
            ),
        )
    except (BadData, KeyError, IndexError, TypeError):
        return ()


def clear_notice(request: Request, response: Response) -> None:
    """Delete the cookie, so that a notice is shown once."""
    set_cookie(request, response, _NOTICE, "", max_age=0)
