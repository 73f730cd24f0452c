"""What the parts of the health report are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from riverui.domain.checks import Check, Result
from riverui.domain.health import Cause, Culprit, HealthAction, HealthSection, Level
from riverui.domain.job_facts import Unread

_NAME = 80
"""Characters of a name that a sentence takes: longer ones hide what it says."""
_CULPRIT = 200
"""Characters of a name that is told apart from a sentence; River's own are shorter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One cause that was considered, and what to say if it is the one."""

    check: Check
    level: Level = Level.OK
    cause: Cause = Cause.NONE
    label: str = ""
    headline: str = ""
    detail: str = ""
    culprit: Culprit | None = None
    action: HealthAction | None = None


def passed(name: str, label: str, evidence: str) -> Finding:
    """Return that a cause was ruled out."""
    return Finding(check=Check(name=name, label=label, result=Result.PASSED, evidence=evidence))


def unmeasured(name: str, label: str, evidence: str | Unread) -> Finding:
    """Return that a cause could not be measured."""
    words = f"It could not be read. {evidence.why}" if isinstance(evidence, Unread) else evidence
    return Finding(check=Check(name=name, label=label, result=Result.UNKNOWN, evidence=words))


def failed(name: str, label: str, evidence: str) -> Check:
    """Return the check of a cause that was found."""
    return Check(name=name, label=label, result=Result.FAILED, evidence=evidence)


def told(findings: Sequence[Finding], calm: HealthSection) -> HealthSection:
    """Return a section that tells the worst finding, the first of those that are equally bad, and
    what else was found; or the calm one with these checks.
    """
    checks = tuple(finding.check for finding in findings)
    worst = max(findings, key=lambda finding: finding.level.badness, default=None)
    if worst is None or worst.level is Level.OK:
        return replace(calm, checks=checks)
    others = [found.label for found in findings if found is not worst and found.label]
    besides = f"Besides: {' '.join(others)}" if others else ""
    return HealthSection(
        name=calm.name,
        label=worst.label,
        level=worst.level,
        headline=worst.headline,
        detail=f"{worst.detail} {besides}".strip(),
        cause=worst.cause,
        checks=checks,
        culprit=worst.culprit,
        action=worst.action,
    )


def cut(name: str) -> str:
    """Return a name out of the database as a sentence takes it."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def culprit(what: str, name: str, share: float) -> Culprit:
    """Return what owns this share of a trouble."""
    return Culprit(what=what, name=name[:_CULPRIT], share=share)


def jobs(count: int, cap: int | None = None) -> str:
    """Return a number of jobs: "1 job", "17 jobs", "at least 1,000 jobs"."""
    words = f"{count:,} job{'' if count == 1 else 's'}"
    return f"at least {words}" if cap is not None and count >= cap else words


def wait(told: str) -> str:
    """Return that so many jobs wait: "1 job waits", "17 jobs wait"."""
    return f"{told} wait{'s' if told == jobs(1) else ''}"


def waiting_too(names: Sequence[str]) -> str:
    """Return that these wait as well: "mail waits too.", or nothing where there are none."""
    return f"{among(names)} wait{'s' if len(names) == 1 else ''} too." if names else ""


def among(names: Iterable[str], most: int = 3) -> str:
    """Return names as a list in words, the first few of them."""
    told = [cut(name) for name in names]
    rest = len(told) - most
    if rest > 0:
        return f"{', '.join(told[:most])} and {rest:,} more"
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
