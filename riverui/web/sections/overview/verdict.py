"""The health report on the front page: each answer with a sparkline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from starlette.requests import Request

from riverui.domain.figures import Figures
from riverui.domain.findings import Diagnosis
from riverui.domain.health import HealthReport
from riverui.web.view.chart_axes import Unit
from riverui.web.view.figure_charts import each, percentiles
from riverui.web.view.finding_links import link_url


class VerdictLine(Struct, frozen=True, kw_only=True):
    """One answer of the health report on a page."""

    section: Diagnosis
    url: str
    """Address of its link; empty if there is none or the viewer may not see the page."""
    spark: Sequence[float | None] = ()
    """Figures of its subject over the window shown; empty if there are none."""
    spark_label: str = ""
    spark_unit: Unit = Unit.JOBS


def verdict_lines(
    request: Request, report: HealthReport, figures: Figures
) -> Iterator[VerdictLine]:
    """Yield the three answers as a page shows them, with sparklines from these figures."""
    columns, window = figures.columns, figures.window.label
    waits = percentiles(columns, lambda tally: tally.wait, 0.95)
    failed = each(columns, lambda tally: tally.failed)
    sparks: Sequence[tuple[Sequence[float | None], str, Unit]] = (
        (waits, f"Wait p95, {window}", Unit.SECONDS),
        (failed, f"Failed attempts, {window}", Unit.JOBS),
        ((), "", Unit.JOBS),
    )
    for section, (spark, label, unit) in zip(report.sections, sparks, strict=True):
        yield VerdictLine(
            section=section,
            url=link_url(request, section.link),
            spark=spark,
            spark_label=label,
            spark_unit=unit,
        )
