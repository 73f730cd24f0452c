"""Addresses of figures: their windows, their files, and the jobs of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request

from riverui.domain.figures import WINDOWS, Window
from riverui.domain.jobs import FINALIZED, JobState
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, Op, Term
from riverui.web.http.context import access
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url

_ENDED = tuple(state for state in JobState if state in FINALIZED)
FILES = ("json", "csv")
"""The formats in which a chart can be downloaded."""


class WindowChoice(Struct, frozen=True, kw_only=True):
    """A window as a link."""

    name: str
    label: str
    url: str
    current: bool


def read_window(request: Request) -> Window:
    """Return the window in the address, by default the shortest; BadRequest for an unknown one."""
    asked = request.query_params.get("window") or next(iter(WINDOWS))
    if asked not in WINDOWS:
        raise BadRequest(f"Unknown window; the windows are {', '.join(WINDOWS)}.")
    return WINDOWS[asked]


def with_window(address: str, window: Window, **given: str) -> str:
    """Return an address with its window, unless it is the shortest, and with the other parameters
    that are not empty.
    """
    pairs = {"window": window.name if window is not next(iter(WINDOWS.values())) else "", **given}
    encoded = urlencode({name: value for name, value in pairs.items() if value})
    return f"{address}?{encoded}" if encoded else address


def window_choices(current: Window, address: Callable[[Window], str]) -> tuple[WindowChoice, ...]:
    """Return every window as a link to the address that the function returns for it."""
    return tuple(
        WindowChoice(
            name=window.name, label=window.label, url=address(window), current=window is current
        )
        for window in WINDOWS.values()
    )


def chart_url(
    request: Request, chart: str, window: Window, *, queue: str = "", kind: str = ""
) -> str:
    """Return the address of a chart, or of its file if the name ends in `.json` or `.csv`."""
    address = url(request, "figures.show", chart=chart)
    return with_window(address, window, queue=queue, kind=kind)


def chart_files(
    request: Request, chart: str, window: Window, *, queue: str = "", kind: str = ""
) -> Sequence[tuple[str, str]]:
    """Return names and addresses of the files of a chart."""
    return [
        (file.upper(), chart_url(request, f"{chart}.{file}", window, queue=queue, kind=kind))
        for file in FILES
    ]


def jobs_link(
    request: Request, *, queue: str = "", kind: str = ""
) -> Callable[[datetime, datetime], str] | None:
    """Return a function that returns the address of the jobs that ended between two times, of one
    queue or kind if given; None for viewers who may not see jobs.
    """
    if not access(request).may("jobs.read"):
        return None
    named = [
        query.equal(field, name)
        for field, name in ((Field.QUEUE, queue), (Field.KIND, kind))
        if name
    ]

    def link(begin: datetime, end: datetime) -> str:
        times = (
            Term(field=Field.FINISHED, op=Op.GE, values=(begin,)),
            Term(field=Field.FINISHED, op=Op.LT, values=(end,)),
        )
        return jobs_url(request, (*named, *times), _ENDED)

    return link
