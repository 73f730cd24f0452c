"""The verdict: the facts of a database's jobs become three answers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from riverui.domain.findings import (
    Check,
    Diagnosis,
    Finding,
    Level,
    Link,
    Unread,
    diagnose,
    examine,
    known,
    passed,
    unknown,
)
from riverui.domain.health import Cause, HealthReport
from riverui.domain.health.database import primary
from riverui.domain.health.facts import HealthFacts
from riverui.domain.health.flow import flow
from riverui.domain.health.queues import waiting_long
from riverui.domain.health.success import success
from riverui.domain.health.usual import AGEING_AFTER, FAILING_WARN_FLOOR, STALE_AFTER, within
from riverui.domain.time import duration


def judge(facts: HealthFacts) -> HealthReport:
    """Return whether work is flowing, whether it is succeeding, and whether the figures are good
    enough to say so. A fact that could not be read is unknown, and never counts as good.
    """
    return HealthReport(at=facts.now, flow=flow(facts), success=success(facts), data=_data(facts))


def suspicious(facts: HealthFacts) -> bool:
    """Return whether something may be wrong that goes on for so long that it seems to be usual."""
    now = within(facts)
    failing = now is not None and (now.failing or 0.0) >= FAILING_WARN_FLOOR
    return failing or bool(waiting_long(facts)) or judge(facts).level is not Level.OK


def _data(facts: HealthFacts) -> Diagnosis:
    """Return whether the figures are fresh and whole."""
    found = diagnose("data", examine(facts, _CHECKS), _calm(facts))
    if facts.fresh is not None and facts.fresh > STALE_AFTER:
        # Figures that old are neither good nor bad news.
        return replace(found, level=Level.UNKNOWN)
    return found


def _calm(facts: HealthFacts) -> Finding:
    """Return the finding for figures that are not old."""
    hour = facts.hour
    if isinstance(hour, Unread):
        return Finding(level=Level.UNKNOWN, title="There are no figures.", headline=hour.why)
    if facts.fresh is None:
        words = hour.trouble or "They are being read for the first time."
        return Finding(level=Level.UNKNOWN, title="There are no figures yet.", headline=words)
    if hour.sampled > 1:
        rows = f"estimated from one row in {hour.sampled:,}"
    else:
        rows = f"from {hour.source}"
        if not hour.complete:
            rows += ", of which some are still being read"
    words = f"{duration(facts.fresh)} old, {rows}."
    return Finding(title="These figures are fresh:", headline=words)


def _fresh(facts: HealthFacts) -> Finding:
    """Return whether rows have been read recently."""
    hour = known(facts.hour)
    trouble = f" {hour.trouble}" if hour.trouble else ""
    if facts.fresh is None:
        return unknown(f"Nothing has been read yet.{trouble}")
    age = duration(facts.fresh)
    if facts.fresh <= AGEING_AFTER:
        return passed(f"Rows have been read up to {age} ago.")
    return Finding(
        level=Level.WARN,
        evidence=f"Rows have been read up to {age} ago only.{trouble}",
        cause=Cause.STALE,
        title="These figures are old.",
        link=Link(label="Check the database", page="database"),
    )


def _whole(facts: HealthFacts) -> Finding:
    """Return whether the figures cover the whole last hour."""
    hour = facts.hour
    if isinstance(hour, Unread) or hour.read_at is None:
        return unknown("There are none yet.")
    if not hour.complete:
        return unknown("The last hour is still being read.")
    if hour.sampled > 1:
        return passed(f"Estimated from one job in {hour.sampled:,}.")
    return passed(f"Read from {hour.source}.")


_CHECKS: Sequence[Check[HealthFacts]] = (
    ("fresh", "Age of the figures", _fresh),
    ("whole", "Extent of the figures", _whole),
    ("primary", "Server", primary),
)
