"""What a workflow's task waits for, in the form of River UI's API (River Pro)."""

from __future__ import annotations

from typing import Any, Literal, Self

from msgspec import UNSET, UnsetType

from riverui.domain.jobs import JobState
from riverui.web.api.models import EXAMPLE_TIME, Count, Id, Model, Time

Json = dict[str, Any]
"""A JSON object of River Pro's, passed on unchanged."""
Phase = Literal["not_started", "waiting", "resolved", "unknown"]


class TermResult(Model, frozen=True, kw_only=True):
    """The result of a term."""

    matched_count: int
    required_count: int
    satisfied: bool
    last_matched_id: int | UnsetType = UNSET


class Term(Model, frozen=True, kw_only=True):
    """One term of a wait."""

    kind: str
    label: str
    name: str
    expr_cel: str | UnsetType = UNSET
    signal_key: str | UnsetType = UNSET
    timer_name: str | UnsetType = UNSET
    result: TermResult | UnsetType = UNSET


class DepInput(Model, frozen=True, kw_only=True):
    """A task that is waited for."""

    task_name: str


class SignalInput(Model, frozen=True, kw_only=True):
    """A signal that is waited for."""

    key: str
    result: Json | UnsetType = UNSET


class Anchor(Model, frozen=True, kw_only=True):
    """What a timer counts from."""

    kind: str


class TimerInput(Model, frozen=True, kw_only=True):
    """A timer that is waited for."""

    name: str
    after_us: int | UnsetType = UNSET
    after_seconds: float | UnsetType = UNSET
    anchor: Anchor | UnsetType = UNSET
    fire_at: str | UnsetType = UNSET
    result: Json | UnsetType = UNSET


class Inputs(Model, frozen=True, kw_only=True):
    """What a wait depends on."""

    deps: list[DepInput]
    signals: list[SignalInput]
    timers: list[TimerInput]


class Evidence(Model, frozen=True, kw_only=True):
    """When, and in which attempt of its workflow, a wait was resolved."""

    evaluated_at: str
    workflow_attempt: int


class Wait(Model, frozen=True, kw_only=True):
    """What a task waits for besides its dependencies, and its progress."""

    expr_cel: str
    phase: Phase
    started_at: str | UnsetType = UNSET
    resolved_at: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    evidence: Evidence | UnsetType = UNSET
    inputs: Inputs
    terms: list[Term]


class DepDiagnosis(Model, frozen=True, kw_only=True):
    """A task that is waited for, in its current state."""

    available: bool
    finalized_at: Time | UnsetType = UNSET
    state: JobState | UnsetType = UNSET
    task_name: str


class SignalDiagnosis(Model, frozen=True, kw_only=True):
    """The signals of one key that have arrived."""

    included_count: Count
    key: str
    last_id: Id | UnsetType = UNSET


class TimerDiagnosis(Model, frozen=True, kw_only=True):
    """A timer, and whether its time has come."""

    fire_at: str | UnsetType = UNSET
    fired: bool
    name: str


class InputsDiagnosis(Model, frozen=True, kw_only=True):
    """What a wait depends on, in its current state."""

    deps: list[DepDiagnosis]
    signals: list[SignalDiagnosis]
    timers: list[TimerDiagnosis]


class TermDiagnosis(TermResult, frozen=True, kw_only=True):
    """One term of a wait, as it was last evaluated."""

    name: str


class Diagnostics(Model, frozen=True, kw_only=True):
    """What a task waits for and what has arrived."""

    eval_error: str
    inputs: InputsDiagnosis
    inspected_at: Time
    phase: Phase
    signal_scan_count: Count
    signal_scan_limit: Count
    terms: list[TermDiagnosis]
    truncated: bool
    workflow_attempt: int

    @classmethod
    def example(cls) -> Self:
        """Return a wait for an approval that has not arrived."""
        return cls(
            eval_error="riverui does not evaluate wait expressions.",
            inputs=InputsDiagnosis(
                deps=[
                    DepDiagnosis(
                        available=True,
                        finalized_at=EXAMPLE_TIME,
                        state=JobState.COMPLETED,
                        task_name="read_file",
                    )
                ],
                signals=[SignalDiagnosis(included_count=0, key="approval")],
                timers=[TimerDiagnosis(fire_at=EXAMPLE_TIME, fired=False, name="late")],
            ),
            inspected_at=EXAMPLE_TIME,
            phase="waiting",
            signal_scan_count=0,
            signal_scan_limit=1000,
            terms=[
                TermDiagnosis(name="approved", matched_count=0, required_count=1, satisfied=False)
            ],
            truncated=False,
            workflow_attempt=1,
        )
