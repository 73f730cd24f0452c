"""Charts as they stand on pages: with a title, their own address, and links to the jobs."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from riverui.domain.figures import Figures
from riverui.web.search.figure_addresses import chart_files, chart_url, jobs_link
from riverui.web.view.chart_data import TimeChart
from riverui.web.view.figure_charts import CHARTS


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartCard:
    """A chart with its title and its own address."""

    title: str
    url: str
    chart: TimeChart


def chart_card(
    request: Request, name: str, figures: Figures, *, queue: str = "", kind: str = ""
) -> ChartCard:
    """Return one of CHARTS, of figures that are of this queue or kind where they are named."""
    drawn, window = CHARTS[name], figures.window
    return ChartCard(
        title=drawn.title(figures),
        url=chart_url(request, name, window, queue=queue, kind=kind),
        chart=drawn.of(
            figures,
            link=jobs_link(request, queue=queue, kind=kind),
            files=chart_files(request, name, window, queue=queue, kind=kind),
        ),
    )
