"""River Pro's paths: periodic jobs, producers, workflows. They answer where its tables are."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import workflows as actions
from riverui.domain.jobs import JobState, JobTextRow
from riverui.domain.workflows import SignalRow, Task, WorkflowRow
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface import WORKFLOWS, Executor, WorkflowExecutor
from riverui.storage.interface.workflows import WORKFLOW_TABLES
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.job_models import JobMinimal
from riverui.web.api.models import Id, NeededText
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.sections.workflows import workflow_waits
from riverui.web.sections.workflows.models import (
    Activity,
    Cancelled,
    PeriodicJob,
    PeriodicJobs,
    Producer,
    Producers,
    Retried,
    Scope,
    Signal,
    Signals,
    Workflow,
    WorkflowListed,
    WorkflowRetry,
    Workflows,
)
from riverui.web.sections.workflows.wait_models import (
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

log = logging.getLogger("riverui.actions")

_GROUP = "River Pro"
_LIMIT = 100
"""Rows that an answer holds unless another number is asked for, as in River UI."""
_STALE = timedelta(hours=24)
"""How long after its last update a periodic job is listed, as in River UI."""
_SIGNALS, _MOST_SIGNALS = 20, 100
"""Signals that an answer holds unless another number is asked for, and at most, as in River UI."""
_SCANNED = 1_000
"""Signals that are looked at where an answer depends on all of them."""
_STATES = {"": None, "active": True, "inactive": False}
_BOOLEANS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


async def periodic_jobs(request: Request) -> Response:
    """Answer durable periodic jobs updated within the last day."""
    limit = requests.limit(request, _LIMIT)
    async with dashboard(request).driver.reading() as executor:
        pro = await _need(
            executor, {"river_periodic_job"}, "Durable periodic jobs need River Pro's migrations."
        )
        rows = await pro.periodic_job_list(updated_after=datetime.now(UTC) - _STALE, limit=limit)
    return serializers.reply(PeriodicJobs(data=[PeriodicJob.of(row) for row in rows]))


async def producers(request: Request) -> Response:
    """Answer the clients that fetch from a queue, and what each of them works."""
    queue = requests.first(request, "queue_name")
    if not queue:
        raise BadRequest("`queue_name` is missing.")
    async with dashboard(request).driver.reading() as executor:
        pro = await _need(executor, {"river_producer"}, "Producers need River Pro's migrations.")
        rows = await pro.producer_list(queue)
    return serializers.reply(Producers(data=[Producer.of(row) for row in rows]))


async def workflows(request: Request) -> Response:
    """Answer workflows with their tasks counted, the highest id first."""
    state, limit = requests.first(request, "state"), requests.limit(request, _LIMIT)
    if state not in _STATES:
        raise BadRequest("`state` must be active or inactive, or be left out.")
    async with dashboard(request).driver.reading() as executor:
        pro = await _need_workflows(executor)
        rows = await pro.workflow_list(
            after=requests.first(request, "after"), active=_STATES[state], limit=limit
        )
    return serializers.reply(Workflows(data=[WorkflowListed.of(row) for row in rows]))


async def workflow(request: Request) -> Response:
    """Answer one workflow with all its tasks."""
    async with dashboard(request).driver.reading() as executor:
        pro = await _need_workflows(executor)
        found = await _workflow(request, pro)
        rows = await pro.workflow_task_list(found.id)
    tasks = actions.tasks(rows)
    by_name = {task.name: task for task in tasks}
    models = [
        workflow_waits.task_model(row, task, by_name) for row, task in zip(rows, tasks, strict=True)
    ]
    return serializers.reply(Workflow(id=found.id, name=found.name, tasks=models))


async def cancel(request: Request) -> Response:
    """Cancel the unfinished tasks of a workflow, and answer them."""
    board, workflow_id = dashboard(request), request.path_params["id"]
    await requests.payload(request)
    async with board.driver.reading() as executor:
        await _need_workflows(executor)
    rows = await actions.cancel(board.driver, workflow_id, time_limit=board.config.action_timeout)
    _note(request, "cancel", rows)
    return serializers.reply(Cancelled(cancelled_jobs=[JobMinimal.of(row) for row in rows]))


async def retry(request: Request) -> Response:
    """Retry finished tasks of a workflow, and answer them."""
    board, workflow_id = dashboard(request), request.path_params["id"]
    asked = await requests.read(request, WorkflowRetry)
    async with board.driver.reading() as executor:
        await _need_workflows(executor)
    rows = await actions.retry(
        board.driver,
        workflow_id,
        asked.mode,
        reset=asked.reset_history,
        time_limit=board.config.action_timeout,
    )
    _note(request, f"retry {asked.mode}", rows)
    return serializers.reply(Retried(retried_jobs=[JobMinimal.of(row) for row in rows]))


async def signals(request: Request) -> Response:
    """Answer the signals that a task waits for: all, or those that its wait was resolved by."""
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
        pro = await _need_workflows(executor)
        found = await _workflow(request, pro)
        task = await _task(pro, found, asked["task_name"])
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
        rows = await pro.workflow_signal_list(
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
            signals=[Signal.of(row) for row in rows[:limit]],
        )
    )


async def diagnostics(request: Request) -> Response:
    """Answer what a task waits for and what has arrived. Expressions are not evaluated."""
    async with dashboard(request).driver.reading() as executor:
        pro = await _need_workflows(executor)
        found = await _workflow(request, pro)
        tasks = {task.name: task for task in actions.tasks(await pro.workflow_task_list(found.id))}
        task = tasks.get(requests.first(request, "task_name"))
        if task is None:
            name = requests.first(request, "task_name")
            raise NotFound(f"task {_quoted(name)} not found in workflow {_quoted(found.id)}.")
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


async def _need(
    executor: Executor, tables: set[str] | frozenset[str], words: str
) -> WorkflowExecutor:
    """Return the executor for these tables; BadRequest with `words` where they do not exist."""
    pro = WORKFLOWS.on(executor)
    if not tables.issubset(await pro.pro_tables()):
        raise BadRequest(words)
    return pro


async def _need_workflows(executor: Executor) -> WorkflowExecutor:
    return await _need(
        executor,
        WORKFLOW_TABLES,
        "Workflow queries require River Pro migrations version 6 or newer.",
    )


async def _workflow(request: Request, pro: WorkflowExecutor) -> WorkflowRow:
    workflow_id = request.path_params["id"]
    found = await pro.workflow_get(workflow_id)
    if found is None:
        raise NotFound(f"Workflow not found: {workflow_id[:200]}.")
    return found


async def _task(pro: WorkflowExecutor, found: WorkflowRow, name: str) -> Task:
    if not name:
        raise BadRequest("`task_name` is missing.")
    for task in actions.tasks(await pro.workflow_task_list(found.id)):
        if task.name == name:
            return task
    raise NotFound(f"task {_quoted(name)} not found in workflow {_quoted(found.id)}.")


def _keys(found: WorkflowRow, task: Task, key: str, term_name: str) -> list[str]:
    """Return the signal keys to look for; BadRequest where the task does not wait for them."""
    declared = workflow_waits.signal_keys(task)
    if term_name:
        term = workflow_waits.term_named(task, term_name)
        wait = f"task {_quoted(task.name)} wait term {_quoted(term_name)}"
        if term is None:
            raise BadRequest(f"{wait} not found in workflow {_quoted(found.id)}.")
        if term.get("kind") != "signal":
            raise BadRequest(f"{wait} is {str(term.get('kind'))[:40]}, not signal.")
        return [str(term.get("signal_key"))]
    if not declared:
        raise BadRequest("The task does not wait for signals.")
    if key and key not in declared:
        raise BadRequest(f"The task does not wait for a signal {key[:40]!r}.")
    return [key] if key else declared


def _quoted(text: str) -> str:
    """Return a name for an error, bounded."""
    return serializers.dump(text[:200])


def _note(request: Request, verb: str, rows: Sequence[JobTextRow]) -> None:
    """Log what was changed, and have the states counted anew."""
    dashboard(request).counts.expire()
    workflow_id = request.path_params["id"]
    log.info(
        "%s of workflow %r by %r: %d changed", verb, workflow_id, access(request).user, len(rows)
    )


def _scope(text: str) -> Scope:
    """Return the scope that a parameter names, the history where it is missing."""
    if text == "evidence":
        return "evidence"
    if text in ("", "history"):
        return "history"
    raise BadRequest(f"Task signal scope {_quoted(text)} is invalid.")


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


_WORKFLOW = in_path("id", "The workflow's id.", NeededText)
_TASK = Parameter(name="task_name", summary="The task's name.", type=NeededText, required=True)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/pro/periodic-jobs",
        "api.pro.periodic_jobs",
        "jobs.read",
        periodic_jobs,
        Description(
            group=_GROUP,
            summary="Durable periodic jobs updated within the last day.",
            answer=PeriodicJobs,
            parameters=(limit(_LIMIT),),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/producers",
        "api.pro.producers",
        "queues.read",
        producers,
        Description(
            group=_GROUP,
            summary="The clients that fetch from a queue.",
            answer=Producers,
            parameters=(
                Parameter(name="queue_name", summary="The queue.", type=NeededText, required=True),
            ),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/workflows",
        "api.pro.workflows",
        "jobs.read",
        workflows,
        Description(
            group=_GROUP,
            summary="Workflows with their task counts, highest id first.",
            answer=Workflows,
            parameters=(
                Parameter(
                    name="state", summary="With unfinished tasks, or without.", type=Activity
                ),
                Parameter(name="after", summary="Continue after this id."),
                limit(_LIMIT),
            ),
        ),
    ),
    Endpoint(
        "POST",
        "/api/pro/workflows/{id:river_rest}/cancel",
        "api.pro.cancel",
        "jobs.cancel",
        cancel,
        Description(
            group=_GROUP,
            summary="Cancels the unfinished tasks of a workflow.",
            answer=Cancelled,
            parameters=(_WORKFLOW,),
            fails=(404, 413),
        ),
    ),
    Endpoint(
        "POST",
        "/api/pro/workflows/{id:river_rest}/retry",
        "api.pro.retry",
        "jobs.retry",
        retry,
        Description(
            group=_GROUP,
            summary="Retries finished tasks of a workflow.",
            answer=Retried,
            body=(WorkflowRetry,),
            parameters=(_WORKFLOW,),
            fails=(404, 409),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/workflows/{id:river_rest}/task-signals",
        "api.pro.signals",
        "jobs.read",
        signals,
        Description(
            group=_GROUP,
            summary="The signals that a task waits for.",
            answer=Signals,
            parameters=(
                _WORKFLOW,
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
            fails=(404,),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/workflows/{id:river_rest}/task-wait-diagnostics",
        "api.pro.diagnostics",
        "jobs.read",
        diagnostics,
        Description(
            group=_GROUP,
            summary="What a task waits for and what has arrived; expressions are not evaluated.",
            answer=Diagnostics,
            parameters=(_WORKFLOW, _TASK),
            fails=(404,),
        ),
    ),
    # Behind the addresses that begin like this one.
    Endpoint(
        "GET",
        "/api/pro/workflows/{id:river_rest}",
        "api.pro.workflow",
        "jobs.read",
        workflow,
        Description(
            group=_GROUP,
            summary="One workflow with all its tasks.",
            answer=Workflow,
            parameters=(_WORKFLOW,),
            fails=(404,),
        ),
    ),
)
"""The section's part of the API."""
