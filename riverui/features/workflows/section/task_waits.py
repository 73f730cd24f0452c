"""What the tasks of River Pro's workflows wait for: signals, timers and other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, NotFound
from riverui.features.workflows.domain.workflows import SignalRow, Task, WorkflowRow
from riverui.features.workflows.section import own_waits, workflow_waits
from riverui.features.workflows.section.models import (
    Scope,
    Signal,
    Signals,
)
from riverui.features.workflows.section.required import (
    GROUP,
    WORKFLOW,
    need_workflows,
    quoted,
    task_of,
    workflow_of,
)
from riverui.features.workflows.section.signal_sources import SignalSource
from riverui.features.workflows.section.wait_models import (
    DepDiagnosis,
    Diagnostics,
    InputsDiagnosis,
    SignalDiagnosis,
    Term,
    TermDiagnosis,
    TermResult,
    TimerDiagnosis,
    TimerInput,
)
from riverui.features.workflows.verbs import workflows as actions
from riverui.storage.interface import Executor
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.models import Id, NeededText
from riverui.web.http.context import dashboard

_SIGNALS, _MOST_SIGNALS = 20, 100
"""Signals of an answer by default, and at most, as in River UI."""
_SCANNED = 1_000
"""Signals that are read if an answer depends on all of them."""
_BOOLEANS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


async def signals(request: Request) -> Response:
    """Return the signals that a task waits for: all, or those that resolved its wait."""
    asked = {
        name: requests.first(request, name) for name in ("task_name", "key", "term_name", "scope")
    }
    scope = _scope(asked["scope"])
    if asked["key"] and asked["term_name"]:
        raise BadRequest("Task signal key and term name are mutually exclusive.")
    limit = min(_whole(request, "limit", _SIGNALS, least=1), _MOST_SIGNALS)
    cursor_id = _whole(request, "cursor_id", 0)
    desc = requests.first(request, "desc").lower()
    if desc and desc not in _BOOLEANS:
        raise BadRequest("`desc` must be true or false.")
    descending = _BOOLEANS.get(desc, True)
    async with dashboard(request).driver.reading() as executor:
        source = await own_waits.source(executor, request.path_params["id"], asked["task_name"])
        if source is None:
            source = await _pro_source(request, executor, asked["task_name"])
        found, task, signal_list = source
        keys = _keys(found, task, asked["key"], asked["term_name"])
        attempt, evidence = _whole(request, "workflow_attempt", found.attempt, least=1), None
        if scope == "evidence":
            evidence = workflow_waits.evidence(task)
            if evidence is None:
                raise BadRequest(
                    "Wait evidence is unavailable before the wait resolves. "
                    "Use diagnostics or signal history instead."
                )
            attempt = evidence.workflow_attempt
        rows = await signal_list(
            found.id,
            attempt=attempt,
            keys=keys,
            cursor_id=cursor_id,
            descending=descending,
            limit=limit + 1 if evidence is None else _SCANNED,
        )
    if evidence is not None:
        last = workflow_waits.included(task)
        rows = [row for row in rows if row.id <= last.get(row.key, 0)]
    more = len(rows) > limit
    return serializers.reply(
        Signals(
            evidence=evidence or UNSET,
            has_more=more,
            next_cursor_id=rows[limit - 1].id if more else UNSET,
            scope=scope,
            signals=[Signal.from_row(row) for row in rows[:limit]],
        )
    )


async def diagnostics(request: Request) -> Response:
    """Return what a task waits for and what has arrived. Only riverui's own workflows have their
    expressions evaluated.
    """
    async with dashboard(request).driver.reading() as executor:
        name = requests.first(request, "task_name")
        own = await own_waits.source(executor, request.path_params["id"], name)
        if own is not None:
            return serializers.reply(await own_waits.diagnostics(request, executor, own))
        pro = await need_workflows(executor)
        found = await workflow_of(request, pro)
        tasks = {task.name: task for task in actions.tasks(await pro.workflow_task_list(found.id))}
        task = tasks.get(requests.first(request, "task_name"))
        if task is None:
            name = requests.first(request, "task_name")
            raise NotFound(f"task {quoted(name)} not found in workflow {quoted(found.id)}.")
        keys = workflow_waits.signal_keys(task)
        rows = await pro.workflow_signal_list(
            found.id, attempt=found.attempt, keys=keys, descending=False, limit=_SCANNED
        )
    now, waited = datetime.now(UTC), workflow_waits.wait(task)
    timers, terms = (waited.inputs.timers, waited.terms) if waited else ([], [])
    return serializers.reply(
        Diagnostics(
            eval_error="riverui does not evaluate wait expressions.",
            inputs=InputsDiagnosis(
                deps=[_dep(name, tasks.get(name)) for name in task.deps],
                signals=[_arrived(key, rows) for key in keys],
                timers=[_timer(timer, now) for timer in timers],
            ),
            inspected_at=serializers.instant(now),
            phase=workflow_waits.phase(task),
            signal_scan_count=len(rows),
            signal_scan_limit=_SCANNED,
            terms=[_term(term) for term in terms],
            truncated=len(rows) >= _SCANNED,
            workflow_attempt=found.attempt,
        )
    )


async def _pro_source(request: Request, executor: Executor, name: str) -> SignalSource:
    pro = await need_workflows(executor)
    found = await workflow_of(request, pro)
    return SignalSource(found, await task_of(pro, found, name), pro.workflow_signal_list)


def _keys(found: WorkflowRow, task: Task, key: str, term_name: str) -> list[str]:
    """Return the signal keys to look for; raise BadRequest if the task does not wait for them."""
    declared = workflow_waits.signal_keys(task)
    if term_name:
        term = workflow_waits.term_named(task, term_name)
        wait = f"task {quoted(task.name)} wait term {quoted(term_name)}"
        if term is None:
            raise BadRequest(f"{wait} not found in workflow {quoted(found.id)}.")
        if term.get("kind") != "signal":
            raise BadRequest(f"{wait} is {str(term.get('kind'))[:40]}, not signal.")
        return [str(term.get("signal_key"))]
    if not declared:
        raise BadRequest("The task does not wait for signals.")
    if key and key not in declared:
        raise BadRequest(f"The task does not wait for a signal {key[:40]!r}.")
    return [key] if key else declared


def _scope(text: str) -> Scope:
    """Return the scope that a parameter names, by default the history."""
    if text == "evidence":
        return "evidence"
    if text in ("", "history"):
        return "history"
    raise BadRequest(f"Task signal scope {quoted(text)} is invalid.")


def _dep(name: str, task: Task | None) -> DepDiagnosis:
    if task is None:
        return DepDiagnosis(available=False, task_name=name)
    ended = task.job.finalized_at
    return DepDiagnosis(
        available=task.job.state is JobState.COMPLETED,
        finalized_at=UNSET if ended is None else serializers.instant(ended),
        state=task.job.state,
        task_name=name,
    )


def _arrived(key: str, rows: Sequence[SignalRow]) -> SignalDiagnosis:
    ids = [row.id for row in rows if row.key == key]
    return SignalDiagnosis(included_count=len(ids), key=key, last_id=ids[-1] if ids else UNSET)


def _timer(timer: TimerInput, now: datetime) -> TimerDiagnosis:
    at = timer.fire_at or UNSET
    fired = at is not UNSET and _is_past(at, now)
    return TimerDiagnosis(fire_at=at, fired=fired, name=timer.name)


def _term(term: Term) -> TermDiagnosis:
    known = term.result
    if known is UNSET:
        known = TermResult(matched_count=0, required_count=1, satisfied=False)
    return TermDiagnosis(name=term.name, **msgspec.structs.asdict(known))


def _is_past(text: str, now: datetime) -> bool:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    return at.tzinfo is not None and at <= now


def _whole(request: Request, name: str, default: int, *, least: int = 0) -> int:
    text = requests.first(request, name)
    number = requests.integer(text) if text else default
    if number is None or number < least:
        raise BadRequest(f"`{name}` must be a whole number, {least} or more.")
    return number


_TASK = Parameter(name="task_name", summary="The task's name.", type=NeededText, required=True)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/pro/workflows/{id:river_rest}/task-signals",
        "api.pro.signals",
        "jobs.read",
        signals,
        Description(
            group=GROUP,
            summary="The signals that a task waits for.",
            answer=Signals,
            parameters=(
                WORKFLOW,
                _TASK,
                Parameter(name="key", summary="Only those with this key."),
                Parameter(name="term_name", summary="Only those of this term."),
                Parameter(
                    name="scope",
                    summary="All, or only those that resolved the wait.",
                    type=Scope,
                    default="history",
                ),
                Parameter(
                    name="cursor_id",
                    summary="Continue after this signal.",
                    type=Annotated[Id, Meta(ge=0)],
                ),
                Parameter(name="desc", summary="The latest first.", type=bool, default=True),
                Parameter(
                    name="limit",
                    summary="Maximum number of signals, up to 100.",
                    type=Annotated[int, Meta(ge=1)],
                    default=_SIGNALS,
                ),
                Parameter(
                    name="workflow_attempt",
                    summary="Of this attempt instead of the latest.",
                    type=Annotated[int, Meta(ge=1)],
                ),
            ),
            fails=(404, 501),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/workflows/{id:river_rest}/task-wait-diagnostics",
        "api.pro.diagnostics",
        "jobs.read",
        diagnostics,
        Description(
            group=GROUP,
            summary="What a task waits for and what has arrived; expressions are evaluated for"
            " riverui's own workflows alone.",
            answer=Diagnostics,
            parameters=(WORKFLOW, _TASK),
            fails=(404, 501),
        ),
    ),
)
"""Their part of the API."""
