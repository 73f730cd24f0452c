"""The kinds of jobs: how many ended, how many failed, how long they took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.figures import OTHER, Figures, Tally, Window
from riverui.errors import BadRequest, DatabaseError
from riverui.features.incidents.domain import Incident
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.http.context import dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search.figure_addresses import (
    WindowChoice,
    read_window,
    window_choices,
    with_window,
)
from riverui.web.view.facts import fact
from riverui.web.view.page_parts import Choice, Problem, order_choices
from riverui.web.view.render import respond

_SHOWN = 200
"""Most kinds shown in the list."""
_MATCH_LENGTH = 200
"""Longest text to match names with, in characters; the rest is ignored."""


class KindLine(Struct, frozen=True, kw_only=True):
    """A kind in the list."""

    kind: str
    """Empty for the sum of all other kinds."""
    url: str
    """Address of its page; empty for the sum of other kinds."""
    tally: Tally
    queues: tuple[str, ...]
    """The three queues in which most of its jobs ended, busiest first."""
    relative_run_time: float
    """Its total run time relative to that of the busiest kind, from 0 to 1."""
    trouble: Incident | None
    """The open incident that it is the cause of."""

    @property
    def run(self) -> timedelta | None:
        """The 95th percentile of the run times of completed jobs."""
        return self.tally.run.quantile(0.95)

    @property
    def wait(self) -> timedelta | None:
        """The 95th percentile of the waits of jobs that ended."""
        return self.tally.wait.quantile(0.95)


_WORST = "worst"
_ORDERS: Mapping[str, tuple[str, Callable[[KindLine], Any]]] = {
    _WORST: ("Worst first", lambda line: (line.trouble is None, -line.tally.spent)),
    "time": ("Most time first", lambda line: -line.tally.spent),
    "failed": ("Most failures first", lambda line: -line.tally.failed),
    "ended": ("Most ended first", lambda line: -line.tally.ended),
    "wait": ("Longest wait first", lambda line: -(line.wait or timedelta(0))),
    "name": ("By name", lambda line: 0),
}
"""Label and sort key of each order, by its name in the address; ties are sorted by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindsIndex:
    """The list of kinds."""

    template: ClassVar[str] = "kinds/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"kinds-list": "kinds/_list.html"}

    summary: str
    """What is wrong with which kinds, in sentences; empty if nothing is known, or for a search."""
    lines: tuple[KindLine, ...]
    match: str
    orders: tuple[Choice, ...]
    figures: Figures
    windows: tuple[WindowChoice, ...]
    more: bool
    """There are more kinds than are shown."""
    self_url: str
    problem: Problem | None
    """Why kinds without ended jobs are missing."""


async def index(request: Request) -> Response:
    """Answer with the kinds that match, in the order asked for."""
    only(request, "match", "order", "window")
    window = read_window(request)
    match = request.query_params.get("match", "")[:_MATCH_LENGTH]
    order = request.query_params.get("order") or _WORST
    if order not in _ORDERS:
        raise BadRequest(f"Unknown order; the orders are {', '.join(_ORDERS)}.")
    board = dashboard(request)
    figures = await board.figures.read(window)
    names: Sequence[str] = ()
    problem = None
    found = await fact(
        board.driver, lambda executor: executor.jobs.kind_list(match=match, limit=_SHOWN + 1)
    )
    if isinstance(found, DatabaseError):
        page = error_page(request, found)[1]
        problem = Problem(title=page.title, detail=page.detail)
    else:
        names = found
    troubles = await kind_troubles(request)
    lines = sorted(_lines(request, figures, troubles, names, match), key=lambda line: line.kind)
    lines.sort(key=_ORDERS[order][1])

    def address(*, window: Window = window, order: str = order) -> str:
        given = "" if order == _WORST else order
        return with_window(url(request, "kinds.index"), window, match=match, order=given)

    return respond(
        request,
        KindsIndex(
            summary="" if match else " ".join(line.trouble.title for line in lines if line.trouble),
            lines=tuple(lines[:_SHOWN]),
            match=match,
            orders=order_choices(_ORDERS, order, lambda other: address(order=other)),
            figures=figures,
            windows=window_choices(window, lambda other: address(window=other)),
            more=len(lines) > _SHOWN or len(names) > _SHOWN,
            self_url=address(),
            problem=problem,
        ),
    )


def _lines(
    request: Request,
    figures: Figures,
    troubles: Mapping[str, Incident],
    names: Sequence[str],
    match: str,
) -> Iterator[KindLine]:
    """Yield a line for each kind found in the figures or in the rows."""
    tallies = {
        kind: tally
        for kind, tally in figures.by_kind.items()
        if match.lower() in kind.lower() or not match
    }
    longest = max((tally.spent for tally in tallies.values()), default=timedelta(0))
    queues: dict[str, list[tuple[int, str]]] = {}
    for (queue, kind), tally in figures.pairs.items():
        queues.setdefault(kind, []).append((-tally.ended, queue))
    for kind in dict.fromkeys((*tallies, *names)):
        tally = tallies.get(kind) or Tally()
        yield KindLine(
            kind="" if kind == OTHER else kind,
            url="" if kind == OTHER else url(request, "kinds.show", kind=kind),
            tally=tally,
            queues=tuple(queue for _, queue in sorted(queues.get(kind, ()))[:3] if queue != OTHER),
            relative_run_time=tally.spent / longest if longest else 0.0,
            trouble=troubles.get(kind),
        )


async def kind_troubles(request: Request) -> Mapping[str, Incident]:
    """Return the open incidents of kinds by kind, of each the one that began last."""
    opened = await dashboard(request).get(INCIDENTS).open()
    return {each.kind: each for each in reversed(opened.incidents) if each.kind}
