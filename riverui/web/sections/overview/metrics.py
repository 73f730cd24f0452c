"""Metrics for Prometheus."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request
from starlette.responses import Response

from riverui.features.incidents.watch import INCIDENTS
from riverui.features.slo.reader import standings
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.http.context import dashboard
from riverui.web.http.metrics import MEDIA
from riverui.web.http.process_label import labelled


async def show(request: Request) -> Response:
    """Answer with all metrics, in Prometheus's text format."""
    # Imported on first use: most dashboards have no scraper.
    from riverui.web.http import prometheus

    board = dashboard(request)
    opened = await board.get(INCIDENTS).open()
    causes = Counter(incident.cause.value for incident in opened.incidents)
    found = await standings(board.figures, board.config.slo)
    text = await prometheus.text(board.metrics, causes, found)
    if board.workers > 1:
        text = labelled(text, board.name)
    return Response(text, media_type=MEDIA)


ENDPOINT = Endpoint(
    "GET",
    "/metrics",
    "metrics",
    "metrics.read",
    show,
    Description(
        group="Overview",
        summary="Prometheus metrics: jobs by state and queue, waiting times, response times.",
        media=("text/plain",),
        extension=True,
    ),
)
