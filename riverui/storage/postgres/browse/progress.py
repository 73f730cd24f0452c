"""How far a group of jobs is."""

from __future__ import annotations

from contextlib import suppress

from riverui.domain.jobs import JobState
from riverui.errors import QueryTimeout
from riverui.storage.interface.params import JobFilter, JobOrder, JobProgress
from riverui.storage.postgres.job_list.filters import compile_filter
from riverui.storage.postgres.job_list.plan import Walks
from riverui.storage.postgres.job_list.rows import known_state
from riverui.storage.postgres.statements import Row

_TRY = "savepoint riverui_try; set local statement_timeout = 1000; set local enable_bitmapscan = on"
"""A second for River's GIN indexes, which are only read by way of a bitmap."""

_TRIED = "rollback to savepoint riverui_try; release savepoint riverui_try"


class Progress(Walks):
    """Counting a filter's jobs by state."""

    async def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """The filter's jobs by state; looks at no more than `window` rows where no index finds
        them.
        """
        rows = await self._progress_contains(filter)
        if rows is None:
            walk = await self._walk(
                filter, order=JobOrder.ID_DESC, limit=window, window=window, ordered=False
            )
            rows = (
                []
                if walk is None
                else await self._rows("job_progress", walk.parameters, walks=walk.sql)
            )
        counts = dict.fromkeys(JobState, 0)
        for state, count, _ in rows:
            if known_state(state):
                counts[JobState(state)] = count
        ended = any(row[2] for row in rows)
        return JobProgress(counts=counts, exact=not ended and sum(counts.values()) <= window)

    async def _progress_contains(self, filter: JobFilter) -> list[Row] | None:
        """The counts where args or metadata are asked for and their indexes answer in time; else
        None.
        """
        conditions = compile_filter(filter, self._queries)
        if not conditions.contains or conditions.impossible:
            return None
        terms = "".join(
            f" {condition.bound}" if condition in conditions.contains else condition.sql
            for condition in conditions.terms
        )
        parameters = dict(conditions.parameters)
        if conditions.states is not None:
            terms += " and " + self._queries.text("job_term_state").replace(":value", ":states")
            parameters["states"] = [state.value for state in conditions.states]
        rows = None
        await self._run(_TRY)
        with suppress(QueryTimeout):
            rows = await self._rows("job_progress_contains", parameters, terms=terms)
        await self._run(_TRIED)
        return rows
