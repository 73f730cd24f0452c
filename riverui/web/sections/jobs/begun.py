"""The workflows that a job has begun and waits for, on the job's page."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from riverui.domain.jobs import JobShowRow
from riverui.errors import DatabaseError
from riverui.features.workflows.domain.pages import WorkflowPageParams, WorkflowPageRow
from riverui.features.workflows.section.words import counts_parts, counts_words
from riverui.features.workflows.store import WORKFLOW_TABLE
from riverui.storage.interface import OWN_TABLES, WORKFLOW_PAGES
from riverui.web.http.context import dashboard
from riverui.web.http.urls import url

MOST = 5
"""Workflows shown: nearly every job that has begun some has begun one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BegunWorkflow:
    """One of them."""

    row: WorkflowPageRow
    url: str
    parts: tuple[tuple[str, int], ...]
    """Its tasks by state, for the bar."""
    words: str
    """How far it is."""


async def begun_workflows(request: Request, job: JobShowRow) -> tuple[BegunWorkflow, ...]:
    """Return the workflows that a job has begun, the newest first, one more than are shown at most;
    none where they cannot be read.
    """
    driver = dashboard(request).driver
    # Who waits for a workflow of its own has snoozed.
    if not job.snoozes or not {WORKFLOW_PAGES, OWN_TABLES}.issubset(driver.capabilities):
        return ()
    asked = WorkflowPageParams(parent=job.id, limit=MOST + 1)
    try:
        async with driver.reading() as executor:
            if not await WORKFLOW_TABLE.exists(executor):
                return ()
            found = await WORKFLOW_PAGES.on(executor).workflow_page_list(asked)
    except DatabaseError:
        return ()
    return tuple(
        BegunWorkflow(
            row=row,
            url=url(request, "workflows.show", id=row.id),
            parts=tuple(counts_parts(row.counts)),
            words=counts_words(row.counts) if row.counts else "no tasks",
        )
        for row in found.rows
    )
