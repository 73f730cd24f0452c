"""The list of error groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.errors import BadRequest
from riverui.features.error_groups.section.groups import (
    ORDERS,
    STATES,
    WORST,
    ErrorFilter,
    lines,
    read_filter,
    view,
)
from riverui.features.error_groups.section.table import ErrorLine, error_table
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.request_context import only, url
from riverui.web.view.format import plain
from riverui.web.view.page_parts import Choice, Problem
from riverui.web.view.render import respond
from riverui.web.view.tables import Table

_OPENS = {"": "", "worst": WORST, "newest": "new"}
"""The groups that `open` leads to, as the order whose first group it is."""
_SHOWN = 100
"""Groups per page."""
_NAMES = 50
"""Kinds or queues in a menu, commonest first."""
_NAME = 60
"""Longest name in a menu, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorsIndex:
    """The list of error groups."""

    template: ClassVar[str] = "errors/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"errors-list": "errors/_list.html"}

    match: str
    asked: tuple[tuple[str, str], ...]
    """The URL's other parameters, for the search form."""
    kinds: tuple[Choice, ...]
    queues: tuple[Choice, ...]
    states: tuple[Choice, ...]
    """Empty if groups are not stored, and so have no states."""
    orders: tuple[Choice, ...]
    table: Table[ErrorLine]
    groups: int
    """Groups that match, shown or not."""
    others: int
    """Groups that do not match."""
    new: datetime
    """Since when errors count as new."""
    new_words: str
    """The same in words; empty if that is unknown."""
    looked_at: int
    more: bool
    """Whether there are failed jobs besides those read."""
    since: datetime | None
    complete: bool
    """Whether the read is finished; False while it continues."""
    remedy: str
    """The command that makes groups be stored; empty if they are, or cannot be."""
    missing: str
    """The migration that stores groups."""
    filtered: bool
    self_url: str
    all_url: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Show the groups that are asked for."""
    only(request, "kind", "queue", "match", "state", "order", "open")
    asked = read_filter(request)
    opened = _OPENS.get(request.query_params.get("open", ""))
    if opened is None:
        raise BadRequest("`open` is worst or newest.")
    seen = await view(request, whole=bool(opened))
    if opened:
        found, _ = lines(request, seen, replace(asked, order=opened), limit=1)
        return RedirectResponse(found[0].url if found else _url(request, asked), status_code=303)
    reading = seen.reading
    shown, fitting = lines(request, seen, asked, limit=_SHOWN)
    plainly = ErrorFilter()
    return respond(
        request,
        ErrorsIndex(
            match=asked.match,
            asked=tuple(pair for pair in _pairs(asked) if pair[0] != "match"),
            kinds=_names(request, asked, "kind", reading.kinds),
            queues=_names(request, asked, "queue", reading.queues),
            states=_choices(request, asked, "state", STATES) if reading.remembered else (),
            orders=_choices(request, asked, "order", ORDERS),
            table=error_table(shown),
            groups=fitting,
            others=len(reading.groups) - fitting,
            new=seen.new,
            new_words=seen.new_words,
            looked_at=reading.looked_at,
            more=reading.more,
            since=reading.since,
            complete=reading.complete,
            remedy="" if reading.remembered else REMEDY,
            missing=MISSING,
            filtered=bool(asked.kind or asked.queue or asked.match),
            self_url=_url(request, asked),
            all_url=_url(request, plainly),
            problem=Problem(title="Errors could not be read.", detail=reading.problem)
            if reading.problem
            else None,
        ),
    )


def _pairs(asked: ErrorFilter) -> list[tuple[str, str]]:
    usual = asdict(ErrorFilter())
    return [(name, value) for name, value in asdict(asked).items() if value != usual[name]]


def _url(request: Request, asked: ErrorFilter, **changes: str) -> str:
    pairs = _pairs(ErrorFilter(**(asdict(asked) | changes)))
    return url(request, "errors.index") + (f"?{urlencode(pairs)}" if pairs else "")


def _choices(
    request: Request, asked: ErrorFilter, name: str, labels: Mapping[str, str]
) -> tuple[Choice, ...]:
    current = getattr(asked, name)
    return tuple(
        Choice(
            value=value,
            label=label,
            url=_url(request, asked, **{name: value}),
            current=value == current,
        )
        for value, label in labels.items()
    )


def _names(
    request: Request, asked: ErrorFilter, name: str, commonest: Sequence[str]
) -> tuple[Choice, ...]:
    """Return the kinds or the queues of failed jobs to choose from, including the chosen one."""
    found = list(commonest[:_NAMES])
    chosen = getattr(asked, name)
    if chosen and chosen not in found:
        found.append(chosen)
    labels = {value: plain(value, _NAME) for value in sorted(found)}
    return _choices(request, asked, name, {"": f"Any {name}", **labels})
