"""The endpoint of the health report, as JSON or as text."""

from __future__ import annotations

from typing import Literal, get_args

from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import BadRequest
from riverui.web.api import requests, serializers
from riverui.web.api.diagnoses import HealthReportAnswer
from riverui.web.api.endpoints import JSON, Description, Endpoint, Parameter
from riverui.web.sections.overview.facts import health_answer

Format = Literal["json", "text"]


async def show(request: Request) -> Response:
    """Answer with the health report."""
    chosen = requests.first(request, "format") or "json"
    if chosen not in get_args(Format):
        raise BadRequest("format must be json or text.")
    report = await health_answer(request)
    if chosen == "text":
        return Response(report.text(), media_type="text/plain; charset=utf-8")
    return serializers.reply(report)


ENDPOINT = Endpoint(
    "GET",
    "/api/health-report",
    "api.health_report",
    "figures.read",
    show,
    Description(
        group="Overview",
        summary="The health report: three answers, each with its cause and its evidence.",
        answer=HealthReportAnswer,
        media=(JSON, "text/plain"),
        parameters=(
            Parameter(
                name="format",
                summary="JSON, or text as `riverui health` prints it.",
                type=Format,
                default="json",
                extension=True,
            ),
        ),
        extension=True,
    ),
)
