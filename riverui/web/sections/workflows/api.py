"""River Pro's paths: periodic jobs, producers, workflows. They answer where its tables are."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import workflows as actions
from riverui.domain.jobs import JobState, JobTextRow
from riverui.domain.stored_json import UnreadableJson, read_json, read_object
from riverui.domain.workflows import RETRY_MODES, ProducerRow, Task, WorkflowListRow, WorkflowRow
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface import WORKFLOWS, Executor, WorkflowExecutor
from riverui.storage.interface.workflows import WORKFLOW_TABLES
from riverui.web.api import requests, serializers
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.sections.workflows import workflow_waits

log = logging.getLogger("riverui.actions")

_LIMIT = 100
_STALE = timedelta(hours=24)
_SIGNALS, _MOST_SIGNALS = 20, 100
_SCANNED = 1_000
_STATES = {"": None, "active": True, "inactive": False}
_SCOPES = ("history", "evidence")
_BOOLEANS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


async def periodic_jobs(request: Request) -> Response:
    """Durable periodic jobs updated within the last day."""
    limit = requests.limit(request, _LIMIT)
    async with dashboard(request).driver.reading() as executor:
        pro = await _need(
            executor, {"river_periodic_job"}, "Durable periodic jobs need River Pro's migrations."
        )
        rows = await pro.periodic_job_list(updated_after=datetime.now(UTC) - _STALE, limit=limit)
    found = [
        {
            "id": row.id,
            "created_at": serializers.instant(row.created_at),
            "next_run_at": serializers.instant(row.next_run_at),
            "updated_at": serializers.instant(row.updated_at),
        }
        for row in rows
    ]
    return serializers.reply(serializers.listing(found))


async def producers(request: Request) -> Response:
    """The clients that fetch from a queue, and what each of them works."""
    queue = requests.first(request, "queue_name")
    if not queue:
        raise BadRequest("`queue_name` is missing.")
    async with dashboard(request).driver.reading() as executor:
        pro = await _need(executor, {"river_producer"}, "Producers need River Pro's migrations.")
        rows = await pro.producer_list(queue)
    return serializers.reply(serializers.listing([_producer(row) for row in rows]))


async def workflows(request: Request) -> Response:
    """Workflows with their tasks counted, the newest id first."""
    state, limit = requests.first(request, "state"), requests.limit(request, _LIMIT)
    if state not in _STATES:
        raise BadRequest("`state` must be active or inactive, or be left out.")
    async with dashboard(request).driver.reading() as executor:
        pro = await _need_workflows(executor)
        rows = await pro.workflow_list(
            after=requests.first(request, "after"), active=_STATES[state], limit=limit
        )
    return serializers.reply(serializers.listing([_listed(row) for row in rows]))


async def workflow(request: Request) -> Response:
    """One workflow with all its tasks."""
    async with dashboard(request).driver.reading() as executor:
        pro = await _need_workflows(executor)
        found = await _workflow(request, pro)
        rows = await pro.workflow_task_list(found.id)
    tasks = actions.tasks(rows)
    by_name = {task.name: task for task in tasks}
    told = ",".join(
        serializers.job(row).removesuffix("}")
        + ","
        + serializers.dump(workflow_waits.fields(task, by_name)).removeprefix("{")
        for row, task in zip(rows, tasks, strict=True)
    )
    head = serializers.dump({"id": found.id, "name": found.name}).removesuffix("}")
    return serializers.reply(f'{head},"tasks":[{told}]}}')


async def cancel(request: Request) -> Response:
    """Cancels the unfinished tasks of a workflow."""
    board, workflow_id = dashboard(request), request.path_params["id"]
    await requests.payload(request)
    async with board.driver.reading() as executor:
        await _need_workflows(executor)
    rows = await actions.cancel(board.driver, workflow_id, time_limit=board.config.action_timeout)
    return _changed(request, "cancel", "cancelled_jobs", rows)


async def retry(request: Request) -> Response:
    """Retries finished tasks of a workflow."""
    board, workflow_id = dashboard(request), request.path_params["id"]
    posted = await requests.payload(request)
    mode, reset = posted.get("mode") or "all", posted.get("reset_history") or False
    if mode not in RETRY_MODES:
        raise BadRequest(f"`mode` must be one of {', '.join(RETRY_MODES)}.")
    if type(reset) is not bool:
        raise BadRequest("`reset_history` must be true or false.")
    async with board.driver.reading() as executor:
        await _need_workflows(executor)
    rows = await actions.retry(
        board.driver, workflow_id, mode, reset=reset, time_limit=board.config.action_timeout
    )
    return _changed(request, f"retry {mode}", "retried_jobs", rows)


async def signals(request: Request) -> Response:
    """The signals that a task waits for: all of them, or those that its wait was resolved by."""
    asked = {
        name: requests.first(request, name) for name in ("task_name", "key", "term_name", "scope")
    }
    scope = asked["scope"] or "history"
    if scope not in _SCOPES:
        raise BadRequest(f"Task signal scope {_quoted(scope)} is invalid.")
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
            attempt = evidence["workflow_attempt"]
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
    page: dict[str, Any] = {} if evidence is None else {"evidence": evidence}
    page["has_more"] = len(rows) > limit
    if len(rows) > limit:
        page["next_cursor_id"] = rows[limit - 1].id
    page["scope"] = scope
    page["signals"] = [
        {
            "attempt": row.attempt,
            "created_at": serializers.instant(row.created_at),
            "id": row.id,
            "key": row.key,
            "payload": _value(row.payload),
            "source": _value(row.source),
        }
        for row in rows[:limit]
    ]
    return serializers.reply(page)


async def diagnostics(request: Request) -> Response:
    """What a task waits for and what is there of it. Expressions are not evaluated here."""
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
    now = datetime.now(UTC)
    per_key = {key: [row.id for row in rows if row.key == key] for key in keys}
    return serializers.reply(
        {
            "eval_error": "riverui does not evaluate wait expressions.",
            "inputs": {
                "deps": [_dep(name, tasks.get(name)) for name in task.deps],
                "signals": [
                    {"included_count": len(ids), "key": key} | ({"last_id": ids[-1]} if ids else {})
                    for key, ids in per_key.items()
                ],
                "timers": [_timer(timer, now) for timer in workflow_waits.timers_of(task)],
            },
            "inspected_at": serializers.instant(now),
            "phase": workflow_waits.phase(task),
            "signal_scan_count": len(rows),
            "signal_scan_limit": _SCANNED,
            "terms": [_term(term) for term in workflow_waits.terms_of(task)],
            "truncated": len(rows) >= _SCANNED,
            "workflow_attempt": found.attempt,
        }
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
    """The signal keys to look for; BadRequest where the task does not wait for them."""
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
    """A name in an error, bounded."""
    return serializers.dump(text[:200])


def _changed(request: Request, verb: str, name: str, rows: Sequence[JobTextRow]) -> Response:
    dashboard(request).counts.expire()
    workflow_id = request.path_params["id"]
    log.info(
        "%s of workflow %r by %r: %d changed", verb, workflow_id, access(request).user, len(rows)
    )
    return serializers.reply({name: [serializers.job_minimal(row.job) for row in rows]})


def _value(text: str | None) -> Any:
    """Return a JSON value; null for one that Python cannot hold."""
    try:
        return read_json(text or "null")
    except UnreadableJson:
        return None


def _producer(row: ProducerRow) -> dict[str, Any]:
    limits = read_object(row.metadata).get("concurrency") or {}
    running = limits.get("running") if isinstance(limits, dict) else None
    counts = [
        item.get("count") if isinstance(item, dict) else item
        for item in (running.values() if isinstance(running, dict) else ())
    ]
    return {
        "id": row.id,
        "client_id": row.client_id,
        "concurrency": serializers.concurrency(limits),
        "created_at": serializers.instant(row.created_at),
        "max_workers": row.max_workers,
        "paused_at": serializers.optional_instant(row.paused_at),
        "queue_name": row.queue_name,
        "running": sum(count for count in counts if isinstance(count, int)),
        "updated_at": serializers.instant(row.updated_at),
    }


def _listed(row: WorkflowListRow) -> dict[str, Any]:
    counts: dict[str, Any] = {
        f"count_{state.value}": number for state, number in row.counts.items()
    }
    counts["count_failed_deps"] = row.failed_deps
    named = {"created_at": serializers.instant(row.created_at), "id": row.id, "name": row.name}
    return dict(sorted(counts.items())) | named


def _dep(name: str, task: Task | None) -> dict[str, Any]:
    if task is None:
        return {"available": False, "task_name": name}
    found: dict[str, Any] = {"available": task.job.state is JobState.COMPLETED}
    if task.job.finalized_at is not None:
        found["finalized_at"] = serializers.instant(task.job.finalized_at)
    return found | {"state": task.job.state.value, "task_name": name}


def _timer(timer: dict[str, Any], now: datetime) -> dict[str, Any]:
    at = timer.get("fire_at")
    found: dict[str, Any] = {"fire_at": at} if at else {}
    return found | {"fired": bool(at) and _is_past(str(at), now), "name": timer["name"]}


def _is_past(text: str, now: datetime) -> bool:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    return at.tzinfo is not None and at <= now


def _term(term: dict[str, Any]) -> dict[str, Any]:
    known = term.get("result") or {"matched_count": 0, "required_count": 1, "satisfied": False}
    return known | {"name": term["name"]}


def _whole(request: Request, name: str, default: int, *, least: int = 0) -> int:
    text = requests.first(request, name)
    number = requests.integer(text) if text else default
    if number is None or number < least:
        raise BadRequest(f"`{name}` must be a whole number, {least} or more.")
    return number
