"""What a workflow's task waits for, out of its job's metadata; what is not of the known form is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import JobState
from riverui.domain.numbers import is_bigint
from riverui.domain.workflows import Task

_SPEC, _STATE = "river:workflow_wait", "river:workflow_wait_state"
_FLAGS = {"ignore_cancelled_deps": JobState.CANCELLED, "ignore_discarded_deps": JobState.DISCARDED}

Found = dict[str, Any]


def fields(task: Task, others: Mapping[str, Task]) -> Found:
    """What a task has besides its job's own fields."""
    found: Found = {"deps": list(task.deps)}
    found |= {flag: task.metadata.get(flag) is True for flag in (*_FLAGS, "ignore_deleted_deps")}
    found["name"] = task.name
    if isinstance(staged_at := task.metadata.get("workflow_staged_at"), str):
        found["staged_at"] = staged_at
    if (waited := wait(task)) is not None:
        found["wait"] = waited
    found["wait_reason"] = _reason(task, others, waited)
    found["workflow_id"] = str(task.metadata.get("workflow_id"))
    return found


def wait(task: Task) -> Found | None:
    """What the task waits for besides its dependencies, and how far that is; None for nothing."""
    spec, state = _object(task.metadata.get(_SPEC)), _object(task.metadata.get(_STATE))
    if not spec:
        return None
    result = _object(state.get("result"))
    found: Found = {"expr_cel": _text(spec.get("expr")), "phase": phase(task)}
    found |= {
        name: state[name]
        for name in ("started_at", "resolved_at")
        if isinstance(state.get(name), str)
    }
    if summary := _text(result.get("summary")):
        found["summary"] = summary
    if (seen := evidence(task)) is not None:
        found["evidence"] = seen
    terms = [_term(term, result) for term in _objects(spec.get("terms"))]
    signals, fired = _object(result.get("signals")), _object(result.get("timers"))
    timers = [
        _timer(term, state, fired)
        for term in _objects(spec.get("terms"))
        if term.get("kind") == "timer"
    ]
    found["inputs"] = {
        "deps": [{"task_name": name} for name in task.deps],
        "signals": [_with_result({"key": key}, signals.get(key)) for key in signal_keys(task)],
        "timers": timers,
    }
    return found | {"terms": terms}


def phase(task: Task) -> str:
    """How far the wait is."""
    state = _object(task.metadata.get(_STATE))
    return (
        "resolved"
        if state.get("resolved_at")
        else "waiting"
        if state.get("started_at")
        else "not_started"
    )


def evidence(task: Task) -> Found | None:
    """When and in which attempt the wait was found to be over; None before."""
    state = _object(task.metadata.get(_STATE))
    result = _object(state.get("result"))
    if not state.get("resolved_at") or not isinstance(result.get("as_of"), str):
        return None
    return {"evaluated_at": result["as_of"], "workflow_attempt": _number(result.get("attempt"), 1)}


def included(task: Task) -> Mapping[str, int]:
    """Signal key → id of the last signal that the evidence includes."""
    result = _object(_object(task.metadata.get(_STATE)).get("result"))
    signals = _object(result.get("signals"))
    return {key: _number(_object(found).get("last_included_id")) for key, found in signals.items()}


def signal_keys(task: Task) -> list[str]:
    """The keys of the signals that the task waits for, each once."""
    keys = [term.get("signal_key") for term in _terms(task) if term.get("kind") == "signal"]
    return list(dict.fromkeys(key for key in keys if isinstance(key, str) and key))


def term_named(task: Task, name: str) -> Mapping[str, Any] | None:
    """One term of the wait; None where there is none of that name."""
    return next((term for term in _terms(task) if term.get("name") == name), None)


def timers_of(task: Task) -> list[Found]:
    """The task's timers with the times that they fire at."""
    waited = wait(task) or {}
    return list(_object(waited.get("inputs")).get("timers", []))


def terms_of(task: Task) -> list[Found]:
    """The task's terms with what is known of each."""
    return list((wait(task) or {}).get("terms", []))


def _terms(task: Task) -> Sequence[Mapping[str, Any]]:
    return _objects(_object(task.metadata.get(_SPEC)).get("terms"))


def _reason(task: Task, others: Mapping[str, Task], waited: Found | None) -> str:
    if task.job.state is not JobState.PENDING:
        return "none"
    ignored = {state for flag, state in _FLAGS.items() if task.metadata.get(flag) is True}
    done = {JobState.COMPLETED, *ignored}
    deps = any(name in others and others[name].job.state not in done for name in task.deps)
    waits = waited is not None and waited["phase"] != "resolved"
    return {
        (True, True): "dependencies_and_wait",
        (True, False): "dependencies",
        (False, True): "wait",
    }.get((deps, waits), "none")


def _term(term: Mapping[str, Any], result: Mapping[str, Any]) -> Found:
    found: Found = {name: _text(term.get(name)) for name in ("kind", "label", "name")}
    found |= {"expr_cel": _text(term.get("expr"))} if term.get("expr") else {}
    found |= {"signal_key": _text(term["signal_key"])} if term.get("signal_key") else {}
    if term.get("kind") == "timer":
        found["timer_name"] = _text(term.get("timer_name") or term.get("name"))
    known = next(
        (item for item in _objects(result.get("terms")) if item.get("name") == term.get("name")),
        None,
    )
    if known is not None:
        found["result"] = {
            "matched_count": _number(known.get("matched_count")),
            "required_count": _number(known.get("required_count")),
            "satisfied": known.get("satisfied") is True,
        }
        if known.get("last_matched_id") is not None:
            found["result"]["last_matched_id"] = _number(known["last_matched_id"])
    return found


def _timer(term: Mapping[str, Any], state: Mapping[str, Any], fired: Mapping[str, Any]) -> Found:
    spec = _object(term.get("timer")) or term
    found: Found = {"name": _text(spec.get("name") or term.get("name"))}
    if isinstance(spec.get("after_us"), int) and is_bigint(spec["after_us"]):
        found |= {"after_us": spec["after_us"], "after_seconds": spec["after_us"] / 1_000_000}
    if isinstance(anchor := spec.get("anchor"), dict):
        found["anchor"] = {"kind": _text(anchor.get("kind"))}
    at = _object(_object(state.get("timers")).get(found["name"])).get("fire_at") or spec.get(
        "fire_at"
    )
    if isinstance(at, str):
        found["fire_at"] = at
    return _with_result(found, fired.get(found["name"]))


def _with_result(found: Found, result: object) -> Found:
    return found | ({"result": result} if isinstance(result, dict) else {})


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object, default: int = 0) -> int:
    return value if type(value) is int else default
