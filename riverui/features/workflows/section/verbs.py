"""Cancels and retries a workflow, after a confirmation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import FINALIZED, JobState
from riverui.errors import BadRequest, NotFound
from riverui.features.workflows.domain.pages import ENDED_TASKS, WorkflowGraph, WorkflowPageRow
from riverui.features.workflows.domain.retry import retry_counts
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section.show import read
from riverui.features.workflows.verbs import workflows as actions
from riverui.storage.tables import MISSING
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import Form, form
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.format import number, plain
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

_MOST_NAME = 80
"""Characters of a workflow's name in a notice."""
_MODES: Mapping[str, tuple[str, str]] = {
    "failed_only": ("Failed tasks", "Only discarded and cancelled tasks."),
    "failed_and_downstream": (
        "Failed tasks and all that depend on them",
        "Discarded and cancelled tasks, and all that wait for them, completed or not.",
    ),
    "all": ("All tasks", "The whole workflow, including completed tasks."),
}
"""The modes of a retry, the one that does least first: label and explanation."""


class RetryMode(Struct, frozen=True, kw_only=True):
    """One mode of a retry, and its effect now."""

    name: str
    label: str
    explanation: str
    tasks: int
    """Tasks that run again."""
    at_once: int
    """Those that need not wait for others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowsConfirm:
    """Asks before a workflow is cancelled or retried; the same page answers a person with or
    without JavaScript.
    """

    template: ClassVar[str] = "workflows/confirm.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "workflows/_confirm.html"}

    verb: str
    """cancel or retry."""
    row: WorkflowPageRow
    open: int
    """Tasks that have not ended."""
    running: int
    """Those that are running, and are asked to stop."""
    complete: bool
    """Whether all tasks were read; else there are more."""
    modes: tuple[RetryMode, ...]
    address: str
    next: str
    """Where to go afterwards (a path below the base path)."""


async def cancel(request: Request) -> Response:
    """Cancel the unfinished tasks of a workflow, once the form has been sent."""
    posted, row, graph = await _asked(request)
    if posted.get("confirmed") != "1":
        return _confirm(request, "cancel", row, graph, posted)
    board = dashboard(request)
    rows = await actions.cancel(board.driver, row.id, time_limit=board.config.action_timeout)
    running = sum(job.state not in FINALIZED for job in rows)
    notice = Notice(
        level="success" if rows else "info",
        title=f"{_tasks(len(rows) - running)} of {_name(row)} cancelled",
        details=(_asked_to_stop(running),) if running else (),
    )
    return _done(request, row, posted, f"cancel: {len(rows)} changed", notice)


async def retry(request: Request) -> Response:
    """Run the tasks of a workflow again that the form's mode selects, once the form has
    been sent.
    """
    posted, row, graph = await _asked(request)
    if posted.get("confirmed") != "1":
        return _confirm(request, "retry", row, graph, posted)
    mode, reset = posted.get("mode", ""), posted.get("reset_history") == "1"
    if mode not in _MODES:
        raise BadRequest("Choose which tasks run again.")
    board = dashboard(request)
    rows = await actions.retry(
        board.driver,
        row.id,
        mode,
        reset_history=reset,
        time_limit=board.config.action_timeout,
    )
    notice = Notice(
        level="success" if rows else "info",
        title=f"{_tasks(len(rows))} of {_name(row)} run{'s' if len(rows) == 1 else ''} again",
        details=() if rows else ("No task of that kind was left to retry.",),
    )
    return _done(request, row, posted, f"retry {mode}: {len(rows)} changed", notice)


ROUTES = (
    GuardedRoute(
        "POST", "/workflows/{id:river_queue}/cancel", "workflows.cancel", "jobs.cancel", cancel
    ),
    GuardedRoute(
        "POST", "/workflows/{id:river_queue}/retry", "workflows.retry", "jobs.retry", retry
    ),
)
"""Their addresses."""


async def _asked(request: Request) -> tuple[Form, WorkflowPageRow, WorkflowGraph]:
    """Return what was posted, and the workflow; raise NotFound if it does not exist."""
    posted = await form(request)
    if not await dashboard(request).own_tables.there(WorkflowPageStore):
        raise NotFound(f"Workflow not found: this database lacks {MISSING}.")
    return posted, *await read(request, request.path_params["id"])


def _confirm(
    request: Request, verb: str, row: WorkflowPageRow, graph: WorkflowGraph, posted: Form
) -> Response:
    counts = retry_counts(graph)
    here = url(request, "workflows.show", id=row.id)
    return respond(
        request,
        WorkflowsConfirm(
            verb=verb,
            row=row,
            open=sum(task.state not in ENDED_TASKS for task in graph.tasks),
            running=sum(task.state == JobState.RUNNING.value for task in graph.tasks),
            complete=graph.complete,
            modes=tuple(
                RetryMode(
                    name=name,
                    label=label,
                    explanation=explanation,
                    tasks=counts[name].tasks,
                    at_once=counts[name].at_once,
                )
                for name, (label, explanation) in _MODES.items()
            ),
            address=url(request, f"workflows.{verb}", id=row.id),
            next=local_path(request, posted.get("next"), default=here),
        ),
    )


def _done(
    request: Request, row: WorkflowPageRow, posted: Form, what: str, notice: Notice
) -> Response:
    """Log the change, expire the counts, and return the notice."""
    dashboard(request).counts.expire()
    log.info("workflow %r by %r: %s", row.id, access(request).user, what)
    here = url(request, "workflows.show", id=row.id)
    next_url = local_path(request, posted.get("next"), default=here)
    return done(request, notice, next=next_url, changed="jobs")


def _asked_to_stop(count: int) -> str:
    if count == 1:
        return "1 running task was asked to stop"
    return f"{number(count)} running tasks were asked to stop"


def _name(row: WorkflowPageRow) -> str:
    return plain(row.name or row.id, _MOST_NAME)


def _tasks(count: int) -> str:
    return f"{number(count)} task{'' if count == 1 else 's'}"
