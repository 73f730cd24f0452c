"""Reads what a workflow's task waits for from its job's metadata.

Unknown forms are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from riverui.domain.jobs import JobState, JobTextRow
from riverui.domain.values import is_bigint
from riverui.features.workflows.domain.workflows import Task
from riverui.features.workflows.section.models import WaitReason, WorkflowTask
from riverui.features.workflows.section.wait_models import (
    Anchor,
    DepInput,
    Evidence,
    Inputs,
    Phase,
    SignalInput,
    Term,
    TermResult,
    TimerInput,
    Wait,
)

_SPEC, _STATE = "river:workflow_wait", "river:workflow_wait_state"
_FLAGS = {"ignore_cancelled_deps": JobState.CANCELLED, "ignore_discarded_deps": JobState.DISCARDED}


def task_model(row: JobTextRow, task: Task, others: Mapping[str, Task]) -> WorkflowTask:
    """Return a task with its job; `others` are the tasks of its workflow by name."""
    waited = wait(task)
    return WorkflowTask.of_text(
        row,
        deps=list(task.deps),
        **{flag: task.metadata.get(flag) is True for flag in (*_FLAGS, "ignore_deleted_deps")},
        name=task.name,
        staged_at=_text_or_unset(task.metadata.get("workflow_staged_at")),
        wait=UNSET if waited is None else waited,
        wait_reason=_reason(task, others, waited),
        workflow_id=str(task.metadata.get("workflow_id")),
    )


def wait(task: Task) -> Wait | None:
    """Return what the task waits for besides its dependencies, and its progress; None
    for nothing.
    """
    spec, state = _object(task.metadata.get(_SPEC)), _object(task.metadata.get(_STATE))
    if not spec:
        return None
    result = _object(state.get("result"))
    terms = _objects(spec.get("terms"))
    signals, fired = _object(result.get("signals")), _object(result.get("timers"))
    return Wait(
        expr_cel=_text(spec.get("expr")),
        phase=phase(task),
        started_at=_text_or_unset(state.get("started_at")),
        resolved_at=_text_or_unset(state.get("resolved_at")),
        summary=_text(result.get("summary")) or UNSET,
        evidence=evidence(task) or UNSET,
        inputs=Inputs(
            deps=[DepInput(task_name=name) for name in task.deps],
            signals=[
                SignalInput(key=key, result=_object_or_unset(signals.get(key)))
                for key in signal_keys(task)
            ],
            timers=[_timer(term, state, fired) for term in terms if term.get("kind") == "timer"],
        ),
        terms=[_term(term, result) for term in terms],
    )


def phase(task: Task) -> Phase:
    """Return the progress of the wait."""
    state = _object(task.metadata.get(_STATE))
    return (
        "resolved"
        if state.get("resolved_at")
        else "waiting"
        if state.get("started_at")
        else "not_started"
    )


def evidence(task: Task) -> Evidence | None:
    """Return when and in which attempt the wait was resolved; None before."""
    state = _object(task.metadata.get(_STATE))
    result = _object(state.get("result"))
    if not state.get("resolved_at") or not isinstance(result.get("as_of"), str):
        return None
    return Evidence(
        evaluated_at=result["as_of"], workflow_attempt=_number(result.get("attempt"), 1)
    )


def included(task: Task) -> Mapping[str, int]:
    """Return the id of the last signal that the evidence includes, by key."""
    result = _object(_object(task.metadata.get(_STATE)).get("result"))
    signals = _object(result.get("signals"))
    return {key: _number(_object(found).get("last_included_id")) for key, found in signals.items()}


def signal_keys(task: Task) -> list[str]:
    """Return the keys of the signals that the task waits for, each once."""
    keys = [term.get("signal_key") for term in _terms(task) if term.get("kind") == "signal"]
    return list(dict.fromkeys(key for key in keys if isinstance(key, str) and key))


def term_named(task: Task, name: str) -> Mapping[str, Any] | None:
    """Return one term of the wait; None if it has none of that name."""
    return next((term for term in _terms(task) if term.get("name") == name), None)


def _terms(task: Task) -> Sequence[Mapping[str, Any]]:
    return _objects(_object(task.metadata.get(_SPEC)).get("terms"))


def _reason(task: Task, others: Mapping[str, Task], waited: Wait | None) -> WaitReason:
    if task.job.state is not JobState.PENDING:
        return "none"
    ignored = {state for flag, state in _FLAGS.items() if task.metadata.get(flag) is True}
    done = {JobState.COMPLETED, *ignored}
    deps = any(name in others and others[name].job.state not in done for name in task.deps)
    waits = waited is not None and waited.phase != "resolved"
    if deps:
        return "dependencies_and_wait" if waits else "dependencies"
    return "wait" if waits else "none"


def _term(term: Mapping[str, Any], result: Mapping[str, Any]) -> Term:
    is_timer = term.get("kind") == "timer"
    known = next(
        (item for item in _objects(result.get("terms")) if item.get("name") == term.get("name")),
        None,
    )
    return Term(
        kind=_text(term.get("kind")),
        label=_text(term.get("label")),
        name=_text(term.get("name")),
        expr_cel=_text(term["expr"]) if term.get("expr") else UNSET,
        signal_key=_text(term["signal_key"]) if term.get("signal_key") else UNSET,
        timer_name=_text(term.get("timer_name") or term.get("name")) if is_timer else UNSET,
        result=UNSET if known is None else _term_result(known),
    )


def _term_result(known: Mapping[str, Any]) -> TermResult:
    last = known.get("last_matched_id")
    return TermResult(
        matched_count=_number(known.get("matched_count")),
        required_count=_number(known.get("required_count")),
        satisfied=known.get("satisfied") is True,
        last_matched_id=UNSET if last is None else _number(last),
    )


def _timer(
    term: Mapping[str, Any], state: Mapping[str, Any], fired: Mapping[str, Any]
) -> TimerInput:
    spec = _object(term.get("timer")) or term
    name, anchor = _text(spec.get("name") or term.get("name")), spec.get("anchor")
    after = spec.get("after_us")
    if not isinstance(after, int) or not is_bigint(after):
        after = UNSET
    at = _object(_object(state.get("timers")).get(name)).get("fire_at") or spec.get("fire_at")
    return TimerInput(
        name=name,
        after_us=after,
        after_seconds=UNSET if after is UNSET else after / 1_000_000,
        anchor=Anchor(kind=_text(anchor.get("kind"))) if isinstance(anchor, dict) else UNSET,
        fire_at=_text_or_unset(at),
        result=_object_or_unset(fired.get(name)),
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text_or_unset(value: object) -> str | UnsetType:
    return value if isinstance(value, str) else UNSET


def _object_or_unset(value: object) -> dict[str, Any] | UnsetType:
    return value if isinstance(value, dict) else UNSET


def _number(value: object, default: int = 0) -> int:
    return value if type(value) is int else default
