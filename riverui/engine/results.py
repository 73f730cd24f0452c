"""Methods of a client that wait for jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from datetime import timedelta

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.job_lists import JobListParams
from riverui.engine.job_results import JobResults
from riverui.engine.setting_checks import check_span


class ResultMethods:
    """The waiting methods of a Client."""

    results: JobResults
    """Polls jobs for all waits."""

    # Polls are shared; `asyncio.timeout` would not report the job's state.
    async def wait(
        self,
        id: int,
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109
    ) -> JobRow:
        """Return a job once it has ended: completed, cancelled or discarded, wherever it is worked.

        None waits for ever. WaitTimeout, a TimeoutError, if it takes longer. NotFound if the job
        does not exist or its insert is not committed; JobGone, a NotFound, if it was deleted during
        the wait, or removed as a successful ephemeral job.
        """
        (row,) = await self.wait_many([id], timeout=timeout)
        return row

    async def wait_many(
        self,
        ids: Iterable[int],
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109
    ) -> list[JobRow]:
        """Return jobs in the order of the given ids, once all have ended; see `wait`."""
        ids = list(ids)
        async with aclosing(self.wait_each(ids, timeout=timeout)) as ended:
            rows = {row.id: row async for row in ended}
        return [rows[each] for each in ids]

    async def wait_each(
        self,
        ids: Iterable[int],
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109
    ) -> AsyncGenerator[JobRow, None]:
        """Yield jobs as they end, each once; see `wait`."""
        seconds = seconds_of(timeout)
        async with aclosing(self.results.ended(list(ids), seconds)) as ended:
            async for row in ended:
                yield row

    async def wait_all(
        self,
        params: JobListParams,
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109
    ) -> Mapping[JobState, int]:
        """Wait until every matching job has ended, and return how many there are in each state.

        None waits for ever; WaitTimeout, a TimeoutError, if it takes longer. Jobs that match later
        are waited for too; if none matches, it returns at once. It polls, at most once a second
        during a long wait, and less often if a poll takes long; it counts as `job_count` does.
        """
        return await self.results.all_ended(params, seconds_of(timeout))


def seconds_of(timeout: timedelta | None) -> float | None:
    """Return the timeout in seconds; ConfigError if it is not a valid span of time."""
    if timeout is None:
        return None
    check_span("timeout", timeout)
    return timeout.total_seconds()
