"""A chart as a page and as a file, and the deletion of stored figures."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.figures import Figures, Window
from riverui.errors import BadRequest, NotFound, NotSupported
from riverui.features.figures.store import RollupStore
from riverui.features.figures.verbs import figures_delete
from riverui.storage.tables import REMEDY
from riverui.web.api import serializers
from riverui.web.http.context import Section, access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search.figure_addresses import (
    FILES,
    WindowChoice,
    chart_url,
    read_window,
    window_choices,
)
from riverui.web.view.chart_cards import ChartCard, chart_cards
from riverui.web.view.figure_charts import CHARTS, FigureChart
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

_MOST_NAME = 1_000
"""Characters of a name in an address, which each column's link repeats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartShow:
    """One chart."""

    template: ClassVar[str] = "figures/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"figures": "figures/_chart.html"}

    card: ChartCard
    queue: str
    """The queue of its jobs; empty for all queues."""
    kind: str
    figures: Figures
    windows: tuple[WindowChoice, ...]
    self_url: str


async def show(request: Request) -> Response:
    """Return a chart as a page, JSON or CSV; raise NotFound if no chart has that name."""
    only(request, "window", "queue", "kind")
    name, _, file = request.path_params["chart"].partition(".")
    if name not in CHARTS or (file and file not in FILES):
        raise NotFound(f"Chart not found. The charts are {', '.join(CHARTS)}.")
    queue, kind = (_name(request, what) for what in ("queue", "kind"))
    drawn, window = CHARTS[name], read_window(request)
    figures = await dashboard(request).figures.read(window, queue=queue, kind=kind)
    if file:
        written = _json(drawn, figures, queue, kind) if file == "json" else _csv(drawn, figures)
        if file == "csv":
            shown_as = f'attachment; filename="{name}-{window.name}.csv"'
            written.headers["Content-Disposition"] = shown_as
        return written
    (card,) = await chart_cards(request, [name], figures, queue=queue, kind=kind)
    card = structs.replace(card, chart=replace(card.chart, large=True))

    def address(other: Window) -> str:
        return chart_url(request, name, other, queue=queue, kind=kind)

    return respond(
        request,
        ChartShow(
            card=card,
            queue=queue,
            kind=kind,
            figures=figures,
            windows=window_choices(window, address),
            self_url=address(window),
        ),
    )


async def delete(request: Request) -> Response:
    """Delete all stored figures, after a confirmation."""
    board, posted = dashboard(request), await form(request)
    if posted.get("confirmed") != "1":
        raise BadRequest("Confirm the deletion of all stored figures.")
    if not await board.figures.table.there(RollupStore):
        raise NotSupported(f"There are no stored figures: run `{REMEDY}`.")
    await figures_delete(board.driver, time_limit=board.config.action_timeout)
    board.figures.forget()
    log.info("stored figures deleted by %r", access(request).user)
    notice = Notice(
        level="success",
        title="Stored figures deleted",
        details=("They are stored again as far as rows of jobs remain.",),
    )
    return done(request, notice, next=url(request, "database.index"), changed="database")


SECTION = Section(
    name="figures",
    routes=(
        GuardedRoute("GET", "/figures/{chart}", "figures.show", "figures.read", show),
        GuardedRoute(
            "POST", "/database/figures/delete", "figures.delete", "figures.manage", delete
        ),
    ),
    rights={
        "figures.read": "see figures, charts and the health report",
        "figures.manage": "delete stored figures",
    },
)


def _name(request: Request, what: str) -> str:
    name = request.query_params.get(what, "")
    if len(name) > _MOST_NAME:
        raise BadRequest(f"The name of the {what} is too long.")
    return name


def _rows(chart: FigureChart, figures: Figures) -> Sequence[Mapping[str, object]]:
    """Return a mapping for each column, with the names of the series."""
    series = chart.series(figures.columns)
    return [
        {
            "at": serializers.instant(column.at),
            "finished": column.finished,
            "sampled": column.sampled,
            **{one.name: one.values[n] for one in series},
            **{f"{one.name}_capped": one.is_capped(n) for one in series if one.capped},
        }
        for n, column in enumerate(figures.columns)
    ]


def _json(chart: FigureChart, figures: Figures, queue: str, kind: str) -> Response:
    return serializers.reply(
        {
            "chart": chart.name,
            "unit": chart.unit.value,
            "window": figures.window.name,
            "step": int(figures.window.step.total_seconds()),
            "queue": queue or None,
            "kind": kind or None,
            "read_at": serializers.optional_instant(figures.read_at),
            "since": serializers.optional_instant(figures.since),
            "complete": figures.complete,
            "source": figures.source,
            "trouble": figures.trouble or None,
            "columns": _rows(chart, figures),
        }
    )


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _csv(chart: FigureChart, figures: Figures) -> Response:
    """Return only times and numbers, which no spreadsheet reads as a formula."""
    rows, text = _rows(chart, figures), io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8")
