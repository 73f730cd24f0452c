"""Who carries out what people and programs do to jobs: storage, or the features of a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges

JobCall = Callable[[Executor, Sequence[int]], Awaitable[JobChanges]]
"""Does one thing to the jobs with these ids, inside the executor's transaction."""


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
    """The storage calls alone, for who knows no client."""

    retry: JobCall = plain_retry
    cancel: JobCall = plain_cancel
    delete: JobCall = plain_delete


PLAIN = PlainJobPilot()
