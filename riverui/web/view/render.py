"""From a page's dataclass to an answer: the whole page, or the fragment that htmx named."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from riverui import __version__
from riverui.domain.jobs import JsonText
from riverui.domain.sealed_args import args_preview, sealed_args
from riverui.domain.text import client_host
from riverui.storage.interface import SQL
from riverui.web import assets
from riverui.web.http import cookies
from riverui.web.http.context import Service, access as who, dashboard
from riverui.web.http.cookies import Notice, preferences
from riverui.web.http.request_context import VARY, here, htmx, linked, request_context, url
from riverui.web.http.static import STATIC
from riverui.web.view import charts, format as shown, job_table, long_text, tables, time_chart
from riverui.web.view.compiled_templates import CompiledTemplates
from riverui.web.view.histogram import histogram
from riverui.web.view.job_table import JobTable
from riverui.web.view.page_context import PageContext
from riverui.web.view.preferences import (
    LIVE_SECONDS,
    PAGE_SIZES,
    THEMES,
    TIMES,
    Preferences,
)
from riverui.web.view.run_bars import run_bars
from riverui.web.view.tables import Table

_LONGEST_PART = 64 * 1024
"""Longest part that is cached, in characters: no menu is longer, unless its address is huge."""
_ALL_PARTS = 4 * 1024 * 1024
"""Most characters of all cached parts: a hundred addresses of lists, whose menus take some 30,000.
"""


class Page(Protocol):
    """The attributes of every page's dataclass."""

    template: ClassVar[str]
    fragments: ClassVar[Mapping[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class NavLink:
    """One entry of the navigation."""

    section: str
    label: str
    url: str
    icon: str
    keys: str
    phone: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Shell:
    """The frame of every page."""

    base: str
    nav: tuple[NavLink, ...]
    env_name: str
    env_color: str
    user: str
    sign_out: str
    """The address to which the sign-out form is posted; empty for none."""
    signed_in: bool
    read_only: str
    """Why nothing can be changed, as a sentence; empty if changes are possible."""
    replica: str
    """Which server pages are read from, as a sentence; empty without a standby."""
    replica_warns: bool
    """Whether the standby is unavailable or far behind."""
    version: str
    database: str
    """Its name; of a file without its folder."""
    schema: str
    """Empty for a file."""
    preferences: Preferences
    notices: tuple[Notice, ...]
    here: str
    """The address that a preferences form returns to."""
    now: datetime
    """The server's time, for browsers with a wrong clock."""
    live_choices: tuple[int, ...] = LIVE_SECONDS
    page_sizes: tuple[int, ...] = PAGE_SIZES
    themes: tuple[str, ...] = THEMES
    times: tuple[str, ...] = TIMES


_CONTEXT: ContextVar[PageContext] = ContextVar("page_context")
"""The context of the page being rendered. The functions below read it from here instead of the
template's context, so that Jinja can cache imported macros. Creating them for each page costs about
as much as the rest of the shell.
"""


def _ago(at: datetime | None, fine: bool = False) -> str:
    return _CONTEXT.get().times.ago(at, fine=fine)


def _since(at: datetime) -> str:
    return _CONTEXT.get().times.since(at)


def _icon(name: str) -> str:
    return _CONTEXT.get().icons.icon(name)


def _state_icon(state: str) -> str:
    return _CONTEXT.get().icons.state_icon(state)


def _state_badge(state: str) -> str:
    return _CONTEXT.get().icons.state_badge(state)


def _url(name: str, /, **params: Any) -> str:
    return _CONTEXT.get().url(name, **params)


def _linked(name: str, /, **params: Any) -> str:
    return _CONTEXT.get().linked(name, **params)


def _static(path: str) -> str:
    return _CONTEXT.get().static(path)


def _may(right: str) -> bool:
    return _CONTEXT.get().may(right)


def _part(path: str, /, **given: Any) -> str:
    return _CONTEXT.get().part(path, given)


def _job_table(table: JobTable) -> Iterator[str]:
    return job_table.draw(table, _CONTEXT.get())


def _job_rows(table: JobTable) -> Iterator[str]:
    return job_table.draw_rows(table, _CONTEXT.get())


def icons() -> shown.Icons:
    """Return the icons of the page that is rendered."""
    return _CONTEXT.get().icons


def _table(table: Table[Any]) -> str:
    return tables.draw(table, _CONTEXT.get())


class _Environment(Environment):
    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Return a plain dict: Jinja would iterate over its own ChainMap for every import of a
        page.
        """
        return {**self.globals, **(d or {})}


def environment(names: Mapping[str, Any]) -> Environment:
    """Return the Jinja environment: everything is escaped, and unknown names are errors.

    `names` are the globals of sections.
    """
    env = _Environment(
        loader=FileSystemLoader(assets.TEMPLATES),
        bytecode_cache=CompiledTemplates(assets.TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "about": shown.about,
        "count": shown.count,
        "count_text": shown.count_text,
        "duration": shown.duration,
        "estimate": shown.estimate,
        "host": client_host,
        "json_tree": long_text.json_tree,
        "log": long_text.log,
        "newest_error": shown.newest_error,
        "number": shown.number,
        "percent": shown.percent,
        "plain": shown.plain,
        "sealed": _sealed,
        "setting": shown.setting,
        "short": shown.short,
        "size": shown.size,
        "args_preview": args_preview,
        "trace": long_text.trace,
        "visible": shown.visible,
        "word": shown.word,
    }
    env.globals |= {
        "histogram": histogram,
        "run_bars": run_bars,
        "slot_bar": charts.slot_bar,
        "stacked_bar": charts.stacked_bar,
        "state_icons": shown.STATE_ICONS,
        "sparkline": time_chart.sparkline,
        "time_chart": time_chart.time_chart,
    }
    env.globals |= {
        "ago": _ago,
        "icon": _icon,
        "linked": _linked,
        "job_rows": _job_rows,
        "job_table": _job_table,
        "may": _may,
        "part": _part,
        "since": _since,
        "state_badge": _state_badge,
        "state_icon": _state_icon,
        "static": _static,
        "table": _table,
        "url": _url,
        **names,
    }
    return env


async def load_templates(env: Environment) -> None:
    """Load every template, each in its own turn of the event loop, so that the first page is not
    slow.
    """
    for name in env.list_templates(extensions=["html"]):
        env.get_template(name)
        await asyncio.sleep(0)


class Templates:
    """The templates of one dashboard, and its cached parts of pages."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.environment = environment(names)
        self.parts = KeptParts()
        self._loading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Load all templates in the background."""
        self._loading = asyncio.create_task(load_templates(self.environment))

    async def close(self) -> None:
        """Stop loading."""
        if self._loading is not None:
            self._loading.cancel()

    def part(self, path: str, base: str, given: Mapping[str, Any]) -> str:
        """Render a template with these values for this base path, or return it from the cache; see
        PageContext.
        """
        return self.parts.part(
            (path, base, *given.values()),
            lambda: shown.trusted(self.environment.get_template(path).render(given)),
        )


TEMPLATES = Service(
    make=lambda board: Templates(
        {**board.sections.template_globals, "front_cards": board.sections.front_cards}
    ),
    start=Templates.start,
    close=Templates.close,
)


def _sealed(args: JsonText) -> str:
    """Return a note for encrypted args; empty for others."""
    found = sealed_args(args.text, args.size)
    return "" if found is None else found.words


_STANDBY = "Riverui-Standby"
"""Response header with the sentence about the standby for live regions, after a `!` if it is a
warning.
"""


def respond(
    request: Request, page: Page, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with the page, or with the one fragment of `page.fragments` that htmx names."""
    fragment = page.fragments.get(htmx(request).target, "")
    if not fragment:
        # A whole page shows the viewer's name and notices.
        request_context(request).shared = False
    shell = _shell(request, whole=not fragment)
    body = _draw(request, fragment or page.template, shell, page=page, fragment=bool(fragment))
    own_headers = {"Vary": VARY}
    if fragment and shell.signed_in and shell.replica:
        # The sentence is outside the fragment, and must not change the ETag of its content.
        own_headers[_STANDBY] = f"{'!' if shell.replica_warns else ''}{quote(shell.replica)}"
    response = HTMLResponse(body, status_code=status, headers={**own_headers, **(headers or {})})
    if shell.notices:
        cookies.clear_notice(request, response)
    return response


def navigation(request: Request) -> tuple[NavLink, ...]:
    """Return the entries of the navigation that the viewer may open."""
    board, access = dashboard(request), who(request)
    return tuple(
        NavLink(
            section=section,
            label=entry.label,
            url=url(request, entry.route),
            icon=entry.icon,
            keys=entry.keys,
            phone=entry.phone,
        )
        for section, entry in board.sections.navigation.items()
        if access.may(entry.right) and board.shows(entry)
    )


def _shell(request: Request, *, whole: bool) -> Shell:
    board, seen = dashboard(request), request_context(request)
    access = who(request)
    config, replica = board.config, board.replica
    database, schema = board.driver.database, board.driver.schema_in_use
    if SQL not in board.driver.capabilities:
        database, schema = PurePath(database).name, ""
    return Shell(
        base=seen.base,
        nav=navigation(request) if whole else (),
        env_name=config.env_name,
        env_color=config.env_color or "grey",
        user=access.user,
        sign_out=access.sign_out,
        signed_in=seen.access is not None,
        read_only=_read_only(request),
        replica=replica.words if replica else "",
        replica_warns=replica is not None and (replica.late or bool(replica.problem)),
        version=__version__,
        database=database,
        schema=schema,
        preferences=preferences(request),
        notices=cookies.take_notices(request) if whole else (),
        here=here(request),
        now=datetime.now(UTC),
    )


def _read_only(request: Request) -> str:
    board = dashboard(request)
    if board.config.read_only:
        return "This dashboard is read-only."
    return board.driver.read_only if request_context(request).access else ""


def _draw(request: Request, template: str, shell: Shell, **more: Any) -> bytes:
    board = dashboard(request)
    templates, static = board.get(TEMPLATES), board.get(STATIC)
    _CONTEXT.set(
        PageContext(
            times=shown.Times(now=shell.now, mode=shell.preferences.time),
            icons=shown.Icons(static.url(request, "icons.svg")),
            url=partial(url, request),
            linked=partial(linked, request),
            static=partial(static.url, request),
            may=who(request).may,
            part=lambda path, given: templates.part(path, shell.base, given),
            macros=lambda path: templates.environment.get_template(path).module,
        )
    )
    # Encode piece by piece: in one string, a single "…" would widen every character of the page.
    pieces = templates.environment.get_template(template).generate(shell=shell, **more)
    return b"".join(map(str.encode, pieces))


class KeptParts:
    """The recently rendered parts of one dashboard's pages, by all their inputs."""

    def __init__(self, *, most: int = _LONGEST_PART, all: int = _ALL_PARTS) -> None:
        self._most, self._all = most, all
        self._kept: OrderedDict[Hashable, str] = OrderedDict()
        self.size = 0
        """Characters of all cached parts."""

    def part(self, key: Hashable, draw: Callable[[], str]) -> str:
        """Return the cached part of this key, or the result of `draw`, which is then cached unless
        too long.
        """
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        drawn = draw()
        if len(drawn) <= self._most:
            self._kept[key] = drawn
            self.size += len(drawn)
            while self.size > self._all:
                _, oldest = self._kept.popitem(last=False)
                self.size -= len(oldest)
        return drawn
