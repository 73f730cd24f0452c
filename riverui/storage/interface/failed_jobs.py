"""Failed jobs, to be grouped by their errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from riverui.features.error_groups.domain.groups import FailedJobPlace, JobErrorRow
from riverui.storage.interface.capabilities import Capability


class FailedJobs(NamedTuple):
    """The failed jobs that were found."""

    places: Sequence[FailedJobPlace]
    """The newest first."""
    more: bool
    """Whether there are others."""


class ErrorExecutor(Protocol):
    """Reads failed jobs: retryable and discarded ones. A job whose errors or metadata are too
    large to be unpacked is read as if it had none.
    """

    async def failed_job_list(self, *, limit: int) -> FailedJobs:
        """Find the newest failed jobs: discarded ones that ended last and retryable ones that are
        due next, by the time of their last attempt.
        """
        ...

    async def job_error_list(self, ids: Collection[int]) -> Sequence[JobErrorRow]:
        """Return what the last attempt of each of these jobs has left, those that have not failed
        any more left out. Messages are cut to 2,000 characters, traces to some 8,000.
        """
        ...


ERRORS: Capability[ErrorExecutor] = Capability(
    "errors", "Failed jobs are not grouped by their errors."
)
