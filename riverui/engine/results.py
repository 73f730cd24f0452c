"""The methods of a client that wait for jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from datetime import timedelta

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.job_lists import JobListParams
from riverui.engine.job_results import JobResults
from riverui.engine.setting_checks import check_span


class ResultMethods:
    """The waiting half of a Client."""

    results: JobResults
    """Looks at jobs for all who wait for them."""

    # Looks are shared: `asyncio.timeout` would not tell in which state a job is.
    async def wait(
        self,
        id: int,
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109
    ) -> JobRow:
        """Return a job once it has ended: completed, cancelled or discarded, wherever it is worked.

        None waits for ever. WaitTimeout, a TimeoutError, where it takes longer, NotFound where it
        is not there (or its insert is not committed), JobGone, which is one, where it was deleted
        meanwhile, or removed as an ephemeral job that went well.
        """
        (row,) = await self.wait_many([id], timeout=timeout)
        return row

    async def wait_many(
        self,
        ids: Iterable[int],
        *,
        timeout: timedelta | None = None,  # noqa: ASYNC109
    ) -> list[JobRow]:
        """Return jobs in the order of their ids here, once all have ended; see `wait`."""
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
        """Wait until every job that matches has ended, and return how many there are in each state.

        None waits for ever; WaitTimeout, a TimeoutError, where it takes longer. Jobs that match
        later are waited for as well, and where none matches it returns at once. All of this is
        found by looking, once a second at last, and less often where a look takes long; what is
        counted is that of `job_count`.
        """
        return await self.results.all_ended(params, seconds_of(timeout))


def seconds_of(timeout: timedelta | None) -> float | None:
    """Return how many seconds to wait; ConfigError for what is no span of time."""
    if timeout is None:
        return None
    check_span("timeout", timeout)
    return timeout.total_seconds()
