"""The list of workflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import BadRequest, DatabaseError
from riverui.features.workflows.domain.pages import (
    WorkflowPageList,
    WorkflowPageParams,
    WorkflowPageRow,
)
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section import without_table
from riverui.features.workflows.section.words import counts_parts, counts_words
from riverui.storage.interface import Executor
from riverui.web.http.context import dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.view.facts import fact
from riverui.web.view.page_parts import Choice, Problem
from riverui.web.view.render import respond

_ROWS = 20
"""Workflows of a page: each may have thousands of tasks to count."""
_MATCH_LENGTH = 200
"""Characters of a search: longer than any id, and than most names."""
_KIND = "kind:"
"""The prefix of a search for workflows with a task of a kind."""
_OUTCOMES = {"completed": "Completed", "failed": "Failed", "cancelled": "Cancelled"}
"""Labels of workflows that ended in one way: riverui's own words."""
_STATES = {"": "Any state", "active": "Active", "inactive": "Ended", **_OUTCOMES}
"""Labels of the states to choose from, by River UI's words in addresses."""


class WorkflowLine(Struct, frozen=True, kw_only=True):
    """One workflow of the list."""

    row: WorkflowPageRow
    url: str
    parts: tuple[tuple[str, int], ...]
    """Its tasks by state, for the bar."""
    words: str
    """Its progress."""
    failed_url: str
    """Where its first failed task is selected; empty without one."""

    @property
    def took(self) -> timedelta | None:
        """How long it took; None while it is running."""
        if self.row.status == "active" or self.row.ended_at is None:
            return None
        return self.row.ended_at - self.row.began_at


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowsIndex:
    """The list of workflows."""

    template: ClassVar[str] = "workflows/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"workflows-list": "workflows/_list.html"}

    lines: tuple[WorkflowLine, ...]
    match: str
    state: str
    states: tuple[Choice, ...]
    looked_at: int | None
    """How many were searched, if more may match; else None."""
    self_url: str
    all_url: str
    first_url: str
    """The first page; empty if this is it."""
    older_url: str
    """The next page; empty if there is none."""
    below_url: str
    """This list with workflows started by jobs; empty if they are in it."""
    problem: Problem | None


async def index(request: Request) -> Response:
    """Return a page of workflows; without their table, redirect."""
    if not await dashboard(request).own_tables.there(WorkflowPageStore):
        return without_table.workflows(request)
    only(request, "after", "below", "limit", "match", "state")
    params = request.query_params
    state, after = params.get("state", ""), params.get("after", "")
    below = "1" if params.get("below") == "1" else ""
    match = params.get("match", "").strip()[:_MATCH_LENGTH]
    if state not in _STATES:
        raise BadRequest(f"Unknown state; the states are {', '.join(filter(None, _STATES))}.")
    kind = match.removeprefix(_KIND).strip() if match.startswith(_KIND) else ""
    asked = WorkflowPageParams(
        after=after,
        active={"active": True, "inactive": False}.get(state),
        outcome=state if state in _OUTCOMES else "",
        match="" if kind else match,
        kind=kind,
        top=not below,
        limit=_ROWS,
    )
    read = await fact(dashboard(request).driver, lambda executor: _read(executor, asked))
    status, problem = 200, None
    if isinstance(read, DatabaseError):
        status, page = error_page(request, read)
        problem = Problem(title=page.title, detail=page.detail)
        read = WorkflowPageList(rows=(), after=""), {}
    found, because = read
    here = url(request, "workflows.index")

    def address(**given: str) -> str:
        params = {"match": match, "state": state, "below": below} | given
        pairs = {name: value for name, value in params.items() if value}
        return f"{here}?{urlencode(pairs)}" if pairs else here

    return respond(
        request,
        WorkflowsIndex(
            lines=tuple(_line(request, row, because) for row in found.rows),
            match=match,
            state=state,
            states=tuple(
                Choice(value=name, label=label, url=address(state=name), current=name == state)
                for name, label in _STATES.items()
            ),
            looked_at=found.looked_at,
            self_url=address(after=after),
            all_url=here,
            first_url=address() if after else "",
            older_url=address(after=found.after) if found.after else "",
            below_url="" if below or match else address(below="1"),
            problem=problem,
        ),
        status=status,
    )


async def _read(
    executor: Executor, asked: WorkflowPageParams
) -> tuple[WorkflowPageList, Mapping[str, int]]:
    """Return a page of workflows, and how many tasks of each were cancelled because of others."""
    store = WorkflowPageStore(executor)
    found = await store.workflow_page_list(asked)
    cancelled = [row.id for row in found.rows if row.status == "failed"]
    return found, await store.workflow_failed_dep_list(cancelled) if cancelled else {}


def _line(request: Request, row: WorkflowPageRow, because: Mapping[str, int]) -> WorkflowLine:
    address = url(request, "workflows.show", id=row.id)
    return WorkflowLine(
        row=row,
        url=address,
        parts=tuple(counts_parts(row.counts)),
        words=counts_words(row.counts, because.get(row.id, 0)) if row.counts else "no tasks",
        failed_url=f"{address}?selected=failed" if row.status == "failed" else "",
    )
