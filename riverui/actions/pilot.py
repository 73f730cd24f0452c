"""Who carries out what people and programs do to jobs: storage, with what riverui's own tables make
necessary besides, and the features of a client around that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from riverui.actions.job_part import Inner, JobPart, JobPartCall, KnownTables
from riverui.features.sequences.verbs import PRO_SEQUENCE_PART, SEQUENCE_PART
from riverui.features.workflows.verbs.jobs import WORKFLOW_PART
from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges

JobCall = Callable[[Executor, Sequence[int]], Awaitable[JobChanges]]
"""Does one thing to the jobs with these ids, inside the executor's transaction."""

PARTS: tuple[JobPart, ...] = (WORKFLOW_PART, SEQUENCE_PART, PRO_SEQUENCE_PART)
"""What takes part in retry, cancel and delete where its tables are there, the outermost first."""


class JobPilot(Protocol):
    """The verbs on jobs that a client's features may change; an engine's Pilot is one."""

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
        """Names of the client's features where some take part in verbs: only dashboards with the
        same go on with one another's operations. Empty for none.
        """
        ...

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return whether deleting is storage's call alone."""
        ...


def plain_retry(executor: Executor, ids: Sequence[int]) -> Awaitable[JobChanges]:
    """Make jobs available without any feature."""
    return executor.job_retry_many(ids)


def plain_cancel(executor: Executor, ids: Sequence[int]) -> Awaitable[JobChanges]:
    """Cancel jobs without any feature."""
    return executor.job_cancel_many(ids)


def plain_delete(executor: Executor, ids: Sequence[int]) -> Awaitable[JobChanges]:
    """Delete jobs without any feature."""
    return executor.job_delete_many(ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainJobPilot:
    """The storage calls alone, for who knows that there is nothing else."""

    retry: JobCall = plain_retry
    cancel: JobCall = plain_cancel
    delete: JobCall = plain_delete
    verb_features: str = ""

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return that it is."""
        return True


PLAIN = PlainJobPilot()


class PartsPilot:
    """The storage calls, with the parts around them whose tables are there: what a dashboard does
    without a client, and what is innermost in every client.
    """

    verb_features = ""

    def __init__(
        self, parts: Sequence[JobPart] = PARTS, *, tables: KnownTables | None = None
    ) -> None:
        self._parts = tuple(parts)
        self._tables = tables or KnownTables()

    async def retry(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Make jobs available, or what is to become of them instead."""
        calls = [part.retry for part in await self._there(executor)]
        return await _around(calls, plain_retry, executor, ids)

    async def cancel(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Cancel jobs, with what follows from it."""
        calls = [part.cancel for part in await self._there(executor)]
        return await _around(calls, plain_cancel, executor, ids)

    async def delete(self, executor: Executor, ids: Sequence[int]) -> JobChanges:
        """Delete jobs, with what follows from it."""
        calls = [part.delete for part in await self._there(executor)]
        return await _around(calls, plain_delete, executor, ids)

    async def deletes_plainly(self, executor: Executor) -> bool:
        """Return whether no part is there."""
        return not await self._there(executor)

    async def _there(self, executor: Executor) -> Sequence[JobPart]:
        names = await self._tables.names(executor)
        return [part for part in self._parts if part.tables & names]


async def _around(
    calls: Sequence[JobPartCall], plain: JobCall, executor: Executor, ids: Sequence[int]
) -> JobChanges:
    """Do a verb with the calls around it, the first one outermost."""
    inner: Inner = partial(plain, executor)
    for call in reversed(calls):
        inner = _within(call, executor, inner)
    return await inner(ids)


def _within(call: JobPartCall, executor: Executor, inner: Inner) -> Inner:
    return lambda ids: call(executor, ids, inner)
