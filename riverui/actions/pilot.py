"""The verbs on jobs in which features may take part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Protocol

from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges

JobCall = Callable[[Executor, Sequence[int]], Awaitable[JobChanges]]
"""Applies a verb to the jobs with these ids, inside the executor's transaction."""


class JobPilot(Protocol):
    """Carries out the verbs on jobs, including the features' part in them: an engine's Pilot."""

    @property
    def retry(self) -> JobCall:
        """Make jobs available. Raises UniqueConflict, for all of them, if one conflicts."""
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
        """Names of the program's own features that take part in verbs; empty for none. Only
        dashboards with the same ones continue one another's operations.
        """
        ...

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return whether no feature takes part in deleting."""
        ...


class LatePilot:
    """A pilot without features of the program's own, created at its first use: it loads the engine,
    which a dashboard that only reads does not need.
    """

    verb_features = ""

    def __init__(self, make: Callable[[], JobPilot]) -> None:
        self._make = make

    @cached_property
    def _pilot(self) -> JobPilot:
        return self._make()

    async def retry(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Make jobs available."""
        return await self._pilot.retry(executor, ids)

    async def cancel(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Cancel waiting jobs and ask running ones to stop."""
        return await self._pilot.cancel(executor, ids)

    async def delete(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Delete jobs that are not running."""
        return await self._pilot.delete(executor, ids)

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return whether no feature takes part in deleting."""
        return await self._pilot.deletes_plainly(executor)
