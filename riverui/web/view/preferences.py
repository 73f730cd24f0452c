"""What each browser prefers, kept in one signed cookie so that the first paint is already right."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from itsdangerous import BadData
from starlette.requests import Request
from starlette.responses import Response

from riverui.web.http.context import dashboard, visit
from riverui.web.http.urls import base_path

THEMES = ("system", "light", "dark")
TIMES = ("relative", "local", "utc")
LIVE_SECONDS = (0, 1, 2, 5, 10, 30, 60)
PAGE_SIZES = (20, 50, 100, 200)

_YEAR_SECONDS = 365 * 24 * 3600
_SALT = "preferences"


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """One browser's choices; unknown or forged values fall back to these."""

    theme: str = "system"
    time: str = "relative"
    live: int = 2
    """Seconds between live updates; 0 is off."""
    limit: int = 100
    show_args: bool | None = None
    """None follows the server's default."""


def preferences(request: Request) -> Preferences:
    """This browser's choices; whatever is missing, forged or out of range is the default."""
    seen = visit(request)
    if seen.preferences is None:
        seen.preferences = _read(request)
    return seen.preferences


def _read(request: Request) -> Preferences:
    cookie = request.cookies.get(cookie_name(request, "preferences"))
    if not cookie:
        return Preferences()
    try:
        kept = dashboard(request).signer.loads(cookie, max_age=_YEAR_SECONDS, salt=_SALT)
    except BadData:
        return Preferences()
    return choose(kept if isinstance(kept, dict) else {})


def choose(kept: dict[str, object]) -> Preferences:
    """Preferences from a mapping, taking only values that may be chosen."""
    plain = Preferences()
    theme, time, live, limit, show_args = (
        kept.get(key) for key in ("theme", "time", "live", "limit", "show_args")
    )
    return Preferences(
        theme=theme if isinstance(theme, str) and theme in THEMES else plain.theme,
        time=time if isinstance(time, str) and time in TIMES else plain.time,
        live=live if type(live) is int and live in LIVE_SECONDS else plain.live,
        limit=limit if type(limit) is int and limit in PAGE_SIZES else plain.limit,
        show_args=show_args if isinstance(show_args, bool) else plain.show_args,
    )


def write_preferences(request: Request, response: Response, preferences: Preferences) -> None:
    """Keeps these choices for a year in a cookie of this dashboard's own paths."""
    cookie = dashboard(request).signer.dumps(asdict(preferences), salt=_SALT)
    assert isinstance(cookie, str)
    set_cookie(request, response, "preferences", cookie, max_age=_YEAR_SECONDS)


def cookie_name(request: Request, purpose: str) -> str:
    """A name of its own for each dashboard on a host: browsers send `/` cookies to `/river` too."""
    base = "".join(char if char.isalnum() else "-" for char in base_path(request))
    return f"riverui{base}_{purpose}"


def set_cookie(
    request: Request, response: Response, purpose: str, value: str, *, max_age: int
) -> None:
    """A cookie that scripts cannot read and other sites cannot send along."""
    response.set_cookie(
        cookie_name(request, purpose),
        value,
        max_age=max_age,
        path=base_path(request) or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
