"""Reports the progress of a task's wait, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from riverui.errors import ExpressionsUnavailable, NotFound, WaitInvalid
from riverui.features.workflows.waits.domain import Phase, SignalCount, TermResult
from riverui.features.workflows.waits.expressions import Expressions
from riverui.features.workflows.waits.store import WaitDep, WaitFacts, WaitRow
from riverui.features.workflows.waits.verbs import signals, waits
from riverui.storage.interface import Executor

_PHASES: Mapping[str, Phase] = {"waiting": "not_started", "wait": "waiting"}


class WaitDiagnosis(NamedTuple):
    """The progress of a task's wait."""

    row: WaitRow
    facts: WaitFacts
    deps: Sequence[WaitDep]
    phase: Phase
    over: bool
    """Whether the expression is true now."""
    results: Mapping[str, TermResult]
    """By term; empty if the wait cannot be evaluated."""
    required: Mapping[str, int]
    """How many signals terms need, by term."""
    signals: Mapping[str, SignalCount]
    """The signals received, by key."""
    fires: Mapping[str, datetime | None]
    """When timers fire, by term."""
    scanned: int
    """Number of signals evaluated."""
    truncated: bool
    """Whether there are more signals."""
    eval_error: str


async def diagnose(
    executor: Executor, expressions: Expressions, id: str, task: str
) -> WaitDiagnosis:
    """Return the progress of a task's wait. Raise NotFound if the task does not exist or has no
    wait.
    """
    found = await signals.need(executor)
    row = await found.workflow_wait_get(id, task)
    known = await found.workflow_wait_facts([(id, task)]) if row else []
    if row is None or row.wait == "null" or not known:
        raise NotFound(f"Workflow {id[:128]!r} has no task {task[:200]!r} with a wait.")
    facts = known[0]
    deps = await found.workflow_wait_dep_list([(id, task)])
    phase = _PHASES.get(row.state, "resolved")
    nothing = WaitDiagnosis(row, facts, deps, phase, False, {}, {}, {}, {}, 0, False, "")
    try:
        wait = signals.wait_of(row)
    except WaitInvalid as error:
        return nothing._replace(eval_error=str(error), phase="unknown")
    gathered = await waits.gather(found, row, wait, facts, deps)
    try:
        seen = await waits.look(expressions, gathered)
    except ExpressionsUnavailable as error:
        return nothing._replace(eval_error=str(error))
    return nothing._replace(
        over=seen.over,
        results=seen.results,
        required={term.name: term.required_count for term in wait.signal_terms},
        signals=seen.progress.signals,
        fires=seen.fires,
        scanned=seen.scanned,
        truncated=seen.more,
        eval_error=seen.progress.error,
    )
