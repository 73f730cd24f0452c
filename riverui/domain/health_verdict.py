"""The verdict: what was found of a database's jobs becomes three answers."""

from __future__ import annotations

from riverui.domain.health import Cause, HealthAction, HealthReport, HealthSection, Level
from riverui.domain.health_facts import HealthFacts
from riverui.domain.health_findings import Finding, failed, passed, told, unmeasured
from riverui.domain.health_flow import flow
from riverui.domain.health_success import success
from riverui.domain.health_usual import AGEING_AFTER, STALE_AFTER
from riverui.domain.job_facts import Unread
from riverui.domain.time import duration


def judge(facts: HealthFacts) -> HealthReport:
    """Return whether work is flowing, whether it is succeeding, and whether the figures are good
    enough to say so.

    What could not be read is unknown, and never counts for good.
    """
    return HealthReport(at=facts.now, flow=flow(facts), success=success(facts), data=_data(facts))


def _data(facts: HealthFacts) -> HealthSection:
    """Return whether the figures are fresh and whole."""
    findings = [_fresh(facts), _whole(facts), _primary(facts)]
    if isinstance(facts.hour, Unread):
        return told(findings, _section(Level.UNKNOWN, "There are no figures.", facts.hour.why))
    if facts.fresh is None:
        words = facts.hour.trouble or "They are being read for the first time."
        return told(findings, _section(Level.UNKNOWN, "There are no figures yet.", words))
    sampled = facts.hour.sampled
    rows = (
        f"estimated from one row in {sampled:,}"
        if sampled > 1
        else f"from {facts.hour.source}"
        if facts.hour.complete
        else f"from {facts.hour.source}, of which some are still being read"
    )
    age = duration(facts.fresh)
    calm = _section(Level.OK, "These figures are fresh:", f"{age} old, {rows}.")
    return told(findings, calm)


def _fresh(facts: HealthFacts) -> Finding:
    name, label = "fresh", "Figures are fresh"
    if isinstance(facts.hour, Unread):
        return unmeasured(name, label, facts.hour)
    trouble = f" {facts.hour.trouble}" if facts.hour.trouble else ""
    if facts.fresh is None:
        return unmeasured(name, label, f"Nothing has been read yet.{trouble}")
    age = duration(facts.fresh)
    if facts.fresh <= AGEING_AFTER:
        return passed(name, label, f"Rows have been read up to {age} ago.")
    return Finding(
        check=failed(name, label, f"Rows have been read up to {age} ago only.{trouble}"),
        level=Level.UNKNOWN if facts.fresh > STALE_AFTER else Level.WARN,
        cause=Cause.STALE,
        label="These figures are old.",
        headline=f"Rows have been read up to {age} ago only.{trouble}",
        action=HealthAction(label="See the database", page="about"),
    )


def _whole(facts: HealthFacts) -> Finding:
    name, label = "whole", "Figures are whole"
    if isinstance(facts.hour, Unread) or facts.hour.read_at is None:
        return unmeasured(name, label, "There are none yet.")
    if not facts.hour.complete:
        return unmeasured(name, label, "The last hour is still being read.")
    if facts.hour.sampled > 1:
        return passed(name, label, f"They are estimated from one row in {facts.hour.sampled:,}.")
    return passed(name, label, f"They are from {facts.hour.source}.")


def _primary(facts: HealthFacts) -> Finding:
    name, label = "primary", "Read from the primary"
    if isinstance(facts.database, Unread):
        return unmeasured(name, label, facts.database)
    if facts.database.standby:
        return unmeasured(name, label, "They are read from a standby, which may lag behind.")
    return passed(name, label, "They are read from the primary server.")


def _section(level: Level, label: str, headline: str) -> HealthSection:
    return HealthSection(name="data", label=label, level=level, headline=headline)
