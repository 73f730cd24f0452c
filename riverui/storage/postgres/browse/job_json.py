"""Jobs in the JSON of the API, written by Postgres: one statement, one text."""

from __future__ import annotations

from riverui.domain.jobs import JobState
from riverui.domain.values import is_bigint
from riverui.storage.interface.params import EVERY, JobCursor, JobJsonPage, JobPageParams
from riverui.storage.interface.sql_blocks import EMPTY, Fragment
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.job_list import WHOLE_FINALIZED, JobListPlan, JobListPlans
from riverui.storage.postgres.browse.job_texts import JOB_LIMITS

_STATES = array_literals.texts([state.value for state in JobState])


class JobJson(JobListPlans):
    """Reads jobs as the JSON API returns them."""

    async def json_list(self, params: JobPageParams, *, args: int) -> JobJsonPage | None:
        """Return the page of `job_text_list` in JSON; None if a window might end the search, and
        where a job has args of more than `args` bytes or cannot be written as it stands.
        """
        backward = params.cursor is not None and params.cursor.before
        if backward or (params.filter.terms and params.window < EVERY):
            return None
        plan = await self._plan(params, by_state=True)
        if plan is None:
            return JobJsonPage(jobs="", last=None)
        values = {**plan.values, "args": args, "states": _STATES}
        rows = await self._listed("job_json_list", plan, values, **_jobs(plan))
        page = rows.first()
        if page.unwritten:
            return None
        last = None
        if page.found > params.limit > 0:
            last = JobCursor(at=None if plan.by_id else page.at, id=page.id)
        return JobJsonPage(jobs=page.jobs or "", last=last)

    async def json_get(self, id: int) -> str | None:
        """Return the job of `job_text_get` in JSON; None if there is none, and where it cannot
        be written as it stands.
        """
        if not is_bigint(id):
            return None
        values = {"id": id, "args": JOB_LIMITS["args"], "states": _STATES}
        found = await self._sql.prepared("job_json_get", values, job=Fragment("job_json_object"))
        job: str | None = found.value()
        return job


def _jobs(plan: JobListPlan) -> dict[str, Fragment]:
    """Return the fragments for the slots of the block: ended jobs need not be read twice."""
    if plan.whole is None or plan.whole.source != WHOLE_FINALIZED:
        return {**plan.slots, "job": Fragment("job_json_object")}
    return {
        "jobs": Fragment("job_json_finalized", **plan.whole.slots),
        "job": Fragment("job_json_object", known=EMPTY),
    }
