"""Findings: what was found of each possible cause of trouble, with its evidence.

The health report and the explanation of a job are both made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

_NAME_LENGTH = 80
"""Characters of a name in a sentence: a longer one would hide what the sentence says."""
_CULPRIT_LENGTH = 200
"""Characters of a culprit's name, which stands apart from sentences; River's own are shorter."""
CULPRIT_SHARE = 0.5
"""The smallest share (0 to 1) of a trouble that makes something its culprit."""

_Facts = TypeVar("_Facts")
_Fact = TypeVar("_Fact")


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    """It was measured, and is as usual."""
    UNKNOWN = "unknown"
    """It was not measured, or not lately: nothing bad was found, and nothing is promised."""
    WARN = "warn"
    """Somebody should look."""
    CRITICAL = "critical"
    """Somebody should look now."""

    @property
    def badness(self) -> int:
        """Return its place among all levels, the best first."""
        return tuple(Level).index(self)


class Result(StrEnum):
    """What a check found, without how bad it is."""

    PASSED = "passed"
    """It was measured, and is not the cause."""
    FAILED = "failed"
    """It was measured, and is a cause."""
    UNKNOWN = "unknown"
    """It could not be measured."""


class Unread(Exception):
    """A fact that could not be read; checks that need the fact raise it, see `known`."""

    def __init__(self, why: str) -> None:
        """Keep the reason, which is a sentence."""
        super().__init__(why)
        self.why = why


class Culprit(Struct, frozen=True, kw_only=True):
    """What causes at least half of a trouble."""

    what: str
    """kind, queue, client or job."""
    name: str
    """Its first 200 characters; from the database."""
    share: float
    """From 0.5 to 1."""


class Link(Struct, frozen=True, kw_only=True):
    """A page of the dashboard where a finding is mended or seen more closely."""

    label: str
    page: str
    """queue, queues, queue_limits, jobs, job, workflow, workers or about."""
    name: str = ""
    """The queue, the workflow or the job's id; empty for lists."""
    state: str = ""
    """For jobs: only those in this state."""
    queue: str = ""
    """For jobs: only those of this queue."""
    kind: str = ""
    """For jobs: only those of this kind."""


class Finding(Struct, frozen=True, kw_only=True):
    """What was found of one possible cause, and what to say if it is the cause."""

    name: str = ""
    """The check's, such as `served`."""
    label: str = ""
    """What is true if the check passes: Queues are served."""
    level: Level = Level.OK
    evidence: str = ""
    """One or two sentences."""
    link: Link | None = None
    cause: str = ""
    """What programs know the cause by; empty for what is not one of the health report's."""
    title: str = ""
    """The finding in a few words: Nobody works queue mail."""
    headline: str = ""
    """One sentence with figures and what is usual; empty if the evidence says it."""
    detail: str = ""
    """Further sentences; empty if there is nothing to add."""
    culprit: Culprit | None = None

    @property
    def result(self) -> Result:
        """Return whether this is a cause, is not, or could not be measured."""
        if self.level is Level.OK:
            return Result.PASSED
        return Result.UNKNOWN if self.level is Level.UNKNOWN else Result.FAILED


class Diagnosis(Finding, frozen=True, kw_only=True):
    """The worst finding of several checks, or that nothing was found."""

    checks: Sequence[Finding]
    """What every check found, in the order in which causes bring about one another."""


Check = tuple[str, str, Callable[[_Facts], Finding | None]]
"""A check's name, its label, and what looks for it in the facts: None if it does not apply."""


def examine(facts: _Facts, checks: Iterable[Check[_Facts]]) -> list[Finding]:
    """Return what each check that applies finds; a fact that could not be read makes it unknown."""
    findings = []
    for name, label, check in checks:
        try:
            finding = check(facts)
        except Unread as error:
            finding = unknown(f"It could not be read. {error.why}")
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
    """Return that a cause was ruled out."""
    return Finding(evidence=evidence, link=link)


def unknown(evidence: str, link: Link | None = None) -> Finding:
    """Return that a cause could not be measured."""
    return Finding(level=Level.UNKNOWN, evidence=evidence, link=link)


def failed(evidence: str, link: Link | None = None) -> Finding:
    """Return that a cause was found about which there is no more to say."""
    return Finding(level=Level.WARN, evidence=evidence, link=link)


def culprit(what: str, name: str, share: float) -> Culprit | None:
    """Return what owns this share of a trouble; None if it is less than half."""
    if share < CULPRIT_SHARE:
        return None
    return Culprit(what=what, name=name[:_CULPRIT_LENGTH], share=share)


def cut(name: str) -> str:
    """Return a name as a sentence has it: long ones are cut."""
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
