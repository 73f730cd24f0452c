"""Answers whether the jobs are well: the health report, as JSON or as text."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.health import HealthReport, HealthSection
from riverui.errors import BadRequest
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import JSON, Description, Endpoint, Parameter
from riverui.web.api.models import EXAMPLE_TIME, Model, Time
from riverui.web.http.context import dashboard
from riverui.web.sections.overview.health_links import action_url
from riverui.web.view.format import plain

MARKS = {"ok": "✓", "warn": "⚠", "critical": "✗", "unknown": "?"}
"""What stands before each section of the text."""
_CHECK_MARKS = {"passed": "✓", "failed": "✗", "unknown": "?"}

LevelName = Literal["ok", "unknown", "warn", "critical"]
Format = Literal["json", "text"]


class HealthCheck(Model, frozen=True, kw_only=True):
    """One cause that was considered, and what was found of it."""

    name: str
    label: str
    result: Annotated[
        Literal["passed", "failed", "unknown"],
        Meta(description="Passed is ruled out, failed found, unknown not measured."),
    ]
    evidence: str


class HealthCulprit(Model, frozen=True, kw_only=True):
    """What owns at least half of a trouble."""

    what: Annotated[str, Meta(description="kind, queue, client or job.")]
    name: str
    share: Annotated[float, Meta(ge=0.5, le=1)]


class HealthStep(Model, frozen=True, kw_only=True):
    """The one thing to do next."""

    label: str
    page: Annotated[str, Meta(description="queue, queues, kind, jobs, job or about.")]
    name: Annotated[str, Meta(description="The queue, the kind or the job's id.")]
    state: str
    queue: str
    kind: str
    url: Annotated[
        str | UnsetType, Meta(description="The path of that page in this dashboard.")
    ] = UNSET


class HealthAnswer(Model, frozen=True, kw_only=True):
    """One of the three answers."""

    name: Literal["flow", "success", "data"]
    label: str
    level: LevelName
    headline: str
    detail: str
    cause: Annotated[str, Meta(description="Empty where there is none.")]
    culprit: HealthCulprit | None
    action: HealthStep | None
    checks: list[HealthCheck]

    @classmethod
    def of(cls, section: HealthSection, request: Request | None = None) -> Self:
        """Return a section as the API tells it; with addresses where a dashboard is asked."""
        culprit, action = section.culprit, section.action
        return cls(
            name=section.name,
            label=section.label,
            level=section.level.value,
            headline=section.headline,
            detail=section.detail,
            cause=section.cause.value,
            culprit=None
            if culprit is None
            else HealthCulprit(what=culprit.what, name=culprit.name, share=culprit.share),
            action=None
            if action is None
            else HealthStep(
                label=action.label,
                page=action.page,
                name=action.name,
                state=action.state,
                queue=action.queue,
                kind=action.kind,
                url=UNSET if request is None else action_url(request, action),
            ),
            checks=[
                HealthCheck(
                    name=check.name,
                    label=check.label,
                    result=check.result.value,
                    evidence=check.evidence,
                )
                for check in section.checks
            ],
        )


class HealthReportAnswer(Model, frozen=True, kw_only=True):
    """Whether work is flowing, whether it is succeeding, and whether the figures can be trusted."""

    level: Annotated[LevelName, Meta(description="That of the worst section.")]
    cause: Annotated[str, Meta(description="That of the worst section; empty for none.")]
    headline: str
    at: Time
    sections: list[HealthAnswer]

    @classmethod
    def of(cls, report: HealthReport, request: Request | None = None) -> Self:
        """Return a report as the API and the command line tell it."""
        return cls(
            level=report.level.value,
            cause=report.cause.value,
            headline=report.headline,
            at=serializers.instant(report.at),
            sections=[HealthAnswer.of(section, request) for section in report.sections],
        )

    @classmethod
    def example(cls) -> Self:
        """Return the report of a queue whose kind got slow."""
        headline = (
            "It runs 30.0 s (median), usually 1.2 s, and holds 8 of 8 jobs that run in queue mail."
            " Its oldest job has waited 4 m 0 s, usually 2.0 s."
        )
        return cls(
            level="warn",
            cause="slow_kind",
            headline=f"mail_send got slow. {headline}",
            at=EXAMPLE_TIME,
            sections=[
                HealthAnswer(
                    name="flow",
                    label="mail_send got slow.",
                    level="warn",
                    headline=headline,
                    detail="",
                    cause="slow_kind",
                    culprit=HealthCulprit(what="kind", name="mail_send", share=1.0),
                    action=HealthStep(
                        label="See what runs",
                        page="jobs",
                        name="",
                        state="running",
                        queue="mail",
                        kind="mail_send",
                        url="/jobs?state=running&q=queue%3Amail+kind%3Amail_send",
                    ),
                    checks=[
                        HealthCheck(
                            name="served",
                            label="Queues are served",
                            result="passed",
                            evidence="Jobs of mail are being taken.",
                        )
                    ],
                )
            ],
        )


def text(report: HealthReportAnswer) -> str:
    """Return a report for people and for programs that read text, its checks below each answer.

    Names out of the database cannot move a terminal's cursor.
    """
    lines = []
    for section in report.sections:
        words = " ".join(filter(None, (section.label, section.headline, section.detail)))
        lines.append(f"{MARKS[section.level]} {plain(words)}")
        lines += [
            f"    {_CHECK_MARKS[check.result]} {check.label}: {plain(check.evidence)}"
            for check in section.checks
        ]
        if section.action is not None:
            lines.append(f"    → {plain(_step(section))}")
    return "\n".join(lines) + "\n"


def _step(section: HealthAnswer) -> str:
    """Return what to do next, in words."""
    action = section.action
    if action is None:
        return ""
    named = (("state", action.state), ("queue", action.queue), ("kind", action.kind))
    terms = " ".join(f"{name}:{value}" for name, value in named if value)
    where = action.name or terms
    return f"{action.label}: {where}" if where else action.label


async def show(request: Request) -> Response:
    """Answer with the health report."""
    wished = requests.first(request, "format") or "json"
    if wished not in get_args(Format):
        raise BadRequest("format must be json or text.")
    report = await dashboard(request).health.get()
    if wished == "text":
        return Response(text(HealthReportAnswer.of(report)), media_type="text/plain; charset=utf-8")
    return serializers.reply(HealthReportAnswer.of(report, request))


ENDPOINT = Endpoint(
    "GET",
    "/api/health-report",
    "api.health_report",
    "figures.read",
    show,
    Description(
        group="Overview",
        summary="Whether the jobs are well: three answers, each with its cause and its evidence.",
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
