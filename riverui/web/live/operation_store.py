"""Where actions on all matching jobs are kept: in this process, or in a table that every dashboard
of the database sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from riverui.actions.verbs import Given, JobVerb
from riverui.domain.pace import Pace
from riverui.storage.interface.params import Count, JobCutoff, JobFilter, JobOrder
from riverui.web.live.operation_run import Operation


@dataclass(frozen=True, kw_only=True, slots=True)
class NewOperation:
    """What somebody asks for."""

    id: str
    verb: JobVerb
    given: Given
    """What the verb takes besides the jobs."""
    filter: JobFilter
    filter_text: str
    """The same as text, from which it can be read again."""
    order: JobOrder
    cutoff: JobCutoff
    total: Count
    user: str
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationList:
    """A page of operations, newest first."""

    operations: Sequence[Operation]
    older: str | None = None
    """The id before which the next page begins; None where this is the last."""


class OperationStore(Protocol):
    """Starts, finds and stops operations."""

    @property
    def shared(self) -> bool:
        """Whether other processes see them, and go on with them when this one ends."""
        ...

    async def begin(self, asked: NewOperation) -> Operation:
        """Start an operation and return it; where there is one of that id already, nothing is
        started and it is returned. BadRequest when enough are running.
        """
        ...

    async def find(self, id: str) -> Operation | None:
        """Return the operation; None where it is unknown or forgotten."""
        ...

    async def page(self, *, before: str | None = None, limit: int) -> OperationList:
        """Return operations, newest first; those started before the one of that id where one is
        given.
        """
        ...

    async def halt(self, operation: Operation, *, user: str) -> Operation:
        """Ask it to stop after the chunk at hand, and return it as it is then; do nothing where it
        has ended.
        """
        ...
