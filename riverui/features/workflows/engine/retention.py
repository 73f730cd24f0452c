"""Lets the leader's cleaners keep the finished tasks of unfinished workflows."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from riverui.domain.jobs import JobState
from riverui.engine.pilot import Inner
from riverui.features.workflows.store import WorkflowStore
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobDeleteBeforeParams

_MAX_LOOKS = 10
"""Searches in one transaction past jobs that are kept: at 10,000 each that is a second at most; the
next round continues from there.
"""

_Behind = dict[JobState, datetime]


class OpenWorkflowKeeper:
    """Removes finished jobs except those of open workflows. It remembers how far these reach, so
    that a cleaner does not read all of them again for each batch.
    """

    def __init__(self, *, most_looks: int = _MAX_LOOKS) -> None:
        self._behind: dict[tuple[tuple[str, ...], tuple[str, ...]], _Behind] = {}
        """By the queues of each cleaner."""
        self._most_looks = most_looks

    async def delete_before(
        self,
        executor: Executor,
        params: JobDeleteBeforeParams,
        do_inner: Inner[JobDeleteBeforeParams, int],
    ) -> int:
        """Remove up to `params.limit` finished jobs; return how many."""
        part = WorkflowStore(executor)
        cleaner = (params.queues_included, params.queues_excluded)
        removed = 0
        for _ in range(self._most_looks):
            behind = self._behind.setdefault(cleaner, {})
            page = replace(
                params,
                limit=params.limit - removed,
                keep_open_workflows=True,
                cancelled_behind=behind.get(JobState.CANCELLED),
                completed_behind=behind.get(JobState.COMPLETED),
                discarded_behind=behind.get(JobState.DISCARDED),
            )
            removed += await do_inner(page)
            if removed >= params.limit:
                break
            reach = await part.workflow_held_reach(page)
            if reach.looked == reach.held < page.limit:
                # All others are kept. The next round starts over: workflows may have ended.
                self._behind.pop(cleaner, None)
                break
            behind.update(reach.behind)
        return removed
