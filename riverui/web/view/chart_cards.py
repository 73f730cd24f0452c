"""Charts as pages show them: with a title that links to their own page, files, links and marks."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from starlette.requests import Request

from riverui.domain.figures import Figures
from riverui.web.http.context import dashboard
from riverui.web.search.figure_addresses import chart_files, chart_url, jobs_link
from riverui.web.view.chart_data import TimeChart
from riverui.web.view.figure_charts import CHARTS, chart_marks


class ChartCard(Struct, frozen=True, kw_only=True):
    """A chart with its title and its own address."""

    title: str
    url: str
    chart: TimeChart


async def chart_cards(
    request: Request, names: Iterable[str], figures: Figures, *, queue: str = "", kind: str = ""
) -> tuple[ChartCard, ...]:
    """Return charts by their names; `queue` and `kind` restrict the figures to their jobs."""
    board, window = dashboard(request), figures.window
    found = await board.marks_since(figures.columns[0].at)
    link, marks = jobs_link(request, queue=queue, kind=kind), chart_marks(found)
    cards = []
    for name in names:
        spec = CHARTS[name]
        files = chart_files(request, name, window, queue=queue, kind=kind)
        cards.append(
            ChartCard(
                title=spec.title(figures),
                url=chart_url(request, name, window, queue=queue, kind=kind),
                chart=spec.draw(figures, link=link, files=files, marks=marks),
            )
        )
    return tuple(cards)
