"""How far a group of jobs is."""

from __future__ import annotations

from riverui.domain.jobs import JobState
from riverui.storage.interface.params import JobFilter, JobOrder, JobPageParams, JobProgress
from riverui.storage.postgres.job_list.filters import compile_filter, state_term
from riverui.storage.postgres.job_list.plan import JobListPlans
from riverui.storage.postgres.job_list.rows import known_state
from riverui.storage.rows import Rows
from riverui.storage.sql import join

_TRY = 1000
"""Milliseconds for River's GIN indexes."""


class ProgressStatements(JobListPlans):
    """Counting a filter's jobs by state."""

    async def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state; look at no more than `window` rows where no index finds
        them.
        """
        rows = await self._progress_contains(filter)
        if rows is None:
            params = JobPageParams(
                filter=filter, order=JobOrder.ID_DESC, limit=window, window=window
            )
            plan = await self._plan(params, ordered=False)
            rows = (
                Rows()
                if plan is None
                else await self.rows("job_progress", plan.values, scans=plan.scans)
            )
        counts = dict.fromkeys(JobState, 0)
        ended = False
        for row in rows.records():
            ended |= row.ended
            if (state := known_state(row.state)) is not None:
                counts[state] = row.jobs
        return JobProgress(counts=counts, exact=not ended and sum(counts.values()) <= window)

    async def _progress_contains(self, filter: JobFilter) -> Rows | None:
        """Return the counts where args or metadata are asked for and their indexes answer in time;
        else None.
        """
        conditions = compile_filter(filter)
        if not conditions.contains or conditions.impossible:
            return None
        terms = [condition.bound or condition.sql for condition in conditions.contains]
        terms += [c.sql for c in conditions.terms if c not in conditions.contains]
        if conditions.states is not None:
            terms.append(state_term(conditions.states))
        async with self.trying_bitmaps(milliseconds=_TRY):
            return await self.rows("job_progress_contains", terms=join(terms))
        return None
