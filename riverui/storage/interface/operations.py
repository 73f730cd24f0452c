"""Actions on all matching jobs, kept in a table that every dashboard of the database sees.

One dashboard at a time holds an operation and works on it, for as long as its lease lasts. Each
time it changes hands its `fence` grows by one, and whoever shows an older one can write nothing
more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.pace import Pace, Watch
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable
from riverui.storage.interface.params import Count, JobCursor, JobCutoff, JobOrder

OPERATION_TABLE = OwnTable("riverui_operation", 1)
"""Where they are kept."""
OPERATION_PACE = OwnTable("riverui_operation", 6)
"""The same, once it can keep how fast an operation goes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationParams:
    """What was asked for."""

    id: str
    verb: str
    parameters: Mapping[str, str | int]
    """What the verb takes besides the jobs."""
    features: str
    """Names of the client features that take part, which whoever goes on must have as well."""
    username: str
    allowed: str
    """The right that whoever started it had: it goes on with that, whatever they lose later."""
    query: str
    """The filter as text."""
    order: JobOrder
    cutoff: JobCutoff
    total: Count
    """How many matched when it was asked for."""
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationProgress:
    """How far an operation has come."""

    changed: int = 0
    requested: int = 0
    """Running jobs that were asked to stop."""
    skipped: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Reason → how many jobs, and the first few ids."""
    cursor: JobCursor | None = None
    """Every job up to here was dealt with; None at the beginning."""
    watch: Watch | None = None
    """What became of the jobs; None where that does not matter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationRow:
    """One operation as it stands in the table."""

    params: OperationParams
    progress: OperationProgress
    status: str
    """running, stopping, done, stopped or failed."""
    created_at: datetime
    ended_at: datetime | None
    stopped_by: str | None
    """Who asked it to stop; None where nobody did."""
    error: str
    holder: str | None
    """The dashboard that works on it, or did so last."""
    fence: int
    held: bool
    """Whether that dashboard's lease still lasts."""
    unread: Sequence[str] = ()
    """Columns that hold what riverui cannot have written; their fields have the default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationLease:
    """What a dashboard shows with all that it writes about an operation that it holds."""

    id: str
    fence: int
    term: timedelta
    """For how long it holds the operation from each time on that it shows this."""


class OperationExecutor(Protocol):
    """Reads and writes operations. Without their table every call raises SchemaMissing."""

    async def operation_insert(
        self, params: OperationParams, *, holder: str, term: timedelta, most: int
    ) -> OperationRow | None:
        """Keep a new operation, held by `holder`, and return it; one of that id that is there
        already is returned as it stands. One with a pace needs a table that
        keeps it: see `operation_keeps_pace`.

        None where `most` others have not ended yet. In a transaction, so that two at once do not
        become too many.
        """
        ...

    async def operation_keeps_pace(self) -> bool:
        """Return whether the table can keep how fast an operation goes (OPERATION_PACE)."""
        ...

    async def operation_get(self, id: str) -> OperationRow | None:
        """Return one operation; None where it is unknown or forgotten."""
        ...

    async def operation_list(
        self, *, limit: int, before: str | None = None
    ) -> Sequence[OperationRow]:
        """Return operations, newest first; only those started before the one of the id `before`
        where that is given, and none where it is unknown.
        """
        ...

    async def operation_claim(
        self, *, holder: str, verbs: Collection[str], features: Collection[str], term: timedelta
    ) -> OperationRow | None:
        """Take over the oldest operation that has not ended and that nobody holds, of these verbs
        and of one of these lists of features; None where there is none.
        """
        ...

    async def operation_hold(self, lease: OperationLease) -> OperationRow | None:
        """Lock the operation until the end of the transaction, and return it; None where somebody
        else has it or it has ended.

        A transaction that then waits for its client for 5 seconds is ended by the server, so that
        a dashboard that has vanished does not keep the others waiting.
        """
        ...

    async def operation_save(self, lease: OperationLease, progress: OperationProgress) -> bool:
        """Write how far it has come and hold it for another term; whether it is still ours."""
        ...

    async def operation_renew(self, lease: OperationLease) -> str | None:
        """Hold it for another term and return its status; None where somebody else has it or it
        has ended.
        """
        ...

    async def operation_release(self, lease: OperationLease) -> None:
        """Let it go, so that another dashboard may go on at once."""
        ...

    async def operation_stop(self, id: str, *, username: str) -> OperationRow | None:
        """Ask whoever holds it to stop; do nothing where it has ended or was asked. Return it as it
        stands then, None where it is unknown.
        """
        ...

    async def operation_end(self, lease: OperationLease, *, status: str, error: str) -> bool:
        """Write how it ended; whether it was still ours. `error` is cut at 1,000 characters."""
        ...

    async def operation_delete_before(self, before: datetime, *, limit: int) -> int:
        """Forget operations that ended before then, at most `limit`; return how many."""
        ...


OPERATIONS: Capability[OperationExecutor] = Capability(
    "operations",
    "Actions on all matching jobs are known only to the process that does them, and are forgotten"
    " when it ends.",
)
