"""Tasks of riverui's own workflows: the signals they wait for, and the progress of their waits."""

from __future__ import annotations

from msgspec import UNSET
from starlette.requests import Request

from riverui.domain.jobs import JobState
from riverui.domain.json import read_object
from riverui.errors import BadRequest, NotFound
from riverui.features.workflows.domain.workflows import Task
from riverui.features.workflows.section import workflow_waits
from riverui.features.workflows.section.required import quoted
from riverui.features.workflows.section.signal_sources import SignalSource
from riverui.features.workflows.section.wait_models import (
    DepDiagnosis,
    Diagnostics,
    InputsDiagnosis,
    SignalDiagnosis,
    TermDiagnosis,
    TimerDiagnosis,
)
from riverui.features.workflows.waits.expressions import Expressions
from riverui.features.workflows.waits.store import WaitDep, WaitStore
from riverui.features.workflows.waits.verbs import diagnosis as wait_diagnosis
from riverui.features.workflows.waits.verbs.diagnosis import WaitDiagnosis
from riverui.features.workflows.waits.verbs.waits import MAX_SCANNED
from riverui.storage.interface import Executor
from riverui.storage.tables import PRO_WORKFLOW_TABLES, table_names
from riverui.web.api import serializers
from riverui.web.http.context import Service, dashboard

EXPRESSIONS = Service(make=lambda board: Expressions(), close=Expressions.close)
"""Evaluates the conditions of waits."""


async def source(executor: Executor, id: str, name: str) -> SignalSource | None:
    """Return a task of one of riverui's own workflows; None if River Pro's tables have to be read.
    Raise NotFound if neither has the workflow, or it has no such task; BadRequest without a name.
    """
    if not await WaitStore.installed(executor):
        return None
    waits = WaitStore(executor)
    found = await waits.own_workflow_get(id)
    if found is None:
        if await table_names(executor) >= PRO_WORKFLOW_TABLES:
            return None
        raise NotFound(f"Workflow not found: {id[:200]}.")
    if not name:
        raise BadRequest("`task_name` is missing.")
    row = await waits.workflow_wait_get(id, name)
    job = None if row is None else await executor.jobs.text_get(row.job_id)
    if job is None:
        raise NotFound(f"task {quoted(name)} not found in workflow {quoted(id)}.")
    return SignalSource(found, Task(job, read_object(job.metadata)), waits.own_workflow_signal_list)


async def diagnostics(request: Request, executor: Executor, own: SignalSource) -> Diagnostics:
    """Return the progress of a task's wait, evaluated now."""
    found = await wait_diagnosis.diagnose(
        executor, dashboard(request).get(EXPRESSIONS), own.found.id, own.task.name
    )
    keys = workflow_waits.signal_keys(own.task)
    return Diagnostics(
        eval_error=found.eval_error,
        inputs=InputsDiagnosis(
            deps=[_dep(dep) for dep in found.deps],
            signals=[_signals(found, key) for key in keys],
            timers=[_timer(found, name) for name in found.fires],
        ),
        inspected_at=serializers.instant(found.facts.now),
        phase=found.phase,
        signal_scan_count=found.scanned,
        signal_scan_limit=MAX_SCANNED,
        terms=[_term(found, name) for name in found.results],
        truncated=found.truncated,
        workflow_attempt=found.facts.attempt,
    )


def _dep(dep: WaitDep) -> DepDiagnosis:
    return DepDiagnosis(
        available=dep.state == JobState.COMPLETED,
        finalized_at=UNSET if dep.ended_at is None else serializers.instant(dep.ended_at),
        state=UNSET if dep.job_state is None else JobState(dep.job_state),
        task_name=dep.name,
    )


def _signals(found: WaitDiagnosis, key: str) -> SignalDiagnosis:
    count = found.signals.get(key)
    if count is None or not count.included_count:
        return SignalDiagnosis(included_count=0, key=key)
    return SignalDiagnosis(
        included_count=count.included_count, key=key, last_id=count.last_included_id
    )


def _timer(found: WaitDiagnosis, name: str) -> TimerDiagnosis:
    at, fired = found.fires[name], found.results[name].satisfied
    if at is None:
        return TimerDiagnosis(fired=fired, name=name)
    return TimerDiagnosis(fire_at=serializers.instant(at), fired=fired, name=name)


def _term(found: WaitDiagnosis, name: str) -> TermDiagnosis:
    result = found.results[name]
    return TermDiagnosis(
        matched_count=result.matched_count,
        required_count=found.required.get(name, 1),
        satisfied=result.satisfied,
        last_matched_id=UNSET if result.last_matched_id is None else result.last_matched_id,
        name=name,
    )
