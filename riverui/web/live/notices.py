"""Notices: what an action did, shown on the next page. A signed cookie carries them
across a redirect.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from itsdangerous import BadData
from starlette.requests import Request
from starlette.responses import Response

from riverui.web.http.context import dashboard
from riverui.web.http.cookies import cookie_name, set_cookie

LEVELS = ("info", "success", "warning", "error")

_PURPOSE = "notice"
"""The suffix of the cookie's name, and the salt of its signature."""
_SECONDS = 60
"""How long a notice waits for the page that shows it: a redirect takes less."""
_DETAILS = 5
"""Most details of a notice."""
_TEXT = 300
"""Characters of each text of a notice: a cookie holds some 4,000 bytes."""


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


def keep(request: Request, response: Response, notice: Notice) -> None:
    """Put the notice into the cookie, for the next page to show once."""
    short = asdict(notice) | {
        "title": notice.title[:_TEXT],
        "details": [detail[:_TEXT] for detail in notice.details[:_DETAILS]],
    }
    cookie = dashboard(request).signer.dumps(short, salt=_PURPOSE)
    set_cookie(request, response, _PURPOSE, str(cookie), max_age=_SECONDS)


def take(request: Request) -> tuple[Notice, ...]:
    """Return the notice in the cookie; empty if it is missing, old or forged."""
    if not (cookie := request.cookies.get(cookie_name(request, _PURPOSE))):
        return ()
    try:
        kept = dashboard(request).signer.loads(cookie, salt=_PURPOSE, max_age=_SECONDS)
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


def clear(request: Request, response: Response) -> None:
    """Delete the cookie, so that a notice is shown once."""
    set_cookie(request, response, _PURPOSE, "", max_age=0)
