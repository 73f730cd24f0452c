"""Findings: the result of each check for a possible cause of a problem, with its evidence. The
health report and the explanation of a job are both made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

if TYPE_CHECKING:
    from riverui.domain.health.baseline import Baseline

_NAME_LENGTH = 80
"""Characters of a name in a sentence: a longer one would hide what the sentence says."""
_CULPRIT_LENGTH = 200
"""Characters of a culprit's name, which is shown outside of sentences; River's own are shorter."""
CULPRIT_SHARE = 0.5
"""The smallest share (0 to 1) of a problem that makes something its culprit."""

_Facts = TypeVar("_Facts")
_Fact = TypeVar("_Fact")


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    """Measured, and as usual."""
    UNKNOWN = "unknown"
    """Not measured, or not recently: nothing bad was found, but it cannot be ruled out."""
    WARN = "warn"
    """It needs attention."""
    CRITICAL = "critical"
    """It needs attention now."""

    @property
    def badness(self) -> int:
        """Return the rank of the level, from 0 for the best."""
        return tuple(Level).index(self)


class Result(StrEnum):
    """The result of a check, regardless of its level."""

    PASSED = "passed"
    """Measured, and not the cause."""
    FAILED = "failed"
    """Measured, and a cause."""
    UNKNOWN = "unknown"
    """It could not be measured."""


class Unread(Exception):
    """A fact that could not be read; `known` raises it in checks that need the fact."""

    def __init__(self, why: str) -> None:
        """Keep the reason, which is a sentence."""
        super().__init__(why)
        self.why = why


class Culprit(Struct, frozen=True, kw_only=True):
    """What causes at least half of a problem."""

    what: str
    """kind, queue, client or job."""
    name: str
    """Its first 200 characters; from the database."""
    share: float
    """From 0.5 to 1."""


class Link(Struct, frozen=True, kw_only=True):
    """A page of the dashboard where a finding can be fixed or examined."""

    label: str
    page: str
    """queue, queues, queue_limits, jobs, job, errors, periodic, workflow, workers, incident or
    database.
    """
    name: str = ""
    """The queue, the workflow, or the id of the job or the incident; empty for lists."""
    state: str = ""
    """For jobs: only those in this state."""
    queue: str = ""
    """For jobs: only those of this queue."""
    kind: str = ""
    """For jobs and errors: only those of this kind."""


class Finding(Struct, frozen=True, kw_only=True):
    """The result of the check for one possible cause, and the words for it if it is the cause."""

    name: str = ""
    """The name of the check, such as `served`."""
    label: str = ""
    """What is checked, such as `Paused queues`."""
    level: Level = Level.OK
    evidence: str = ""
    """One or two sentences."""
    link: Link | None = None
    cause: str = ""
    """The cause's name for programs; empty if it is not one of the health report's causes."""
    title: str = ""
    """The finding in a few words, such as `Nobody works queue mail.`"""
    headline: str = ""
    """One sentence with the figures now and usually; empty if the evidence has them."""
    detail: str = ""
    """Further sentences; empty if there is nothing to add."""
    cure: str = ""
    """What to do about it that no page of the dashboard does, in a sentence."""
    culprit: Culprit | None = None
    began: datetime | None = None
    """Since when it has been so, as far as known."""
    baseline: Baseline | None = None
    """What was usual before it began; None if unknown, or if nothing was compared."""
    statement: str = ""
    """What fixes it, for a person to run: SQL or a command; empty if there is none."""

    @property
    def further(self) -> str:
        """Return its further sentences, and what to do about it."""
        return " ".join(filter(None, (self.detail, self.cure, self.statement)))

    @property
    def result(self) -> Result:
        """Return whether this is a cause, is not, or could not be measured."""
        if self.level is Level.OK:
            return Result.PASSED
        return Result.UNKNOWN if self.level is Level.UNKNOWN else Result.FAILED


class Diagnosis(Finding, frozen=True, kw_only=True):
    """The worst finding of several checks, or a calm one if none failed."""

    checks: Sequence[Finding]
    """The findings of all checks, causes before their consequences."""


Check = tuple[str, str, Callable[[_Facts], Finding | None]]
"""A check's name, its label, and its function, which returns None if it does not apply."""


def examine(facts: _Facts, checks: Iterable[Check[_Facts]]) -> list[Finding]:
    """Return the findings of the checks that apply; those whose facts are Unread are unknown."""
    findings = []
    for name, label, check in checks:
        try:
            finding = check(facts)
        except Unread as error:
            finding = unknown(error.why)
        if finding is not None:
            named = {"name": finding.name or name, "label": finding.label or label}
            findings.append(replace(finding, **named))
    return findings


def diagnose(name: str, findings: Sequence[Finding], calm: Finding) -> Diagnosis:
    """Return the worst finding, the first of equally bad ones, with the titles of the others; or
    `calm` if none is a cause.
    """
    causes = [finding for finding in findings if finding.result is Result.FAILED]
    worst = max(causes, key=lambda finding: finding.level.badness, default=calm)
    others = [finding.title for finding in causes if finding is not worst and finding.title]
    besides = f"Besides: {' '.join(others)}" if others else ""
    said = replace(
        worst,
        name=name,
        headline=worst.headline or worst.evidence,
        detail=f"{worst.detail} {besides}".strip(),
    )
    return Diagnosis(**asdict(said), checks=tuple(findings))


def known(fact: _Fact | Unread) -> _Fact:
    """Return a fact. Raise it if it could not be read."""
    if isinstance(fact, Unread):
        raise fact
    return fact


def passed(evidence: str, link: Link | None = None) -> Finding:
    """Return a finding that rules a cause out."""
    return Finding(evidence=evidence, link=link)


def unknown(evidence: str, link: Link | None = None, statement: str = "") -> Finding:
    """Return a finding of a cause that could not be measured; the statement lets it be."""
    return Finding(level=Level.UNKNOWN, evidence=evidence, link=link, statement=statement)


def failed(evidence: str, link: Link | None = None) -> Finding:
    """Return a finding of a cause without further words."""
    return Finding(level=Level.WARN, evidence=evidence, link=link)


def culprit(what: str, name: str, share: float) -> Culprit | None:
    """Return the culprit of this share of a problem; None if it is less than half."""
    if share < CULPRIT_SHARE:
        return None
    return Culprit(what=what, name=name[:_CULPRIT_LENGTH], share=share)


def cut(name: str) -> str:
    """Return a name for a sentence, cut if it is long."""
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"


def capital(sentence: str) -> str:
    """Return a sentence with a capital first letter."""
    return sentence[:1].upper() + sentence[1:]


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def among(names: Iterable[str], most: int = 3) -> str:
    """Return the first few names as a list, and how many more there are."""
    shown = [cut(name) for name in names]
    rest = len(shown) - most
    return listed([*shown[:most], f"{rest:,} more"] if rest > 0 else shown)
