"""Diagnoses as API models and as text: the health report, and why a job is not running.

Commands that query the database directly use these too, so this module does not depend on requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Literal, Self, cast

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict, replace

from riverui.domain.findings import Diagnosis, Finding, Link, Result
from riverui.domain.health import HealthReport
from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.text import plain
from riverui.domain.time import rfc3339_nano
from riverui.web.api.models import EXAMPLE_TIME, Id, Model, Time

if TYPE_CHECKING:
    from riverui.features.incidents.domain import Incident

MARKS = {"ok": "✓", "passed": "✓", "warn": "⚠", "critical": "✗", "failed": "✗", "unknown": "?"}
"""The mark in front of a line of text, by its level or result."""

LevelName = Literal["ok", "unknown", "warn", "critical"]
SectionName = Literal["flow", "success", "data"]
ResultName = Literal["passed", "failed", "unknown"]


class HealthCheck(Model, frozen=True, kw_only=True):
    """One possible cause and the result of its check."""

    name: str
    label: str
    result: Annotated[
        ResultName, Meta(description="passed: ruled out; failed: found; unknown: not measured.")
    ]
    evidence: str

    @classmethod
    def from_finding(cls, check: Finding) -> Self:
        """Return a finding as the API's model."""
        return cls(
            name=check.name, label=check.label, result=check.result.value, evidence=check.evidence
        )


class HealthCulprit(Model, frozen=True, kw_only=True):
    """The cause of at least half of a problem."""

    what: Annotated[str, Meta(description="kind, queue, client or job.")]
    name: str
    share: Annotated[float, Meta(ge=0.5, le=1)]


class HealthStep(Model, frozen=True, kw_only=True):
    """The one recommended next step."""

    label: str
    page: Annotated[
        str, Meta(description="queue, queues, jobs, job, errors, periodic, workers or database.")
    ]
    name: Annotated[str, Meta(description="The queue, the kind or the job's id.")]
    state: str
    queue: str
    kind: str
    url: Annotated[
        str | UnsetType, Meta(description="The path of that page in this dashboard.")
    ] = UNSET

    @property
    def words(self) -> str:
        """Return the step as a sentence."""
        named = (("state", self.state), ("queue", self.queue), ("kind", self.kind))
        where = self.name or " ".join(f"{name}:{value}" for name, value in named if value)
        return f"{self.label}: {where}" if where else self.label


class HealthAnswer(Model, frozen=True, kw_only=True):
    """One of the report's three answers."""

    name: SectionName
    label: str
    level: LevelName
    headline: str
    detail: str
    cause: Annotated[str, Meta(description="Empty where there is none.")]
    culprit: HealthCulprit | None
    action: HealthStep | None
    checks: list[HealthCheck]


class IncidentName(Model, frozen=True, kw_only=True):
    """An incident, without what is known of it."""

    id: str
    cause: Annotated[str, Meta(description="As in the health report.")]
    level: LevelName
    title: str
    opened_at: Annotated[Time, Meta(description="When it began.")]
    url: Annotated[str | UnsetType, Meta(description="The path of its page in this dashboard.")] = (
        UNSET
    )

    @classmethod
    def from_incident(cls, found: Incident, address: Callable[[Link], str] | None = None) -> Self:
        """Return an incident; `address` maps a link to a URL of this dashboard."""
        link = Link(label=found.title, page="incident", name=found.id)
        return cls(
            id=found.id,
            cause=found.cause.value,
            level=found.level.value,
            title=found.title,
            opened_at=rfc3339_nano(found.opened_at),
            url=UNSET if address is None else address(link),
        )

    @classmethod
    def example(cls) -> Self:
        """Return a kind that fails since a deploy."""
        return cls(
            id="01KAJ8X0Q0SAMPLE0000000000",
            cause="deploy",
            level="critical",
            title="mail_send is failing.",
            opened_at="2026-11-21T08:41:00Z",
            url="/incidents/01KAJ8X0Q0SAMPLE0000000000",
        )


