"""The verbs on jobs in which features may take part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges

JobCall = Callable[[Executor, Sequence[int]], Awaitable[JobChanges]]
"""Does one thing to the jobs with these ids, inside the executor's transaction."""


class JobPilot(Protocol):
    """Carries out the verbs on jobs, with what features do besides: an engine's Pilot."""

    @property
    def retry(self) -> JobCall:
        """Make jobs available. UniqueConflict for all of them when one conflicts."""
        ...

    @property
    def cancel(self) -> JobCall:
        """Cancel waiting jobs and ask running ones to stop."""
        ...

    @property
    def delete(self) -> JobCall:
        """Delete jobs that are not running."""
        ...

    @property
    def verb_features(self) -> str:
        """Names of features of the program's own that take part in verbs: only dashboards with the
        same ones continue one another's operations. Empty for none.
        """
        ...

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return whether deleting is storage's call alone."""
        ...
