"""How long a job waited and ran, compared with what is usual for its kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request

from riverui.domain.figures import WINDOWS
from riverui.domain.jobs import JobShowRow
from riverui.features.figures.reader.figure_reader import promptly
from riverui.web.http.context import access, dashboard
from riverui.web.view.job_table import run_span, wait_span

_FEWEST = 20
"""Fewest jobs of a kind to compare with: of fewer, the 95th percentile is simply the longest."""
_MUCH = 2.0
"""A span this many times as long as usual is highlighted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BesideUsual:
    """One span of a job compared with what is usual."""

    words: str
    """What the job did: "waited" or "ran"."""
    span: timedelta | None
    """None if it has not ended."""
    usual: timedelta
    """The 95th percentile for jobs of its kind that ended in the last hour."""
    much: bool
    """Whether it is much longer than usual."""


async def beside_usual(request: Request, job: JobShowRow, now: datetime) -> tuple[BesideUsual, ...]:
    """Return how long the job waited and ran, as far as that and what is usual are known."""
    board = dashboard(request)
    if not board.config.charts or not access(request).may("figures.read"):
        return ()
    figures = await promptly(board.figures.read(WINDOWS["1h"], kind=job.kind))
    if figures is None:
        return ()
    total = figures.total
    spans = (("waited", wait_span(job), total.wait), ("ran", run_span(job), total.run))
    return tuple(
        BesideUsual(
            words=words,
            span=None if span[1] is None else span[1] - span[0],
            usual=found,
            much=(span[1] or now) - span[0] > _MUCH * found,
        )
        for words, span, usual in spans
        if span and usual.n >= _FEWEST and (found := usual.quantile(0.95)) is not None
    )
