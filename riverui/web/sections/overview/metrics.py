"""Figures for Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.http.context import dashboard
from riverui.web.live.metrics import MEDIA


async def show(request: Request) -> Response:
    """Answer with every figure, in Prometheus's text format."""
    return Response(await dashboard(request).metrics.text(), media_type=MEDIA)


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
