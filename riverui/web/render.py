"""From a page's dataclass to an answer: the whole page, the fragment that htmx named, or a notice."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from riverui import __version__
from riverui.assets import TEMPLATES
from riverui.web import charts, documents, format as shown, notices
from riverui.web.access import access as who
from riverui.web.dashboard import dashboard, visit
from riverui.web.htmx import VARY, htmx
from riverui.web.notices import Notice
from riverui.web.pages.errors import ErrorShow
from riverui.web.preferences import LIVE_SECONDS, PAGE_SIZES, THEMES, TIMES, Preferences, preferences
from riverui.web.urls import url

_NAV = (
    ("jobs", "Jobs", "jobs.index", "jobs.read", "layers", "g j"),
    ("queues", "Queues", "queues.index", "queues.read", "inbox", "g q"),
    ("operations", "Operations", "operations.index", "jobs.read", "list-checks", ""),
    ("about", "About", "about", "about.read", "info", ""),
)
"""Section, label, route, right, icon and keys of each entry of the navigation."""


class Page(Protocol):
    """What every page's dataclass says about itself."""

    template: ClassVar[str]
    fragments: ClassVar[Mapping[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class NavEntry:
    """One entry of the navigation."""

    section: str
    label: str
    url: str
    icon: str
    keys: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Shell:
    """What stands around every page."""

    base: str
    nav: tuple[NavEntry, ...]
    env_name: str
    env_color: str
    user: str
    signed_in: bool
    read_only: bool
    version: str
    database: str
    schema: str
    preferences: Preferences
    notices: tuple[Notice, ...]
    here: str
    """The address that a preferences form comes back to."""
    now: datetime
    """The server's clock, for browsers whose own is wrong."""
    live_choices: tuple[int, ...] = LIVE_SECONDS
    page_sizes: tuple[int, ...] = PAGE_SIZES
    themes: tuple[str, ...] = THEMES
    times: tuple[str, ...] = TIMES


class _Sprite:
    """The address of the icons for the page being rendered.

    Icons are everywhere: without a context to import, Jinja makes their macros once instead of each time.
    """

    def __str__(self) -> str:
        return _SPRITE.get()


_SPRITE: ContextVar[str] = ContextVar("sprite")


def environment() -> Environment:
    """The Jinja environment: everything escaped, every unknown name an error."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    env.filters |= {
        "compact": shown.compact,
        "count": shown.count,
        "count_text": shown.count_text,
        "duration": shown.duration,
        "json_tree": documents.json_tree,
        "log": documents.log,
        "number": shown.number,
        "plain": shown.plain,
        "short": shown.short,
        "size": shown.size,
        "trace": documents.trace,
        "visible": shown.visible,
        "word": shown.word,
    }
    env.globals |= {"sprite": _Sprite(), "stacked_bar": charts.stacked_bar}
    return env


def respond(
    request: Request, page: Page, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The page, or only the fragment that htmx names among `page.fragments`."""
    fragment = page.fragments.get(htmx(request).target, "")
    shell = _shell(request, whole=not fragment)
    html = (
        dashboard(request)
        .environment.get_template(fragment or page.template)
        .render(_context(request, shell, page=page, fragment=bool(fragment)))
    )
    response = HTMLResponse(html, status_code=status, headers={"Vary": VARY, **(headers or {})})
    if shell.notices:
        notices.clear(request, response)
    return response


def done(request: Request, notice: Notice, *, next: str, changed: str = "") -> Response:
    """Answers a POST that did its work.

    htmx gets the notice and `HX-Trigger: <changed>-changed`, so that live regions fetch themselves again. A
    plain form is sent to `next` (checked by the caller) with the notice kept; so is htmx where `next` is
    another page than the one the person is on.
    """
    asked = htmx(request)
    if asked.request and asked.current_path == urlsplit(next).path:
        return _notice_response(
            request, notice, headers={"HX-Trigger": f"{changed}-changed"} if changed else {}
        )
    headers = {"Vary": VARY}
    if asked.request:
        response: Response = Response(status_code=200, headers={"HX-Redirect": next, **headers})
    else:
        response = RedirectResponse(next, status_code=303, headers=headers)
    notices.keep(request, response, notice)
    return response


def fail(
    request: Request, page: ErrorShow, *, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Answers a request that failed: a page of its own, or for htmx a notice, so that no page disappears."""
    if not htmx(request).request:
        return respond(request, page, status=status, headers=headers)
    details = tuple(text for text in (page.detail, page.command and f"Run {page.command}") if text)
    notice = Notice(level="error", title=page.title, details=details)
    return _notice_response(request, notice, status=status, headers=headers or {})


def _notice_response(
    request: Request, notice: Notice, *, headers: Mapping[str, str], status: int = 200
) -> Response:
    html = dashboard(request).environment.get_template("_notice.html").render(notice=notice)
    # The notice goes into the shell wherever the form that was sent wanted its answer.
    place = {"HX-Retarget": "#notices", "HX-Reswap": "beforeend", "HX-Push-Url": "false", "Vary": VARY}
    return HTMLResponse(html, status_code=status, headers={**place, **headers})


def _shell(request: Request, *, whole: bool) -> Shell:
    board, here = dashboard(request), visit(request)
    access = who(request)
    config = board.config
    path, query = quote(request.scope["path"], safe="/~@:!$&'()*+,;="), request.url.query
    return Shell(
        base=here.base,
        nav=tuple(
            NavEntry(section=section, label=label, url=url(request, route), icon=icon, keys=keys)
            for section, label, route, right, icon, keys in _NAV
            if whole and access.may(right)
        ),
        env_name=config.env_name,
        env_color=config.env_color or "grey",
        user=access.user,
        signed_in=here.access is not None,
        read_only=config.read_only,
        version=__version__,
        database=board.driver.database,
        schema=board.driver.schema_in_use,
        preferences=preferences(request),
        notices=notices.take(request) if whole else (),
        here=f"{path}?{query}" if query else path,
        now=datetime.now(UTC),
    )


def _context(request: Request, shell: Shell, **more: Any) -> dict[str, Any]:
    board = dashboard(request)
    _SPRITE.set(board.static.url(request, "icons.svg"))
    access = who(request)
    times = shown.Times(now=shell.now, mode=shell.preferences.time)
    return {
        "shell": shell,
        "url": lambda name, **params: url(request, name, **params),
        "static": lambda path: board.static.url(request, path),
        "may": access.may,
        "ago": times.ago,
        "since": times.since,
        "job_rows": times.job_rows,
        **more,
    }
