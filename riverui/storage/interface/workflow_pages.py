"""Workflows of riverui's own tables, as pages and programs read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from riverui.domain.jobs import JobTextRow
from riverui.features.workflows.domain.pages import (
    TaskPlace,
    WorkflowGraph,
    WorkflowPageList,
    WorkflowPageParams,
    WorkflowPageRow,
)
from riverui.storage.interface.capabilities import Capability


class WorkflowPageExecutor(Protocol):
    """Reads workflows. Without their tables every call raises SchemaMissing."""

    async def workflow_page_list(self, params: WorkflowPageParams) -> WorkflowPageList:
        """Return one page of workflows by keyset, their tasks counted up to a cap. A search looks
        at so many workflows and no more.
        """
        ...

    async def workflow_page_get(self, id: str) -> WorkflowPageRow | None:
        """Return one workflow with its tasks counted, or None."""
        ...

    async def workflow_graph_get(
        self, id: str, *, tasks: int = 10_000, edges: int = 20_000
    ) -> WorkflowGraph:
        """Return the tasks of a workflow by name, and its edges, so many at most."""
        ...

    async def workflow_place_get(
        self, *, job_id: int | None = None, id: str = "", name: str = "", most: int = 20
    ) -> TaskPlace | None:
        """Return the place of a job, or of the task of that name, in its workflow, with `most`
        neighbours on either side; None where there is no such task.
        """
        ...

    async def workflow_failed_dep_list(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return by workflow how many of its tasks were cancelled as one that they waited for has
        failed, up to a cap.
        """
        ...

    async def workflow_page_job_list(self, id: str) -> Sequence[JobTextRow]:
        """Return the jobs of a workflow by id, 10,000 at most."""
        ...


WORKFLOW_PAGES: Capability[WorkflowPageExecutor] = Capability(
    "workflow_pages", "There are no pages for workflows."
)
