"""Failed jobs by their errors, and what is remembered of groups of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from riverui.domain.error_groups import (
    ErrorDecision,
    ErrorGroupRow,
    ErrorGroupSighting,
    FailedJobPlace,
    JobErrorRow,
    Reopening,
)
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

ERROR_GROUP_TABLE = OwnTable("riverui_error_group", 4)
"""Where it is remembered when a group was seen first, and what was decided about it."""


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


class ErrorGroupExecutor(Protocol):
    """Remembers groups. Without their table every call raises SchemaMissing."""

    async def error_group_list(self, fingerprints: Collection[str]) -> Sequence[ErrorGroupRow]:
        """Return what is remembered of these groups."""
        ...

    async def error_group_turn(self) -> bool:
        """Return whether it is our turn to write down what was seen, until the end of the
        transaction: one dashboard at a time does.
        """
        ...

    async def error_group_see(self, seen: Sequence[ErrorGroupSighting], *, most: int) -> None:
        """Write down what was seen of groups; new ones only while there are fewer than `most`."""
        ...

    async def error_group_reopen(self, ended: Sequence[Reopening]) -> None:
        """Make groups unresolved whose decision no longer holds, unless there is a later one."""
        ...

    async def error_group_decide(
        self, seen: ErrorGroupSighting, decision: ErrorDecision, *, username: str
    ) -> ErrorGroupRow:
        """Write down what somebody has decided about a group, and return it. A group of which
        nothing is remembered is written down with it.
        """
        ...

    async def error_group_delete_before(self, before: datetime, *, limit: int) -> int:
        """Forget groups that were seen and decided about before then for the last time, at most
        `limit`; return how many.
        """
        ...


ERRORS: Capability[ErrorExecutor] = Capability(
    "errors", "Failed jobs are not grouped by their errors."
)
ERROR_GROUPS: Capability[ErrorGroupExecutor] = Capability(
    "error_groups",
    "Groups of errors are told of the jobs that there are: they cannot be resolved or ignored.",
)
