"""How long a job waited and ran, compared with what is usual for its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request

from riverui.domain.figures import WINDOWS
from riverui.domain.jobs import JobShowRow
from riverui.domain.sketch import Sketch
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
    """What the job did, such as "waited"."""
    span: timedelta | None
    """None if it has not ended."""
    since: datetime
    """When it began."""
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
    return (*_waited(job, total.wait, now), *_ran(job, total.run, now))


def _waited(job: JobShowRow, usual: Sketch, now: datetime) -> Iterator[BesideUsual]:
    if span := wait_span(job):
        yield from _beside("waited" if span[1] else "waiting for", *span, usual, now)


def _ran(job: JobShowRow, usual: Sketch, now: datetime) -> Iterator[BesideUsual]:
    if span := run_span(job):
        yield from _beside("ran" if span[1] else "running for", *span, usual, now)


def _beside(
    words: str, begin: datetime, end: datetime | None, usual: Sketch, now: datetime
) -> Iterator[BesideUsual]:
    found = usual.quantile(0.95)
    if found is None or usual.n < _FEWEST:
        return
    yield BesideUsual(
        words=words,
        span=None if end is None else end - begin,
        since=begin,
        usual=found,
        much=(end or now) - begin > _MUCH * found,
    )
