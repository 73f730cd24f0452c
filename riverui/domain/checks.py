"""Checks with their evidence: what was found of one possible reason, and where it is mended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from riverui.domain.job_facts import Unread
from riverui.domain.text import counted

_NAME_LENGTH = 80
"""Characters of a name in a sentence."""


class Result(StrEnum):
    """What a check found."""

    PASSED = "passed"
    """It was measured, and holds nothing up."""
    FAILED = "failed"
    """It was measured, and keeps the job from running, or from going on."""
    UNKNOWN = "unknown"
    """It cannot be told."""


class PlaceKind(StrEnum):
    """What a check leads to."""

    JOB = "job"
    QUEUE = "queue"
    QUEUE_LIMITS = "queue_limits"
    WORKERS = "workers"
    WORKFLOW = "workflow"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a check leads to, and what its link says."""

    kind: PlaceKind
    words: str
    name: str = ""
    """The queue or the workflow, where it is one."""
    job_id: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One possible reason, and what was found of it."""

    name: str
    label: str
    result: Result
    evidence: str
    """One or two sentences."""
    see: Place | None = None
    """Where it is mended, or looked at more closely."""


def check(name: str, label: str, result: Result, evidence: str, see: Place | None = None) -> Check:
    """Return a check."""
    return Check(name=name, label=label, result=result, evidence=evidence, see=see)


def unread(fact: Unread) -> str:
    """Return that a fact could not be read, in words."""
    return f"It could not be read. {fact.why}"


def up_to(count: int, cap: int, noun: str) -> str:
    """Return a number of things: "1 job", "17 jobs", "More than 1,000 jobs"."""
    if count >= cap:
        return f"At least {cap:,} {noun}s"
    return counted(count, noun)


def cut(name: str) -> str:
    """Return a name, or the beginning of a long one."""
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"