class HealthReportAnswer(Model, frozen=True, kw_only=True):
    """Whether work is flowing, whether it is succeeding, and whether the figures can be trusted."""

    level: Annotated[LevelName, Meta(description="The level of the worst section.")]
    cause: Annotated[str, Meta(description="The cause of the worst section; empty for none.")]
    headline: str
    at: Time
    incidents: Annotated[list[IncidentName], Meta(description="The open ones.")]
    sections: list[HealthAnswer]

    @classmethod
    def from_report(
        cls,
        report: HealthReport,
        incidents: Sequence[Incident],
        address: Callable[[Link], str] | None = None,
    ) -> Self:
        """Return a report with the open incidents; `address` maps a link to a URL of this
        dashboard.
        """
        return cls(
            level=report.level.value,
            cause=report.cause.value,
            headline=report.headline,
            at=rfc3339_nano(report.at.astimezone(UTC)),
            incidents=[IncidentName.from_incident(found, address) for found in incidents],
            sections=[_section(section, address) for section in report.sections],
        )

    def text(self) -> str:
        """Return the report as text, with the checks below each answer.

        Names from the database are escaped: they cannot move a terminal's cursor.
        """
        lines = [
            f"{MARKS[incident.level]} Open since {incident.opened_at}: {plain(incident.title)}"
            for incident in self.incidents
        ]
        for section in self.sections:
            words = " ".join(filter(None, (section.label, section.headline, section.detail)))
            lines.append(f"{MARKS[section.level]} {plain(words)}")
            for check in section.checks:
                lines.append(f"    {MARKS[check.result]} {check.label}: {plain(check.evidence)}")
            if section.action is not None:
                lines.append(f"    → {plain(section.action.words)}")
        return "\n".join(lines) + "\n"

    @classmethod
    def example(cls) -> Self:
        """Return the example report: a queue whose kind has become slow."""
        headline = (
            "It runs 30.0 s (median), usually 1.2 s, and holds 8 of 8 jobs that run in queue mail."
            " Its oldest job has waited 4 m 0 s, usually 2.0 s."
        )
        step = HealthStep(
            label="Open what runs",
            page="jobs",
            name="",
            state="running",
            queue="mail",
            kind="mail_send",
            url="/jobs?state=running&q=queue%3Amail+kind%3Amail_send",
        )
        check = HealthCheck(
            name="served",
            label="Clients of each queue",
            result="passed",
            evidence="Jobs of mail are being taken.",
        )
        flow = HealthAnswer(
            name="flow",
            label="mail_send got slow.",
            level="warn",
            headline=headline,
            detail="",
            cause="slow_kind",
            culprit=HealthCulprit(what="kind", name="mail_send", share=1.0),
            action=step,
            checks=[check],
        )
        return cls(
            level="warn",
            cause="slow_kind",
            headline=f"mail_send got slow. {headline}",
            at=EXAMPLE_TIME,
            incidents=[IncidentName.example()],
            sections=[flow],
        )


def _section(section: Diagnosis, address: Callable[[Link], str] | None) -> HealthAnswer:
    """Return one of a report's answers."""
    culprit, link = section.culprit, section.link
    return HealthAnswer(
        name=cast("SectionName", section.name),
        label=section.title,
        level=section.level.value,
        headline=section.headline,
        detail=section.further,
        cause=str(section.cause),
        culprit=None if culprit is None else HealthCulprit(**asdict(culprit)),
        action=None
        if link is None
        else HealthStep(**asdict(link), url=UNSET if address is None else address(link)),
        checks=[HealthCheck.from_finding(check) for check in section.checks],
    )


class JobCheck(HealthCheck, frozen=True, kw_only=True):
    """One possible reason and the result of its check."""

    result: Annotated[
        ResultName,
        Meta(description="Failed checks hold the job up; unknown ones could not be made."),
    ]
    page: Annotated[
        str | UnsetType,
        Meta(description="Path of the dashboard's page about this check."),
    ] = UNSET


class JobExplanation(Model, frozen=True, kw_only=True):
    """Why a job is not running."""

    id: Id
    state: JobState
    blocked: Annotated[bool, Meta(description="Whether any check has failed.")]
    headline: Annotated[str, Meta(description="The first reason found, or that there is none.")]
    checks: Annotated[
        list[JobCheck], Meta(description="Checks that fit the state, the most important first.")
    ]

    @classmethod
    def from_job(
        cls, job: JobShowRow, found: Diagnosis, pages: Mapping[str, tuple[str, str]] | None = None
    ) -> Self:
        """Return the explanation of a job; `pages` maps names of checks to the address and label of
        a page.
        """
        checks = []
        for check in found.checks:
            page = (pages or {}).get(check.name)
            checks.append(
                replace(JobCheck.from_finding(check), page=UNSET if page is None else page[0])
            )
        return cls(
            id=job.id,
            state=job.state,
            blocked=found.result is Result.FAILED,
            headline=found.headline,
            checks=checks,
        )

    def text(self) -> str:
        """Return the explanation as text, one line per check.

        Names from the database are escaped: they cannot move a terminal's cursor.
        """
        width = max(len(check.label) for check in self.checks)
        lines = [f"Job {self.id} ({self.state}): {plain(self.headline)}", ""]
        for check in self.checks:
            lines.append(f"{MARKS[check.result]} {check.label:{width}}  {plain(check.evidence)}")
        return "\n".join(lines) + "\n"

    @classmethod
    def example(cls) -> Self:
        """Return the explanation of a job whose queue has no worker."""
        headline = "No client serves queue mail: no client has reported it for 14 m 3 s."
        state = "It is available: any client that works its queue may take it."
        return cls(
            id=9381022,
            state=JobState.AVAILABLE,
            blocked=True,
            headline=headline,
            checks=[
                JobCheck(name="state", label="State", result="passed", evidence=state),
                JobCheck(name="served", label="Queue served", result="failed", evidence=headline),
            ],
        )
